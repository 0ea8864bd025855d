//===- ModelRowsTest.cpp - Fused row kernels of a training step -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the bits of kernels on bf16 rows that combine column sums, per-column
// values and random numbers. Each of these features affects how the kernel
// distributes the work among the threads of a GPU.
//
//===----------------------------------------------------------------------===//

#include "ModelRows.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

namespace {

class ModelRows : public testing::Test {
protected:
  void TearDown() override { runner.runAll(); }
  RowRunner runner;
};

TEST_F(ModelRows, Residual) {
  runner.add(residualCase(), {{2, 70}, {20, 200}, {4, 768}, {2, 1100}});
}

TEST_F(ModelRows, LayerNormBackward) {
  runner.add(layerNormBackwardCase(66), {{66, 72}});
  runner.add(layerNormBackwardCase(6, true), {{6, 70}, {6, 200}, {6, 768}});
  runner.add(layerNormBackwardCase(66, true), {{66, 72}});
}

TEST_F(ModelRows, Sums) {
  for (int64_t rows : {64, 66, 70}) {
    runner.add(biasGradientCase(rows), {{rows, 64}, {rows, 72}});
    runner.add(geluBackwardCase(rows), {{rows, 72}});
  }
}

TEST_F(ModelRows, ValuesPerColumn) {
  runner.add(affineCase(), {{1, 64}, {130, 72}, {131, 200}, {129, 66}});
}

/// These programs contain no norm and thus no row reduction, so several thread
/// groups may share a row.
TEST_F(ModelRows, Dropout) {
  runner.add(dropoutAndAddCase(), {{6, 64}, {34, 72}, {66, 200}, {4, 70}});
  for (int64_t rows : {4, 70}) {
    RowCase rowCase = {
        "%x: tensor<$Rx$Cx$T>, %c: tensor<$Cx$F>, %r: tensor<1x3xi64>",
        "%y = kiln.affine %x, %c : (tensor<$Rx$Cx$T>, tensor<$Cx$F>) -> "
        "tensor<$Rx$Cx$T>\n"
        "%d = kiln.dropout %y, %r {p = 2.5e-01, key = 7, sequences = 2} : "
        "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>\n"
        "%e = kiln.dropout %x, %r {p = 5.0e-01, key = 8, sequences = 2} : "
        "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>",
        "%d : tensor<$Rx$Cx$T>, %e : tensor<$Rx$Cx$T>"};
    runner.add(rowCase, {{rows, 64}, {rows, 72}, {rows, 71}});
    std::string partial = partialSums(rows);
    rowCase.body +=
        "\n%p = kiln.reduce_partial %d chunk 64 : tensor<$Rx$Cx$T> to " +
        partial;
    rowCase.results += ", %p : " + partial;
    runner.add(rowCase, {{rows, 64}, {rows, 72}, {rows, 71}});
  }
}

/// Computes the maxima of rows with any alignment. Threads exchange partial
/// maxima. If a row has the maximum 0 but includes both 0 and -0, the sign of
/// the result depends on the order of the comparisons. Some rows contain NaN.
TEST_F(ModelRows, MaximaOfLongRows) {
  RowCase rowCase = {"%x: tensor<$Rx$Cx$T>",
                     "%y = kiln.reduce max %x dims [1] : tensor<$Rx$Cx$T> to "
                     "tensor<$Rx$T>",
                     "%y : tensor<$Rx$T>"};
  rowCase.fill = [](unsigned, HostTensor &tensor) {
    for (auto [i, x] : llvm::enumerate(tensor.reals))
      x = i * i % 97 ? -std::abs(x) : i % 5 < 2 ? 0.0 : -0.0;
  };
  runner.add(rowCase, {{40, 1063}});
  auto zeros = rowCase.fill;
  rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
    zeros(argument, tensor);
    for (int64_t row = 1; row < 40; row += 3)
      tensor.reals[row * 1063 + row * 25] = std::nan("");
  };
  runner.add(rowCase, {{40, 1063}});
}

TEST_F(ModelRows, Classifier) {
  for (int64_t classes : {64, 1000, 5003})
    runner.add(classifierCase(classes), {{7, classes}});
}

} // namespace
