//===- ShardOpsTest.cpp - Row ops of tensor parallelism -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests ops whose results depend on the index of the rank. RowRunner.h
// describes the checks.
//
//===----------------------------------------------------------------------===//

#include "RowRunner.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;

namespace {

class ShardOps : public testing::Test {
protected:
  void TearDown() override { runner.runAll(); }
  RowRunner runner;
};

const std::vector<std::pair<int64_t, int64_t>> kSizes = {{3, 7}, {5, 200}};

/// Fills targets with classes of all ranks. Every fourth target is ignored.
void fillTargets(HostTensor &tensor, int64_t classes) {
  for (auto [i, x] : llvm::enumerate(tensor.integers))
    x = i % 4 == 1 ? kIgnoreIndex : (i * 7919 + classes - 1) % classes;
}

/// A division over three ranks: the rank to test, and the number of padding
/// columns of the last rank.
struct Division {
  int64_t rank, missing;
};

TEST_F(ShardOps, CrossEntropy) {
  for (auto [rank, missing] :
       {Division{0, 2}, Division{1, 0}, Division{2, 0}, Division{2, 2}})
    for (auto size : kSizes) {
      int64_t classes = 3 * size.second - missing;
      std::string attributes =
          " {classes = " + std::to_string(classes) + "} : ";
      auto fill = [=, rank = rank](unsigned argument, HostTensor &tensor) {
        if (argument == 1)
          fillTargets(tensor, classes);
        if (argument == 2)
          tensor.integers[0] = rank;
      };
      RowCase sums = {"%x: tensor<$Rx$Cx$T>, %t: tensor<$Rxi32>, %r: "
                      "tensor<i32>",
                      "%s, %a = kiln.shard_softmax %x, %t, %r" + attributes +
                          "(tensor<$Rx$Cx$T>, tensor<$Rxi32>, tensor<i32>) -> "
                          "(tensor<$Rx$F>, tensor<$Rx$F>)",
                      "%s : tensor<$Rx$F>, %a : tensor<$Rx$F>"};
      sums.fill = fill;
      runner.add(sums, {size});
      RowCase losses = {
          "%x: tensor<$Rx$Cx$T>, %t: tensor<$Rxi32>, %r: tensor<i32>, %s: "
          "tensor<$Rx$F>, %a: tensor<$Rx$F>, %k: tensor<f64>",
          "%l, %d = kiln.shard_cross_entropy %x, %t, %r, %s, %a, %k" +
              attributes +
              "(tensor<$Rx$Cx$T>, tensor<$Rxi32>, tensor<i32>, tensor<$Rx$F>, "
              "tensor<$Rx$F>, tensor<f64>) -> (tensor<$Rx$F>, "
              "tensor<$Rx$Cx$T>)",
          "%l : tensor<$Rx$F>, %d : tensor<$Rx$Cx$T>"};
      losses.fill = fill;
      runner.add(losses, {size});
    }
}

TEST_F(ShardOps, Embedding) {
  for (int64_t rank : {0, 2}) {
    RowCase rowCase = {"%i: tensor<$Rxi32>, %t: tensor<5x$Cx$T>, %r: "
                       "tensor<i32>",
                       "%y = kiln.embedding %i, %t, %r {padding_index = 11} : "
                       "(tensor<$Rxi32>, tensor<5x$Cx$T>, tensor<i32>) -> "
                       "tensor<$Rx$Cx$T>",
                       "%y : tensor<$Rx$Cx$T>"};
    rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
      if (argument == 0)
        fillTargets(tensor, 15);
      if (argument == 2)
        tensor.integers[0] = rank;
    };
    runner.add(rowCase, kSizes);
  }
}

TEST_F(ShardOps, Rows) {
  for (int64_t rank : {0, 2}) {
    RowCase rowCase = {"%i: tensor<$Rx$Cxi32>, %r: tensor<i32>",
                       "%y = kiln.shard_rows %i, %r {rows = 5, padding_index = "
                       "11} : (tensor<$Rx$Cxi32>, tensor<i32>) -> "
                       "tensor<$Rx$Cxi32>",
                       "%y : tensor<$Rx$Cxi32>"};
    rowCase.hasNarrowFloats = false;
    rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
      if (argument == 0)
        fillTargets(tensor, 15);
      else
        tensor.integers[0] = rank;
    };
    runner.add(rowCase, kSizes);
  }
}

} // namespace
