//===- KilnFusion.cpp - Families, costs and ties of kiln ops ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

#define KILN_FAMILY(OP, FAMILY)                                                \
  Family OP::getFamily() { return Family::FAMILY; }

KILN_FAMILY(NegOp, Row)
KILN_FAMILY(ExpOp, Row)
KILN_FAMILY(LogOp, Row)
KILN_FAMILY(SqrtOp, Row)
KILN_FAMILY(RsqrtOp, Row)
KILN_FAMILY(TanhOp, Row)
KILN_FAMILY(SigmoidOp, Row)
KILN_FAMILY(AddOp, Row)
KILN_FAMILY(SubOp, Row)
KILN_FAMILY(MulOp, Row)
KILN_FAMILY(DivOp, Row)
KILN_FAMILY(ScaleOp, Row)
KILN_FAMILY(ReluOp, Row)
KILN_FAMILY(SiluOp, Row)
KILN_FAMILY(GeluOp, Row)
KILN_FAMILY(SwigluOp, Row)
KILN_FAMILY(ReluGradOp, Row)
KILN_FAMILY(SiluGradOp, Row)
KILN_FAMILY(GeluGradOp, Row)
KILN_FAMILY(SwigluGradOp, Row)
KILN_FAMILY(ConstantOp, Row)
KILN_FAMILY(CastOp, Row)
KILN_FAMILY(LayerNormOp, Row)
KILN_FAMILY(NormalizeOp, Row)
KILN_FAMILY(AffineOp, Row)
KILN_FAMILY(LayerNormGradOp, Row)
KILN_FAMILY(RmsNormOp, Row)
KILN_FAMILY(RmsNormGradOp, Row)
KILN_FAMILY(SoftmaxOp, Row)
KILN_FAMILY(SoftmaxGradOp, Row)
KILN_FAMILY(SoftmaxCrossEntropyOp, Row)
KILN_FAMILY(ScaledTotalOp, Row)
KILN_FAMILY(EmbeddingOp, Row)
KILN_FAMILY(EmbeddingGradOp, Scatter)
KILN_FAMILY(DropoutOp, Row)
KILN_FAMILY(RopeOp, Rope)
KILN_FAMILY(SumSquaresOp, Row)
KILN_FAMILY(ClipFactorOp, Row)
KILN_FAMILY(MatmulOp, Gemm)
KILN_FAMILY(AttentionOp, Attention)
KILN_FAMILY(AttentionGradOp, Attention)
KILN_FAMILY(ReducePartialOp, Row)
KILN_FAMILY(ReduceCombineOp, Row)
KILN_FAMILY(ReshapeOp, View)
KILN_FAMILY(TransposeOp, Permute)
KILN_FAMILY(ConcatOp, Concat)
KILN_FAMILY(PadOp, Permute)
KILN_FAMILY(SelectRowOp, Row)
KILN_FAMILY(ReadOp, State)
KILN_FAMILY(WriteOp, State)
KILN_FAMILY(ReturnOp, Structure)
KILN_FAMILY(AccumulateOp, Structure)
KILN_FAMILY(YieldOp, Structure)
KILN_FAMILY(PhaseOp, Structure)
KILN_FAMILY(RecomputeOp, Structure)
KILN_FAMILY(CopyOutOp, Copy)
KILN_FAMILY(CopyInOp, Copy)
KILN_FAMILY(CopyWaitOp, Copy)
KILN_FAMILY(BucketEncodeOp, Bucket)
KILN_FAMILY(BucketDecodeOp, Bucket)
KILN_FAMILY(SketchRowsOp, Sketch)

#undef KILN_FAMILY

/// A broadcast fits a row program when the operand covers leading dimensions
/// (one value per row), trailing ones (per column, or repeating every few
/// rows), or is one element; otherwise it is a strided copy. So is one of
/// integers, which row programs only read.
Family BroadcastOp::getFamily() {
  if (!isa<FloatType>(getX().getType().getElementType()))
    return Family::Permute;
  RowSpace space = getRowSpace();
  RowBuilder probe(space.rows, space.cols);
  return succeeded(buildRows(probe)) ? Family::Row : Family::Permute;
}

/// A reduction of trailing dimensions is a row reduction; others are strided.
Family ReduceOp::getFamily() {
  RowSpace space = getRowSpace();
  RowBuilder probe(space.rows, space.cols);
  return succeeded(buildRows(probe)) ? Family::Row : Family::Permute;
}

/// A slice is a view when its elements are rows of equal length at a fixed
/// distance: all cut dimensions but the last lie in front of whole ones, or
/// only the last dimension is cut.
Family SliceOp::getFamily() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  size_t rank = from.size();
  // Only the last dimension cut: strided rows.
  bool onlyLast = true;
  for (size_t i = 0; i + 1 < rank; ++i)
    onlyLast &= from[i] == to[i];
  if (onlyLast)
    return Family::View;
  // One contiguous block: size-1 dimensions, then a cut one, then whole ones.
  size_t i = 0;
  while (i < rank && to[i] == 1)
    ++i;
  for (size_t j = i + 1; j < rank; ++j)
    if (from[j] != to[j])
      return Family::Permute;
  return Family::View;
}

//===----------------------------------------------------------------------===//
// Cheap to rebuild
//===----------------------------------------------------------------------===//

bool ReluOp::isCheapToRebuild() { return true; }
bool SiluOp::isCheapToRebuild() { return true; }
bool GeluOp::isCheapToRebuild() { return true; }
bool SwigluOp::isCheapToRebuild() { return true; }
bool CastOp::isCheapToRebuild() { return true; }
bool NormalizeOp::isCheapToRebuild() { return true; }
bool AffineOp::isCheapToRebuild() { return true; }
bool DropoutOp::isCheapToRebuild() { return true; }

//===----------------------------------------------------------------------===//
// Ties
//===----------------------------------------------------------------------===//

/// The position of an optional accumulation operand, or -1.
static int64_t accumulateOperand(Operation *op, Value accumulate) {
  return accumulate ? static_cast<int64_t>(op->getNumOperands()) - 1 : -1;
}

int64_t MatmulOp::getTiedOperand(unsigned) {
  return accumulateOperand(*this, getAccumulate());
}
int64_t EmbeddingGradOp::getTiedOperand(unsigned) {
  return accumulateOperand(*this, getAccumulate());
}
int64_t ReduceCombineOp::getTiedOperand(unsigned) {
  return accumulateOperand(*this, getAccumulate());
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

int64_t MatmulOp::getFlops() {
  return 2 * getBatch() * getM() * getN() * getK();
}

/// Multiply-adds of one score matrix; a causal mask halves them.
static int64_t scoreFlops(int64_t rows, int64_t cols, int64_t length,
                          bool causal) {
  return 2 * rows * cols * (causal ? (length + 1) / 2 : length);
}

int64_t AttentionOp::getFlops() {
  auto shape = getQ().getType().getShape();
  return 2 * scoreFlops(shape[0], shape[1], getSequenceLength(), getCausal());
}

int64_t AttentionGradOp::getFlops() {
  auto shape = tensorTypeOf(getQ()).getShape();
  return 5 * scoreFlops(shape[0], shape[1],
                        shape[0] / static_cast<int64_t>(getSequences()),
                        getCausal());
}
