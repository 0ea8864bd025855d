//===- RowProgramsTest.cpp - Analysis that caches row programs --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifies that equal dispatches share a program, and that changing a dispatch
// gives the dispatch a new program, unless only its operands change.
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"

#include "kiln/Dialect/Kiln/IR/RowProgramText.h"
#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;
using namespace mlir;

namespace {

/// Returns the text of a dispatch with a norm.
std::string norm(const std::string &name, const std::string &eps,
                 const std::string &gain = "%g", const std::string &b = "%b") {
  return "%" + name +
         " = kiln.dispatch row(%x, %g, %b) space [8, 64] : (tensor<8x64xf32>, "
         "tensor<64xf32>, tensor<64xf32>) -> tensor<8x64xf32> {\n"
         "^bb0(%x_: tensor<8x64xf32>, %g_: tensor<64xf32>, %b_: "
         "tensor<64xf32>):\n"
         "%y, %mean, %rstd = kiln.layer_norm %x_, " +
         gain + "_, " + b + "_ {eps = " + eps +
         " : f64} : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> "
         "(tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)\n"
         "kiln.yield %y : tensor<8x64xf32>\n}\n";
}

class RowProgramsTest : public testing::Test {
protected:
  RowProgramsTest()
      : test("kiln.program @f(%x: tensor<8x64xf32> {kiln.name = \"x\"}, %g: "
             "tensor<64xf32> {kiln.name = \"g\"}, %b: tensor<64xf32> "
             "{kiln.name = \"b\"}) -> tensor<8x64xf32> attributes {kind = "
             "#kiln.program_kind<train>} {\n" +
             norm("0", "1.0e-05") + norm("1", "1.0e-05") +
             norm("2", "1.0e-06") + norm("3", "1.0e-05", "%b", "%g") +
             "kiln.return %0 : tensor<8x64xf32>\n}\n") {
    if (!test.valid())
      ADD_FAILURE() << test.diagnostics();
    else
      llvm::append_range(dispatches,
                         test.program("f").getBlock().getOps<DispatchOp>());
  }

  LayerNormOp normOf(unsigned i) {
    return cast<LayerNormOp>(dispatches[i].getBody().front().front());
  }

  TestModule test;
  SmallVector<DispatchOp> dispatches;
  RowPrograms programs;
};

TEST_F(RowProgramsTest, EqualDispatchesShareAProgram) {
  const row::RowProgram *program = programs.get(dispatches[0]);
  ASSERT_TRUE(program);
  EXPECT_TRUE(*program == *buildRowProgram(dispatches[0]));
  EXPECT_EQ(program, programs.get(dispatches[0]));
  EXPECT_EQ(program, programs.get(dispatches[1]));
  EXPECT_EQ(programs.size(), 1u);
  for (unsigned i : {2, 3}) {
    ASSERT_TRUE(programs.get(dispatches[i]));
    EXPECT_TRUE(*programs.get(dispatches[i]) ==
                *buildRowProgram(dispatches[i]));
    EXPECT_FALSE(*program == *programs.get(dispatches[i]));
  }
  EXPECT_EQ(programs.size(), 3u);
}

TEST_F(RowProgramsTest, ChangesAreSeen) {
  row::RowProgram before = *programs.get(dispatches[0]);
  auto expectNew = [&](bool isOther) {
    ASSERT_TRUE(programs.get(dispatches[0]));
    row::RowProgram now = *programs.get(dispatches[0]);
    EXPECT_TRUE(now == *buildRowProgram(dispatches[0]));
    EXPECT_EQ(isOther, !(now == before));
    before = now;
  };
  Builder builder(dispatches[0].getContext());
  normOf(0)->setAttr("eps", builder.getF64FloatAttr(1e-3));
  expectNew(true);
  // Change an operand of an op in the body, then the values that the body
  // yields.
  Block &body = dispatches[0].getBody().front();
  normOf(0)->setOperand(1, body.getArgument(2));
  expectNew(true);
  OpBuilder inBody = OpBuilder::atBlockTerminator(&body);
  Value negated = NegOp::create(inBody, body.front().getLoc(),
                                normOf(0).getY().getType(), normOf(0).getY());
  body.getTerminator()->setOperand(0, negated);
  expectNew(true);
  // The operands of a dispatch are not part of its program.
  dispatches[0]->setOperand(1, dispatches[0]->getOperand(2));
  expectNew(false);
}

/// A new dispatch gets its own program even if it has the address of an erased
/// dispatch.
TEST_F(RowProgramsTest, ErasedDispatchesLeaveNoProgram) {
  ASSERT_TRUE(programs.get(dispatches[1]));
  OpBuilder builder(dispatches[2]);
  bool isReused = false;
  for (int i = 0; i < 64; ++i) {
    Operation *old = dispatches[1];
    DispatchOp next = dispatches[i % 2 ? 2 : 3];
    old->erase();
    dispatches[1] = cast<DispatchOp>(builder.clone(*next));
    isReused |= dispatches[1].getOperation() == old;
    ASSERT_TRUE(programs.get(dispatches[1]));
    EXPECT_TRUE(*programs.get(dispatches[1]) == *buildRowProgram(next));
  }
  EXPECT_TRUE(isReused) << "the test needs an allocator that reuses memory";
  EXPECT_EQ(programs.size(), 3u);
}

TEST_F(RowProgramsTest, FailuresAreKept) {
  Block &body = dispatches[0].getBody().front();
  EXPECT_FALSE(programs.get(rowOpsOf(body, 16, 32)));
  EXPECT_FALSE(programs.get(rowOpsOf(body, 16, 32)));
  EXPECT_EQ(programs.size(), 1u);
  EXPECT_TRUE(programs.get(rowOpsOf(body, 8, 64)));
}

} // namespace
