//===- KilnVendorOps.cpp - Vendor GEMM ops with fused epilogues -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the ops of KilnVendorOps.td. The reference computes sums in f64,
// and the caller rounds each result. A result is therefore rounded once, as in
// the vendor library. Labels such as C1 name the constraints in the
// descriptions of the ops.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/KilnVendor.h"

#include "OpChecks.h"
#include "kiln/Abi/TanhGelu.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln::checks;
using namespace kiln;

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnVendorOps.cpp.inc"

/// Verifies the operands of a vendor GEMM (ranks, element types and inner
/// extents) and `grid`, the numbers of tiles over rows and columns.
static LogicalResult verifyVendorGemm(GemmOpInterface op) {
  if (failed(checkRank(op, "a", op.getLeft(), 2)) || // C1
      failed(checkRank(op, "b", op.getRight(), 2)))
    return failure();
  auto typeA = tensorTypeOf(op.getLeft()), typeB = tensorTypeOf(op.getRight());
  if (typeA.getElementType().isF64()) // C2
    return op->emitOpError(
        "'a' has element type f64, expected a type of at most 32 bits, because "
        "the vendor library has no epilogues for f64");
  if (typeA.getElementType() != typeB.getElementType())
    return op->emitOpError("'b' has element type ")
           << typeB.getElementType() << ", expected " << typeA.getElementType();
  int64_t innerB = typeB.getDimSize(op.getTransB() ? 1 : 0);
  if (op.getK() != innerB)
    return op->emitOpError("inner extents differ: 'a' has ")
           << op.getK() << ", 'b' has " << innerB;
  if (DenseI64ArrayAttr grid = op.getGridAttr())
    if (grid.size() != 2 || grid[0] < 1 || grid[1] < 1 || grid[0] > op.getM() ||
        grid[1] > op.getN())
      return op->emitOpError("grid is ")
             << toString(grid.asArrayRef())
             << ", expected two tile counts: from 1 to " << op.getM()
             << " tiles that split the rows, and from 1 to " << op.getN()
             << " tiles that split the columns";
  return success();
}

/// Verifies that the row length of the auxiliary tensor is aligned as the
/// vendor library requires.
static LogicalResult verifyAux(GemmOpInterface op) {
  if (op.getN() % auxRowMultiple == 0)
    return success();
  return op->emitOpError("has an auxiliary tensor 'u' with rows of ")
         << op.getN() << " elements, expected a multiple of " << auxRowMultiple;
}

/// Calls visit(i, j, sum) for each row i and column j of the matrix product,
/// row by row.
static void forEachSum(GemmOpInterface op,
                       ArrayRef<const HostTensor *> operands,
                       function_ref<void(int64_t, int64_t, double)> visit) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  int64_t m = op.getM(), n = op.getN(), k = op.getK();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.reals[op.getTransA() ? l * m + i : i * k + l] *
               b.reals[op.getTransB() ? j * k + l : l * n + j];
      visit(i, j, sum);
    }
}

#define KILN_VENDOR_GEMM(Op)                                                   \
  Family Op::getFamily() { return Family::Gemm; }                              \
  int64_t Op::getFlops() { return 2 * getM() * getN() * getK(); }
KILN_VENDOR_GEMM(LinearOp)
KILN_VENDOR_GEMM(LinearGeluOp)
KILN_VENDOR_GEMM(MatmulGeluGradOp)
KILN_VENDOR_GEMM(MatmulBiasGradOp)
#undef KILN_VENDOR_GEMM

//===----------------------------------------------------------------------===//
// kiln.linear
//===----------------------------------------------------------------------===//

GemmEpilogue LinearOp::getVendorEpilogue() { return GemmEpilogue::Bias; }
Value LinearOp::getBiasRow() { return getBias(); }
Value LinearOp::getAux() { return {}; }

LogicalResult LinearOp::verify() {
  return failure(
      failed(verifyVendorGemm(*this)) ||
      failed(checkWide(*this, "y", getY(), {getM(), getN()}, getA())) ||
      failed(checkShape(*this, "bias", getBias(), {getN()}, getY()))); // C3
}

LogicalResult LinearOp::evaluate(ArrayRef<const HostTensor *> operands,
                                 MutableArrayRef<HostTensor> results) {
  forEachSum(*this, operands, [&](int64_t i, int64_t j, double sum) {
    results[0].reals[i * getN() + j] = sum + operands[2]->reals[j];
  });
  return success();
}

//===----------------------------------------------------------------------===//
// kiln.linear_gelu
//===----------------------------------------------------------------------===//

GemmEpilogue LinearGeluOp::getVendorEpilogue() {
  return getU() ? GemmEpilogue::GeluAuxBias : GemmEpilogue::GeluBias;
}
Value LinearGeluOp::getBiasRow() { return getBias(); }
Value LinearGeluOp::getAux() { return getU(); }

LogicalResult LinearGeluOp::verify() {
  int64_t shape[] = {getM(), getN()};
  if (failed(verifyVendorGemm(*this)) ||
      failed(checkShape(*this, "y", getY(), shape, getA())) ||        // C2
      failed(checkShape(*this, "bias", getBias(), {getN()}, getY()))) // C3
    return failure();
  if (!getU())
    return success();
  return failure(failed(checkShape(*this, "u", getU(), shape, getY())) ||
                 failed(verifyAux(*this))); // C4
}

LogicalResult LinearGeluOp::evaluate(ArrayRef<const HostTensor *> operands,
                                     MutableArrayRef<HostTensor> results) {
  forEachSum(*this, operands, [&](int64_t i, int64_t j, double sum) {
    double u = sum + operands[2]->reals[j];
    results[0].reals[i * getN() + j] = tanhGelu(u);
    if (getU())
      results[1].reals[i * getN() + j] = u;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// kiln.matmul_gelu_grad
//===----------------------------------------------------------------------===//

GemmEpilogue MatmulGeluGradOp::getVendorEpilogue() {
  return GemmEpilogue::GeluGrad;
}
Value MatmulGeluGradOp::getBiasRow() { return {}; }
Value MatmulGeluGradOp::getAux() { return getU(); }

LogicalResult MatmulGeluGradOp::verify() {
  int64_t shape[] = {getM(), getN()};
  return failure(
      failed(verifyVendorGemm(*this)) ||
      failed(checkShape(*this, "du", getDu(), shape, getA())) || // C2
      failed(checkShape(*this, "u", getU(), shape, getDu())) ||  // C3
      failed(verifyAux(*this)));                                 // C4
}

LogicalResult MatmulGeluGradOp::evaluate(ArrayRef<const HostTensor *> operands,
                                         MutableArrayRef<HostTensor> results) {
  forEachSum(*this, operands, [&](int64_t i, int64_t j, double sum) {
    int64_t place = i * getN() + j;
    results[0].reals[place] =
        sum * tanhGeluDerivative(operands[2]->reals[place]);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// kiln.matmul_bias_grad
//===----------------------------------------------------------------------===//

GemmEpilogue MatmulBiasGradOp::getVendorEpilogue() {
  return getOfA() ? GemmEpilogue::BiasGradA : GemmEpilogue::BiasGradB;
}
Value MatmulBiasGradOp::getBiasRow() { return getDb(); }
Value MatmulBiasGradOp::getAux() { return {}; }

LogicalResult MatmulBiasGradOp::verify() {
  int64_t length = biasLength(getVendorEpilogue(), getM(), getN());
  return failure(
      failed(verifyVendorGemm(*this)) ||
      failed(checkWide(*this, "c", getC(), {getM(), getN()}, getA())) ||
      failed(checkShape(*this, "db", getDb(), {length}, getC()))); // C3
}

LogicalResult MatmulBiasGradOp::evaluate(ArrayRef<const HostTensor *> operands,
                                         MutableArrayRef<HostTensor> results) {
  forEachSum(*this, operands, [&](int64_t i, int64_t j, double sum) {
    results[0].reals[i * getN() + j] = sum;
  });
  int64_t k = getK(), length = results[1].shape()[0];
  const HostTensor &summed = *operands[getOfA() ? 0 : 1];
  // Each sum runs along a row of op(a) or a column of op(b). A row of op(a) is
  // contiguous in memory if a is not transposed, and a column of op(b) if b is
  // transposed.
  bool alongRows = getOfA() ? !getTransA() : getTransB();
  for (int64_t i = 0; i < length; ++i) {
    double sum = 0;
    for (int64_t l = 0; l < k; ++l)
      sum += summed.reals[alongRows ? i * k + l : l * length + i];
    results[1].reals[i] = sum;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Any GEMM
//===----------------------------------------------------------------------===//

Operation *kiln::createGemm(OpBuilder &builder, Location loc,
                            GemmEpilogue epilogue, TypeRange results,
                            ValueRange operands, bool transA, bool transB) {
  Value a = operands[0], b = operands[1];
  Value third = operands.size() > 2 ? operands[2] : Value();
  DenseI64ArrayAttr grid;
  switch (epilogue) {
  case GemmEpilogue::None:
    return MatmulOp::create(builder, loc, results[0], a, b, third, transA,
                            transB, grid, /*kernel=*/StringAttr());
  case GemmEpilogue::Bias:
    return LinearOp::create(builder, loc, results[0], a, b, third, transA,
                            transB, grid);
  case GemmEpilogue::GeluBias:
  case GemmEpilogue::GeluAuxBias:
    return LinearGeluOp::create(builder, loc, results[0],
                                results.size() > 1 ? results[1] : Type(), a, b,
                                third, transA, transB, grid);
  case GemmEpilogue::GeluGrad:
    return MatmulGeluGradOp::create(builder, loc, results[0], a, b, third,
                                    transA, transB, grid);
  case GemmEpilogue::BiasGradA:
  case GemmEpilogue::BiasGradB:
    return MatmulBiasGradOp::create(builder, loc, results[0], results[1], a, b,
                                    transA, transB,
                                    epilogue == GemmEpilogue::BiasGradA, grid);
  }
  llvm_unreachable("all epilogues are listed");
}
