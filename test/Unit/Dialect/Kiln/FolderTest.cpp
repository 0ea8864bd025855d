//===- FolderTest.cpp - Tests of constant folding ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kiln;
using namespace mlir;

namespace {

/// Provides fold(), which returns the splat to which a cast of a constant
/// folds. Reports a test failure if the cast does not fold.
class CastFolder : public testing::Test {
protected:
  CastFolder() : b(&context) {
    context.loadDialect<KilnDialect>();
    module = ModuleOp::create(b.getUnknownLoc());
    b.setInsertionPointToStart(module->getBody());
  }
  double fold(double value, Type from, Type to) {
    auto type = RankedTensorType::get({1 << 20}, from);
    Value constant = ConstantOp::create(b, b.getUnknownLoc(), type, value);
    auto op = CastOp::create(b, b.getUnknownLoc(), type.clone(to), constant);
    SmallVector<OpFoldResult> results;
    if (failed(op->fold(results))) {
      ADD_FAILURE() << value << " is not folded";
      return 0;
    }
    auto folded = dyn_cast<SplatElementsAttr>(cast<Attribute>(results[0]));
    if (!folded || folded.getType() != op.getType()) {
      ADD_FAILURE() << value << " is not a splat of the result's type";
      return 0;
    }
    return folded.getSplatValue<APFloat>().convertToDouble();
  }

  MLIRContext context;
  OpBuilder b;
  OwningOpRef<ModuleOp> module;
};

TEST_F(CastFolder, RoundsToNearestEven) {
  Type f64 = b.getF64Type(), f32 = b.getF32Type(), bf16 = b.getBF16Type();
  EXPECT_EQ(fold(0.1, f64, f32), double(0.1f));
  EXPECT_EQ(fold(0.1, f32, f64), double(0.1f));
  EXPECT_EQ(fold(0.5, bf16, f64), 0.5);
  // Ties round to even, downwards and upwards.
  EXPECT_EQ(fold(1 + 0x1p-8, f32, bf16), 1);
  EXPECT_EQ(fold(1 + 0x3p-8, f32, bf16), 1 + 0x1p-6);
  // The value is rounded directly to bf16. Rounding it to f32 first would give
  // a tie, which would be rounded to 1.
  EXPECT_EQ(fold(1 + 0x1p-8 + 0x1p-40, f64, bf16), 1 + 0x1p-7);
  EXPECT_EQ(fold(1e39, f64, f32), HUGE_VAL);
  EXPECT_EQ(fold(0x1.ffp127, f32, bf16), HUGE_VAL);
  EXPECT_EQ(fold(-HUGE_VAL, f32, bf16), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(fold(NAN, f32, bf16)));
  EXPECT_TRUE(std::isnan(fold(NAN, bf16, f64)));
  // Subnormal numbers, and numbers that round to zero or to the smallest
  // subnormal.
  EXPECT_EQ(fold(0x1p-133, f32, bf16), 0x1p-133);
  EXPECT_EQ(fold(0x1p-134, f32, bf16), 0);
  EXPECT_EQ(fold(0x1.8p-134, f64, bf16), 0x1p-133);
  EXPECT_TRUE(std::signbit(fold(-1e-60, f64, f32)));
}

} // namespace
