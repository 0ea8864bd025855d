//===- VendorEpilogues.cpp - What a gpu's library fuses --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product becomes one op with what the library can do while it has the sums:
// add a bias, take gelu of that, multiply by gelu's derivative, or add up an
// operand that it reads anyway. It depends on nothing but the graph, so that
// every plan of a module has the same bits.
//
//===----------------------------------------------------------------------===//

#include "VendorEpilogues.h"

#include "kiln/Dialect/Kiln/IR/KilnLibrary.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// Whether the library has epilogues for a product at all.
static bool hasEpilogues(MatmulOp matmul) {
  return matmul && !matmul.getAccumulate() && matmul.getType().getRank() == 2 &&
         !matmul.getType().getElementType().isF64();
}

/// Whether the library takes gelu of a result of this type, of operands like a,
/// and the matrix that goes with it, if there is one.
static bool mayTakeGelu(RankedTensorType type, Value a, bool hasMatrix) {
  return type.getElementType() == tensorTypeOf(a).getElementType() &&
         (!hasMatrix || type.getDimSize(1) % auxRowMultiple == 0);
}

//===----------------------------------------------------------------------===//
// Biases
//===----------------------------------------------------------------------===//

/// The vector that a broadcast repeats in every row, or nothing.
static Value biasOf(Value rows) {
  auto broadcast = rows.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>{1} ||
      tensorTypeOf(broadcast.getX()).getDimSize(0) !=
          tensorTypeOf(rows).getDimSize(1))
    return {};
  return broadcast.getX();
}

/// The product that only `reader` reads, or nothing.
static MatmulOp matmulOf(Value value, Operation *reader) {
  auto matmul = value.getDefiningOp<MatmulOp>();
  if (!hasEpilogues(matmul) || !matmul->hasOneUse() ||
      matmul->getBlock() != reader->getBlock())
    return {};
  return matmul;
}

static void addInLibrary(AddOp sum) {
  for (auto [term, rows] : {std::pair<Value, Value>(sum.getA(), sum.getB()),
                            {sum.getB(), sum.getA()}}) {
    MatmulOp matmul = matmulOf(term, sum);
    Value bias = biasOf(rows);
    if (!matmul || !bias)
      continue;
    OpBuilder builder(sum);
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

/// Gelu of a linear layer. What it is taken of may be wanted by the backward
/// pass, which reads it from memory; another reader wants it in a kernel.
static void takeGeluInLibrary(GeluOp gelu) {
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
  if (!mayTakeGelu(type, linear.getA(), isKept))
    return;
  OpBuilder builder(linear);
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

/// The gradient of a gelu that the library took.
static void multiplyInLibrary(GeluGradOp gradient) {
  MatmulOp matmul = matmulOf(gradient.getB(), gradient);
  auto forward = gradient.getA().getDefiningOp<LinearGeluOp>();
  if (!gradient.getTanh() || !matmul || !forward ||
      !mayTakeGelu(matmul.getType(), matmul.getA(), /*hasMatrix=*/true))
    return;
  OpBuilder builder(gradient);
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

/// Whether a row kernel makes the value, which then adds up its columns without
/// reading anything again.
static bool isMadeInRows(Value value) {
  auto op = value.getDefiningOp<DispatchableOpInterface>();
  return !op || op.getFamily() == Family::Row;
}

/// The first product of one block that sums over the rows of `dy`, or nothing.
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

/// Ops between `sum` and `product` that need the sum, in their order; nothing
/// if one of them cannot move behind the product.
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

/// The gradient of a bias: the sum of the rows that a product reads, too.
static void addRowsInLibrary(ReduceCombineOp sum) {
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
  OpBuilder builder(matmul);
  auto fused = MatmulBiasGradOp::create(
      builder, matmul.getLoc(), matmul.getType(), sum.getType(), matmul.getA(),
      matmul.getB(), matmul.getTransA(), matmul.getTransB(), ofA,
      /*grid=*/DenseI64ArrayAttr());
  Operation *last = fused;
  for (Operation *reader : *readers) {
    reader->moveAfter(last);
    last = reader;
  }
  // Where the sum stood behind the product, its readers do so too.
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

void kiln::fuseLibraryEpilogues(ModuleOp module) {
  forEachOp<AddOp>(module, addInLibrary);
  forEachOp<GeluOp>(module, takeGeluInLibrary);
  forEachOp<GeluGradOp>(module, multiplyInLibrary);
  forEachOp<ReduceCombineOp>(module, addRowsInLibrary);
}
