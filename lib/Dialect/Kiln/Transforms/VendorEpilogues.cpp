//===- VendorEpilogues.cpp - Epilogues of the vendor library --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Merges a matmul with ops that a GPU's vendor library can compute as an
// epilogue: the addition of a bias, gelu of the sum, the multiplication by the
// derivative of gelu, or the sum over one dimension of a GEMM operand. The
// decision depends only on the graph, so every memory plan computes the same
// bits.
//
//===----------------------------------------------------------------------===//

#include "VendorEpilogues.h"

#include "kiln/Dialect/Kiln/IR/KilnVendor.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// Returns true if the vendor library supports epilogues for this matmul.
static bool hasEpilogues(MatmulOp matmul) {
  return matmul && !matmul.getAccumulate() && matmul.getType().getRank() == 2 &&
         !matmul.getType().getElementType().isF64();
}

/// Returns true if the vendor library supports gelu as the epilogue of a matmul
/// with the left operand `a` and a result of this type. `hasMatrix` means that
/// the epilogue also stores or reads the input of gelu.
static bool hasGelu(RankedTensorType type, Value a, bool hasMatrix) {
  return type.getElementType() == tensorTypeOf(a).getElementType() &&
         (!hasMatrix || type.getDimSize(1) % auxRowMultiple == 0);
}

//===----------------------------------------------------------------------===//
// Biases
//===----------------------------------------------------------------------===//

/// If `rows` is a broadcast of a vector to all rows of a matrix, returns the
/// vector. Otherwise returns null.
static Value biasOf(Value rows) {
  auto broadcast = rows.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>{1} ||
      tensorTypeOf(broadcast.getX()).getDimSize(0) !=
          tensorTypeOf(rows).getDimSize(1))
    return {};
  return broadcast.getX();
}

/// Returns the matmul that computes `value` if `reader` is its only user and is
/// in the same block. Otherwise returns null.
static MatmulOp matmulOf(Value value, Operation *reader) {
  auto matmul = value.getDefiningOp<MatmulOp>();
  if (!hasEpilogues(matmul) || !matmul->hasOneUse() ||
      matmul->getBlock() != reader->getBlock())
    return {};
  return matmul;
}

static void formLinear(AddOp sum) {
  for (auto [term, rows] : {std::pair<Value, Value>(sum.getA(), sum.getB()),
                            {sum.getB(), sum.getA()}}) {
    MatmulOp matmul = matmulOf(term, sum);
    Value bias = biasOf(rows);
    if (!matmul || !bias)
      continue;
    LayerListener layer(getLayer(matmul));
    OpBuilder builder(sum, &layer);
    auto linear = LinearOp::create(builder, matmul.getLoc(), matmul.getType(),
                                   matmul.getA(), matmul.getB(), bias,
                                   matmul.getTransA(), matmul.getTransB(),
                                   /*grid=*/DenseI64ArrayAttr());
    Operation *broadcast = rows.getDefiningOp();
    sum.replaceAllUsesWith(linear.getY());
    sum.erase();
    matmul.erase();
    if (broadcast->use_empty())
      broadcast->erase();
    return;
  }
}

//===----------------------------------------------------------------------===//
// Gelu and its gradient
//===----------------------------------------------------------------------===//

/// Merges gelu with a kiln.linear. If ops of the backward pass read the input
/// of gelu, the merged op returns this input as a second result. If other ops
/// read this input, nothing is merged.
static void formLinearGelu(GeluOp gelu) {
  auto linear = gelu.getX().getDefiningOp<LinearOp>();
  if (!gelu.getTanh() || !linear || linear->getBlock() != gelu->getBlock())
    return;
  bool isKept = false;
  for (OpOperand &use : linear.getY().getUses()) {
    Operation *user = use.getOwner();
    if (user == gelu)
      continue;
    bool isGradient =
        isa<GeluGradOp>(user) && cast<GeluGradOp>(user).getB() != linear.getY();
    if (!isGradient && !isa<RecomputeOp>(user))
      return;
    isKept = true;
  }
  RankedTensorType type = tensorTypeOf(linear.getY());
  if (!hasGelu(type, linear.getA(), isKept))
    return;
  LayerListener layer(getLayer(linear));
  OpBuilder builder(linear, &layer);
  auto fused = LinearGeluOp::create(
      builder, linear.getLoc(), type, isKept ? type : Type(), linear.getA(),
      linear.getB(), linear.getBias(), linear.getTransA(), linear.getTransB(),
      /*grid=*/DenseI64ArrayAttr());
  gelu.replaceAllUsesWith(fused.getY());
  gelu.erase();
  if (isKept)
    linear.getY().replaceAllUsesWith(fused.getU());
  linear.erase();
}

/// Merges the gradient of gelu with the matmul that computes the cotangent of
/// gelu's result, if the vendor library computes the gelu in the forward pass.
static void formGeluGrad(GeluGradOp gradient) {
  MatmulOp matmul = matmulOf(gradient.getB(), gradient);
  auto forward = gradient.getA().getDefiningOp<LinearGeluOp>();
  if (!gradient.getTanh() || !matmul || !forward ||
      !hasGelu(matmul.getType(), matmul.getA(), /*hasMatrix=*/true))
    return;
  LayerListener layer(getLayer(matmul));
  OpBuilder builder(gradient, &layer);
  auto fused = MatmulGeluGradOp::create(
      builder, matmul.getLoc(), matmul.getType(), matmul.getA(), matmul.getB(),
      gradient.getA(), matmul.getTransA(), matmul.getTransB(),
      /*grid=*/DenseI64ArrayAttr());
  gradient.replaceAllUsesWith(fused.getDu());
  gradient.erase();
  matmul.erase();
}

//===----------------------------------------------------------------------===//
// Gradients of biases
//===----------------------------------------------------------------------===//

/// Returns true if a row kernel computes the value. The kernel can then sum the
/// columns of the value, without a second pass over memory.
static bool isMadeInRows(Value value) {
  auto op = value.getDefiningOp<DispatchableOpInterface>();
  return !op || op.getFamily() == Family::Row;
}

/// Returns the first matmul in the block of `sum` that sums over the rows of
/// `dy`, or null.
static MatmulOp weightGradientOf(Value dy, Operation *sum) {
  MatmulOp first;
  for (OpOperand &use : dy.getUses()) {
    auto matmul = dyn_cast<MatmulOp>(use.getOwner());
    if (!hasEpilogues(matmul) || matmul->getBlock() != sum->getBlock())
      continue;
    bool sumsRows =
        use.getOperandNumber() == 0 ? matmul.getTransA() : !matmul.getTransB();
    if (sumsRows && (!first || matmul->isBeforeInBlock(first)))
      first = matmul;
  }
  return first;
}

/// Returns the ops between `sum` and `end` that depend on the sum, in program
/// order. Returns std::nullopt if one of them cannot move after `end`.
static std::optional<SmallVector<Operation *>> readersBetween(Operation *sum,
                                                              Operation *end) {
  llvm::SetVector<Operation *> readers;
  if (!sum->isBeforeInBlock(end))
    return SmallVector<Operation *>();
  for (Operation *op = sum->getNextNode(); op != end; op = op->getNextNode()) {
    bool reads = false;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *def = operand.getDefiningOp())
          reads |= def == sum || readers.contains(def);
    });
    if (!reads)
      continue;
    if (!isMemoryEffectFree(op))
      return std::nullopt;
    readers.insert(op);
  }
  for (Value operand : end->getOperands())
    if (Operation *def = operand.getDefiningOp())
      if (def == sum || readers.contains(def))
        return std::nullopt;
  return readers.takeVector();
}

/// Merges the gradient of a bias, a sum over rows, with a matmul that reads the
/// same rows.
static void formBiasGrad(ReduceCombineOp sum) {
  auto partial = sum.getX().getDefiningOp<ReducePartialOp>();
  if (!partial || !partial->hasOneUse() || sum.getAccumulate() ||
      tensorTypeOf(partial.getX()).getRank() != 2 ||
      tensorTypeOf(sum.getResult()).getRank() != 1 ||
      isMadeInRows(partial.getX()))
    return;
  Value dy = partial.getX();
  MatmulOp matmul = weightGradientOf(dy, sum);
  if (!matmul || tensorTypeOf(sum.getResult()).getElementType() !=
                     matmul.getType().getElementType())
    return;
  auto readers = readersBetween(sum, matmul);
  if (!readers)
    return;
  bool ofA = matmul.getA() == dy && matmul.getTransA();
  LayerListener layer(getLayer(matmul));
  OpBuilder builder(matmul, &layer);
  auto fused = MatmulBiasGradOp::create(
      builder, matmul.getLoc(), matmul.getType(), sum.getType(), matmul.getA(),
      matmul.getB(), matmul.getTransA(), matmul.getTransB(), ofA,
      /*grid=*/DenseI64ArrayAttr());
  Operation *last = fused;
  for (Operation *reader : *readers) {
    reader->moveAfter(last);
    last = reader;
  }
  sum.replaceAllUsesWith(fused.getDb());
  matmul.replaceAllUsesWith(fused.getC());
  sum.erase();
  partial.erase();
  matmul.erase();
}

template <typename Op>
static void forEachOp(ModuleOp module, void (*fuse)(Op)) {
  SmallVector<Op> ops;
  module.walk([&](Op op) { ops.push_back(op); });
  for (Op op : ops)
    fuse(op);
}

void kiln::formVendorEpilogues(ModuleOp module) {
  forEachOp<AddOp>(module, formLinear);
  forEachOp<GeluOp>(module, formLinearGelu);
  forEachOp<GeluGradOp>(module, formGeluGrad);
  forEachOp<ReduceCombineOp>(module, formBiasGrad);
}
