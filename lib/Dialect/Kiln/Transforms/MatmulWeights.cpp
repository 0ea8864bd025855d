//===- MatmulWeights.cpp - Weights of linear layers -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/MatmulWeights.h"

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"

using namespace mlir;
using namespace kiln;

/// Returns true if only matmuls read `value`, as their right operand.
static bool isWeightOfMatmuls(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    return isa<MatmulOp>(use.getOwner()) && use.getOperandNumber() == 1;
  });
}

/// Returns true if only matmuls read `read`, as their right operand, either
/// directly or after a conversion.
static bool isReadByMatmuls(ReadOp read) {
  return !read->use_empty() &&
         llvm::all_of(read.getY().getUses(), [](OpOperand &use) {
           if (auto cast = dyn_cast<CastOp>(use.getOwner()))
             return isWeightOfMatmuls(cast.getY());
           return isa<MatmulOp>(use.getOwner()) && use.getOperandNumber() == 1;
         });
}

MatmulWeights
kiln::findMatmulWeights(ModuleOp module,
                        llvm::function_ref<bool(StateOp)> filter) {
  llvm::DenseSet<StringAttr> names, written = findWritten(module);
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() == Role::Parameter &&
        !written.contains(state.getSymNameAttr()) &&
        state.getTensorType().getRank() == 2 &&
        isStoredReal(state.getTensorType().getElementType()) && filter(state))
      names.insert(state.getSymNameAttr());
  MatmulWeights reads;
  module.walk([&](ReadOp read) {
    if (names.contains(read.getStateAttr().getAttr()))
      reads[read.getStateAttr().getAttr()].push_back(read);
  });
  reads.remove_if([](const auto &entry) {
    return !llvm::all_of(entry.second, isReadByMatmuls);
  });
  return reads;
}
