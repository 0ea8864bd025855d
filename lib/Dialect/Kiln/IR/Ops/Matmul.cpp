//===- Matmul.cpp - Matrix multiplication -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "SequenceRules.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

namespace {

/// The indices of the dimensions of `a`, of `b` and of the result of a matmul.
struct MatmulDims {
  int64_t rowsOfA, innerOfA, innerOfB, columnsOfB, rows, columns;
};

} // namespace

static SequenceFact inferMatmul(MatmulOp op, Facts operands,
                                const MatmulDims &dims) {
  const SequenceFact &a = operands[0], &b = operands[1];
  int64_t degree = a.degree + b.degree;
  if (findOpaque(operands) || a.isMixed() || b.isMixed())
    return explain(op, operands);
  if (allShared({a, b}))
    return SequenceFact::shared(
        degree,
        (a.splitsAlong(dims.rowsOfA) ? uint64_t(1) << dims.rows : 0) |
            (b.splitsAlong(dims.columnsOfB) ? uint64_t(1) << dims.columns : 0));
  if ((a.isTotal() && b.isShared()) || (a.isShared() && b.isTotal()))
    return SequenceFact::total(degree);
  // The dimensions before dims.rows are batch dimensions, which are the same in
  // both operands and the result.
  for (int64_t dim = 0; dim < dims.rows; ++dim)
    if (a.splitsAlong(dim) && b.splitsAlong(dim) &&
        (a.isPerSequence() || b.isPerSequence()))
      return SequenceFact::perSequence(dim, degree);
  if (a.isPerSequence() && a.dim == dims.rowsOfA && b.isShared())
    return SequenceFact::perSequence(dims.rows, degree);
  if (b.isPerSequence() && b.dim == dims.columnsOfB && a.isShared())
    return SequenceFact::perSequence(dims.columns, degree);
  if (a.splitsAlong(dims.innerOfA) && b.splitsAlong(dims.innerOfB) &&
      (a.isPerSequence() || b.isPerSequence()))
    return SequenceFact::total(degree);
  return explain(op, {a, b});
}

void MatmulOp::build(OpBuilder &builder, OperationState &state, Value a,
                     Value b, bool transA, bool transB) {
  auto typeA = tensorTypeOf(a), typeB = tensorTypeOf(b);
  int64_t rank = typeA.getRank();
  SmallVector<int64_t> shape(typeA.getShape());
  shape[rank - 2] = typeA.getDimSize(transA ? rank - 1 : rank - 2);
  shape[rank - 1] = typeB.getDimSize(transB ? rank - 2 : rank - 1);
  build(builder, state, RankedTensorType::get(shape, typeA.getElementType()), a,
        b,
        /*accumulate=*/Value(), transA, transB, /*grid=*/nullptr,
        /*kernel=*/nullptr);
}

LogicalResult MatmulOp::verify() {
  auto typeA = tensorTypeOf(getA()), typeB = tensorTypeOf(getB());
  if (failed(checkMinRank(*this, "a", getA(), 2)) ||
      failed(checkRank(*this, "b", getB(), typeA.getRank())))
    return failure();
  if (typeA.getElementType() != typeB.getElementType())
    return emitOpError("'b' has element type ")
           << typeB.getElementType() << ", expected " << typeA.getElementType();
  if (typeA.getShape().drop_back(2) !=
      typeB.getShape().drop_back(2)) // Constraint C1.
    return emitOpError("batch dimensions ")
           << toString(typeA.getShape().drop_back(2)) << " of 'a' and "
           << toString(typeB.getShape().drop_back(2)) << " of 'b' differ";
  int64_t innerB = typeB.getDimSize(typeB.getRank() - (getTransB() ? 1 : 2));
  if (getK() != innerB)
    return emitOpError("inner extents differ: 'a' has ")
           << getK() << ", 'b' has " << innerB;
  SmallVector<int64_t> shape(typeA.getShape().drop_back(2));
  shape.append({getM(), getN()});
  if (failed(checkWide(*this, "y", getY(), shape, getA())))
    return failure();
  if (getAccumulate() &&
      failed(checkShape(*this, "accumulate", getAccumulate(), shape, getY())))
    return failure();
  if (auto grid = getGrid())
    if (grid->size() != 2 || (*grid)[0] < 1 || (*grid)[1] < 1 ||
        (*grid)[0] > getM() || (*grid)[1] > getN())
      return emitOpError("grid is ")
             << toString(*grid) << ", expected two tile counts: from 1 to "
             << getM() << " tiles that split the rows, and from 1 to " << getN()
             << " tiles that split the columns";
  if (!getKernel())
    return success();
  std::optional<GemmKernel> kernel = gemmKernelOf(*getKernel());
  if (!kernel)
    return emitOpError("kernel is '")
           << *getKernel() << "', expected " << gemmKernelChoices;
  Type element = typeA.getElementType();
  if (!canMultiply(*kernel, elementTypeOf(element))) // C2
    return emitOpError("kernel is '")
           << *getKernel() << "', which multiplies " << operandTypesOf(*kernel)
           << ", but the operands have element type " << element;
  return success();
}

GemmKernel MatmulOp::getGemmKernel() {
  auto name = getKernel();
  return name ? gemmKernelOf(*name).value_or(GemmKernel::Blas)
              : GemmKernel::Blas;
}

Family MatmulOp::getFamily() { return Family::Gemm; }
Precision MatmulOp::getPrecision() { return Precision::Low; }

int64_t MatmulOp::getTiedOperand(unsigned) {
  return getAccumulate() ? static_cast<int64_t>(getNumOperands()) - 1 : -1;
}

int64_t MatmulOp::getFlops() {
  return 2 * getBatch() * getM() * getN() * getK();
}

LogicalResult MatmulOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted wanted, Gradients gradients) {
  Rule r(builder, *this);
  Value a = getA(), b = getB();
  // Cast the cotangent to the element type of the operands. The cotangent of a
  // wide result is wide, but both operands of a matmul must have the same
  // element type.
  auto type = getType().clone(tensorTypeOf(a).getElementType());
  Value dy = builder.createOrFold<CastOp>(getLoc(), type, cotangents[0]);
  bool ta = getTransA(), tb = getTransB();
  // Decode a quantized weight again instead of keeping the decoded weight for
  // the backward pass.
  if (auto weight = b.getDefiningOp<DequantizeOp>(); weight && wanted[0])
    b = builder.clone(*weight)->getResult(0);
  if (wanted[0])
    gradients[0] = ta ? r.matmul(b, dy, tb, true) : r.matmul(dy, b, false, !tb);
  if (wanted[1])
    gradients[1] = tb ? r.matmul(dy, a, true, ta) : r.matmul(a, dy, !ta, false);
  if (getAccumulate() && wanted[2])
    gradients[2] = cotangents[0];
  return success();
}

void MatmulOp::inferSequences(Facts operands, int64_t batch,
                              MutableFacts results) {
  int64_t last = getY().getType().getRank() - 1, first = last - 1;
  MatmulDims dims;
  dims.rows = first;
  dims.columns = last;
  dims.rowsOfA = getTransA() ? last : first;
  dims.innerOfA = getTransA() ? first : last;
  dims.innerOfB = getTransB() ? last : first;
  dims.columnsOfB = getTransB() ? first : last;
  results[0] = inferMatmul(*this, operands.take_front(2), dims);
  if (!getAccumulate())
    return;
  results[0] = inferSum(*this, {results[0], operands[2]});
  // A result may be Mixed (a sum of terms that scale differently) only if the
  // op is linear in all operands jointly. A matmul is linear in each factor but
  // not in both jointly, so replace Mixed by Opaque (nothing is proved).
  if (results[0].isMixed())
    results[0] =
        SequenceFact::opaque(*this, "adds a matmul to a term that does not "
                                    "scale with the sequences in the same way");
}

int64_t MatmulOp::getLongestSum() { return getK(); }

LogicalResult MatmulOp::evaluate(Operands operands, Results results) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  HostTensor &y = results[0];
  auto extent = [](const HostTensor &x, int fromEnd) {
    return x.shape()[x.shape().size() - fromEnd];
  };
  int64_t m = extent(y, 2), n = extent(y, 1);
  int64_t k = extent(a, getTransA() ? 2 : 1);
  int64_t batch = m * n == 0 ? 0 : y.size() / (m * n);
  int64_t rowOfA = getTransA() ? 1 : k, columnOfA = getTransA() ? m : 1;
  int64_t rowOfB = getTransB() ? 1 : n, columnOfB = getTransB() ? k : 1;
  if (operands.size() == 3)
    y.reals = operands[2]->reals;
  for (int64_t p = 0; p < batch; ++p)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l) {
        double left = a.reals[p * m * k + i * rowOfA + l * columnOfA];
        const double *right = b.reals.data() + p * k * n + l * rowOfB;
        double *sum = y.reals.data() + (p * m + i) * n;
        for (int64_t j = 0; j < n; ++j)
          sum[j] += left * right[j * columnOfB];
      }
  return success();
}
