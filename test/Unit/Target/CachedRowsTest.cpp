//===- CachedRowsTest.cpp - Rows cached in shared memory ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that GPU kernels that cache rows of more than 1,024 columns in shared
// memory give the same bits as the CPU kernels. The tests cover rows with any
// alignment, rows of a few and of many tiles, per-column values, random
// numbers, and values that later sweeps read back.
//
//===----------------------------------------------------------------------===//

#include "ModelRows.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

namespace {

class CachedRows : public testing::Test {
protected:
  void TearDown() override { runner.runAll(); }
  RowRunner runner;
};

RowCase softmaxCase() {
  return {"%x: tensor<$Rx$Cx$T>",
          "%y = kiln.softmax %x : (tensor<$Rx$Cx$T>) -> tensor<$Rx$Cx$T>",
          "%y : tensor<$Rx$Cx$T>"};
}

RowCase rmsNormCase() {
  return {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>",
          "%y, %rstd = kiln.rms_norm %x, %g {eps = 1.0e-05} : "
          "(tensor<$Rx$Cx$T>, tensor<$Cx$F>) -> (tensor<$Rx$Cx$T>, "
          "tensor<$Rx$F>)",
          "%y : tensor<$Rx$Cx$T>, %rstd : tensor<$Rx$F>"};
}

TEST_F(CachedRows, Norms) {
  runner.add(layerNormCase(), {{3, 1025}, {2, 4096}, {3, 4097}});
  runner.add(rmsNormCase(), {{3, 1088}, {2, 2048}, {2, 8195}});
}

/// With this many rows, a thread block processes several rows one by one.
TEST_F(CachedRows, RowsInTurn) {
  runner.add(layerNormCase(), {{1201, 1027}, {18, 2052}});
}

TEST_F(CachedRows, Softmax) {
  runner.add(softmaxCase(), {{3, 1025}, {2, 4096}, {3, 4097}});
}

TEST_F(CachedRows, ReadBack) {
  runner.add(residualCase(), {{2, 1088}, {2, 1100}, {2, 2051}});
}

TEST_F(CachedRows, Classifier) {
  for (int64_t classes : {1025, 4096, 16500})
    runner.add(classifierCase(classes), {{4, classes}});
  RowCase padded = classifierCase(2001);
  padded.padding = 15;
  runner.add(padded, {{3, 2001}});
}

TEST_F(CachedRows, LongClassifier) {
  runner.add(classifierCase(50257), {{2, 50257}});
}

/// Some rows have the maximum 0 and contain both 0 and -0. The sign of the
/// result depends on the order in which the elements are compared, so this
/// order must be the defined one.
TEST_F(CachedRows, Maxima) {
  RowCase rowCase = {"%x: tensor<$Rx$Cx$T>",
                     "%s = kiln.reduce sum %x dims [1] : tensor<$Rx$Cx$T> to "
                     "tensor<$Rx$T>\n"
                     "%y = kiln.reduce max %x dims [1] : tensor<$Rx$Cx$T> to "
                     "tensor<$Rx$T>",
                     "%s : tensor<$Rx$T>, %y : tensor<$Rx$T>"};
  rowCase.fill = [](unsigned, HostTensor &tensor) {
    for (auto [i, x] : llvm::enumerate(tensor.reals))
      x = i * i % 97 ? -std::abs(x) : i % 5 < 2 ? 0.0 : -0.0;
  };
  runner.add(rowCase, {{40, 1063}});
  RowCase twice = rowCase;
  twice.body = "%y = kiln.reduce max %x dims [1] : tensor<$Rx$Cx$T> to "
               "tensor<$Rx$T>\n"
               "%w = kiln.broadcast %y dims [0] : tensor<$Rx$T> to "
               "tensor<$Rx$Cx$T>\n"
               "%d = kiln.sub %x, %w : tensor<$Rx$Cx$T>\n"
               "%s = kiln.reduce max %d dims [1] : tensor<$Rx$Cx$T> to "
               "tensor<$Rx$T>";
  runner.add(twice, {{40, 1063}, {5, 4200}});
}

} // namespace
