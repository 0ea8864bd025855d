//===- UpdateOps.cpp - Helpers shared by optimizer update ops ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateOps.h"

#include "kiln/Support/ElementConversion.h"

using namespace mlir;
using namespace kiln;

using NodeId = row::NodeId;

RowSpace kiln::rowSpaceOfUpdate(Operation *op) {
  return flexibleRows(op->getOperand(0));
}

LogicalResult kiln::verifyUpdate(Operation *op) {
  Value parameter = op->getOperand(0);
  auto update = cast<UpdateOpInterface>(op);
  unsigned states = update.getNumUpdated();
  ElementType computed = computeType(elementTypeOf(parameter.getType()));
  auto check = [&](StringRef what, unsigned i, Value value) -> LogicalResult {
    auto type = tensorTypeOf(value), wanted = tensorTypeOf(parameter);
    if (type.getShape() != wanted.getShape())
      return op->emitOpError(what) << " " << i << " has type " << type
                                   << ", but the parameter has type " << wanted
                                   << ": expected equal shapes";
    if (computeType(elementTypeOf(type)) != computed)
      return op->emitOpError(what)
             << " " << i << " has element type " << type.getElementType()
             << ", expected an element type that is computed in "
             << irTypeOf(computed, op->getContext())
             << ", like the parameter of type " << wanted;
    return success();
  };
  for (unsigned i = 0; i <= states; ++i)
    if (failed(check("operand", i, op->getOperand(i))))
      return failure();
  for (unsigned i = 0; i < states; ++i) {
    if (failed(check("result", i, op->getResult(i))))
      return failure();
    if (op->getResult(i).getType() != op->getOperand(i).getType())
      return op->emitOpError("result ")
             << i << " is " << op->getResult(i).getType()
             << ", expected the type of operand " << i << ", "
             << op->getOperand(i).getType();
  }
  Value copy = update.getCopy();
  if (!copy)
    return success();
  if (failed(check("result", states, copy)))
    return failure();
  if (elementBytes(tensorTypeOf(copy)) < elementBytes(tensorTypeOf(parameter)))
    return success();
  return op->emitOpError("result ") << states << " is " << copy.getType()
                                    << ", expected elements that are narrower "
                                       "than those of the parameter, "
                                    << parameter.getType();
}

NodeId kiln::decayedGradient(RowBuilder &rows, NodeId factor, NodeId g,
                             double decay, NodeId p) {
  NodeId gradient = rows.mul(rows.cast(factor, rows.typeOf(p)), g);
  if (decay == 0)
    return gradient;
  return rows.fma(rows.constantLike(decay, p), p, gradient);
}

NodeId kiln::skippedStep(RowBuilder &rows, UpdateOpInterface update) {
  Value apply = update.getApply();
  NodeId flag = apply ? rows.scalar(apply) : -1;
  if (flag < 0)
    return -1;
  return rows.equal(rows.cast(flag, row::Type::F64),
                    rows.constant(0, row::Type::F64));
}

LogicalResult kiln::setUpdated(RowBuilder &rows, UpdateOpInterface update,
                               ArrayRef<NodeId> values) {
  NodeId skips = skippedStep(rows, update);
  if (update.getApply() && skips < 0)
    return failure();
  for (auto [i, value] : llvm::enumerate(values)) {
    NodeId result = value;
    if (skips >= 0) {
      NodeId old = rows.full(update->getOperand(i));
      if (!areValid({old}))
        return failure();
      result = rows.select(skips, old, value);
    }
    rows.set(update->getResult(i), result);
    if (i == 0 && update.getCopy())
      rows.set(update.getCopy(), result);
  }
  return success();
}

void kiln::setCopy(UpdateOpInterface update,
                   MutableArrayRef<HostTensor> results) {
  if (!update.getCopy())
    return;
  // The copy is made from the stored parameter, which is rounded to its type.
  ElementType type = elementTypeOf(update.getParameter().getType());
  for (auto [copy, value] :
       llvm::zip_equal(results.back().reals, results.front().reals))
    copy = support::roundTo(type, value);
}

bool kiln::keepIfSkipped(UpdateOpInterface update,
                         ArrayRef<const HostTensor *> operands,
                         MutableArrayRef<HostTensor> results) {
  Value apply = update.getApply();
  if (!apply)
    return false;
  unsigned last = update->getNumOperands() - 1;
  if (operands[last]->integers[0] != 0)
    return false;
  for (unsigned i = 0; i < update.getNumUpdated(); ++i)
    results[i].reals = operands[i]->reals;
  setCopy(update, results);
  return true;
}
