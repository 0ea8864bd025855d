//===- RowOps.h - Fixture of tests of row ops -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_ROWOPS_H
#define KILN_TEST_UNIT_TARGET_ROWOPS_H

#include "RowRunner.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kiln::test {

/// When a test ends, runs all cases that the test has added to `runner`.
class RowOps : public testing::Test {
protected:
  void TearDown() override { runner.runAll(); }
  RowRunner runner;
};

inline const std::vector<std::pair<int64_t, int64_t>> kFewSizes = {
    {3, 7}, {2, 64}, {5, 200}};

inline void makePositive(HostTensor &tensor) {
  for (double &x : tensor.reals)
    x = std::abs(static_cast<float>(x)) + 0.125f;
}

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_ROWOPS_H
