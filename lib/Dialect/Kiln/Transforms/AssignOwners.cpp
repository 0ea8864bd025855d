//===- AssignOwners.cpp - Owners of parameters ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AssignOwners.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;

llvm::DenseMap<StringAttr, int64_t>
kiln::giveToOwners(ArrayRef<OwnedTensor> tensors, int64_t ranks) {
  struct Unit {
    SmallVector<StateOp> states;
    int64_t bytes = 0;
  };
  // The states of a layer form a unit. Equal gradients have the same layer, so
  // parameters with one gradient are in one unit. Of parameters without a
  // layer, only those with one gradient form a unit.
  llvm::MapVector<const void *, Unit> units;
  for (const OwnedTensor &tensor : tensors) {
    StateOp state = tensor.state;
    const void *key = state.getSymNameAttr().getAsOpaquePointer();
    if (tensor.layer)
      key = tensor.layer.getAsOpaquePointer();
    else if (tensor.gradient)
      key = tensor.gradient.getAsOpaquePointer();
    Unit &unit = units[key];
    unit.states.push_back(state);
    unit.bytes += bytesOf(state.getType());
  }
  SmallVector<Unit> ordered;
  for (auto &[key, unit] : units)
    ordered.push_back(std::move(unit));
  llvm::stable_sort(
      ordered, [](const Unit &a, const Unit &b) { return a.bytes > b.bytes; });
  SmallVector<int64_t> bytes(ranks);
  llvm::DenseMap<StringAttr, int64_t> owners;
  for (const Unit &unit : ordered) {
    int64_t owner = llvm::min_element(bytes) - bytes.begin();
    bytes[owner] += unit.bytes;
    for (StateOp state : unit.states)
      owners[state.getSymNameAttr()] = owner;
  }
  return owners;
}

llvm::DenseMap<StringAttr, int64_t>
kiln::giveToServer(ArrayRef<OwnedTensor> tensors) {
  llvm::DenseMap<StringAttr, int64_t> owners;
  for (const OwnedTensor &tensor : tensors) {
    StateOp state = tensor.state;
    owners[state.getSymNameAttr()] = 0;
  }
  return owners;
}
