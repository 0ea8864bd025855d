//===- ReferenceRules.h - Helpers of reference evaluations ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Helpers of ReferenceOpInterface::evaluate, which computes the formula of an
// op's description in f64. Row programs must not share code with the reference,
// because tests compare kernels with the reference. The caller passes results
// as zeros of the evaluation type, which may be wider than the type in the IR.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_REFERENCERULES_H
#define KILN_DIALECT_KILN_IR_REFERENCERULES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln::reference {

using namespace mlir;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

template <typename Formula>
LogicalResult mapUnary(Operands operands, Results results, Formula formula) {
  const HostTensor &x = *operands[0];
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    results[0].reals[i] = formula(x.reals[i]);
  return success();
}

template <typename Formula>
LogicalResult mapBinary(Operands operands, Results results, Formula formula) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  for (int64_t i = 0, e = a.size(); i < e; ++i)
    results[0].reals[i] = formula(a.reals[i], b.reals[i]);
  return success();
}

/// Row count and row length of a tensor. A row extends along the last
/// dimension.
struct Rows {
  int64_t count, length;
  explicit Rows(const HostTensor &x) {
    length = x.shape().empty() ? 1 : x.shape().back();
    count = length == 0 ? 0 : x.size() / length;
  }
};

inline const double *rowOf(const HostTensor &x, int64_t row, int64_t length) {
  return x.reals.data() + row * length;
}

/// Calls visit(index, position) for every element of a row-major tensor.
template <typename Visit>
void forEachIndex(ArrayRef<int64_t> shape, Visit visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0, e = ShapedType::getNumElements(shape); i < e; ++i) {
    visit(ArrayRef<int64_t>(index), i);
    for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

inline int64_t positionOf(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    position = position * size + i;
  return position;
}

inline void copyElement(const HostTensor &from, int64_t source, HostTensor &to,
                        int64_t destination) {
  if (from.isReal())
    to.reals[destination] = from.reals[source];
  else
    to.integers[destination] = from.integers[source];
}

/// Evaluates an op whose result has the elements of its operand in the same
/// order.
inline LogicalResult evaluateCopy(Operands operands, Results results) {
  results[0].reals = operands[0]->reals;
  results[0].integers = operands[0]->integers;
  return success();
}

/// Returns the number of elements of operand 0 per element of result 0.
inline int64_t termsPerResult(Operation *op) {
  int64_t results = tensorTypeOf(op->getResult(0)).getNumElements();
  int64_t terms = tensorTypeOf(op->getOperand(0)).getNumElements();
  return std::max<int64_t>(terms / std::max<int64_t>(results, 1), 1);
}

/// Returns Rounding::Results if converting `from` to the type of `to` can
/// round, and Rounding::Nothing otherwise.
inline Rounding roundingOfConversion(Value from, Value to) {
  // A conversion between bf16 and f16 can round, too. They have the same size,
  // but neither represents all numbers of the other.
  bool isNarrowed = to.getType() != from.getType() &&
                    elementBytes(to.getType()) <= elementBytes(from.getType());
  return isNarrowed ? Rounding::Results : Rounding::Nothing;
}

} // namespace kiln::reference

#endif // KILN_DIALECT_KILN_IR_REFERENCERULES_H
