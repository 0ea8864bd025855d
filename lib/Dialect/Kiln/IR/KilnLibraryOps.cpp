//===- KilnLibraryOps.cpp - Ops that a gpu's library fuses ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that such an op knows about itself. Its reference rounds once, as the
// library does: sums are f64, and the caller rounds.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/KilnLibrary.h"

#include "OpChecks.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnLibraryOps.cpp.inc"

int64_t LinearOp::getM() {
  return tensorTypeOf(getA()).getDimSize(getTransA() ? 1 : 0);
}
int64_t LinearOp::getK() {
  return tensorTypeOf(getA()).getDimSize(getTransA() ? 0 : 1);
}
int64_t LinearOp::getN() {
  return tensorTypeOf(getB()).getDimSize(getTransB() ? 0 : 1);
}

LogicalResult LinearOp::verify() {
  if (failed(checkRank(*this, "a", getA(), 2)) || // C1
      failed(checkRank(*this, "b", getB(), 2)))
    return failure();
  auto typeA = tensorTypeOf(getA()), typeB = tensorTypeOf(getB());
  if (typeA.getElementType().isF64()) // C2
    return emitOpError("'a' has element type f64, expected bf16 or f32, which "
                       "the library has epilogues for");
  if (typeA.getElementType() != typeB.getElementType())
    return emitOpError("'b' has element type ")
           << typeB.getElementType() << ", expected " << typeA.getElementType();
  int64_t innerB = typeB.getDimSize(getTransB() ? 1 : 0);
  if (getK() != innerB)
    return emitOpError("inner extents differ: 'a' has ")
           << getK() << ", 'b' has " << innerB;
  if (failed(checkWide(*this, "y", getY(), {getM(), getN()}, getA())) ||
      failed(checkShape(*this, "bias", getBias(), {getN()}, getY()))) // C3
    return failure();
  if (auto grid = getGrid())
    if (grid->size() != 2 || (*grid)[0] < 1 || (*grid)[1] < 1 ||
        (*grid)[0] > getM() || (*grid)[1] > getN())
      return emitOpError("grid is ")
             << toString(*grid) << ", expected tiles over " << getM()
             << " rows and " << getN() << " columns";
  return success();
}

Family LinearOp::getFamily() { return Family::Gemm; }

int64_t LinearOp::getFlops() { return 2 * getM() * getN() * getK(); }

LogicalResult LinearOp::evaluate(ArrayRef<const HostTensor *> operands,
                                 MutableArrayRef<HostTensor> results) {
  const HostTensor &a = *operands[0], &b = *operands[1], &bias = *operands[2];
  HostTensor &y = results[0];
  int64_t m = y.shape()[0], n = y.shape()[1];
  int64_t k = a.shape()[getTransA() ? 0 : 1];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.reals[getTransA() ? l * m + i : i * k + l] *
               b.reals[getTransB() ? j * k + l : l * n + j];
      y.reals[i * n + j] = sum + bias.reals[j];
    }
  return success();
}
