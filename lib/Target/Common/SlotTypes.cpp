//===- SlotTypes.cpp - Of which elements slots are ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/SlotTypes.h"

using namespace mlir;
using namespace kiln;

SlotTypes::SlotTypes(rt::ProgramOp program)
    : module(program->getParentOfType<ModuleOp>()) {
  program.walk([&](Operation *op) { add(op); });
  addCopies();
}

void SlotTypes::add(Value slot, Type element) {
  auto [known, isNew] = types.try_emplace(slot.getDefiningOp(), element);
  if (!isNew && known->second != element)
    known->second = Type();
}

/// `slots` are the operands and results of a kernel from number `first` on.
void SlotTypes::addKernel(StringRef name, ValueRange slots, unsigned first) {
  auto kernel = module.lookupSymbol<rt::KernelOp>(name);
  Block &body = kernel.getBody().front();
  SmallVector<Value> values(body.getArguments());
  llvm::append_range(values, body.getTerminator()->getOperands());
  for (auto [slot, value] :
       llvm::zip(slots, ArrayRef<Value>(values).drop_front(first)))
    add(slot, tensorTypeOf(value).getElementType());
}

void SlotTypes::addProduct(rt::GemmOp product) {
  auto epilogue = product.getEpilogueSlots();
  for (Value slot : product->getOperands())
    // What the library reads and writes beside a product is as its result.
    if (slot == product.getA() || slot == product.getB())
      add(slot, product.getElement());
    else if (slot != product.getScratch() &&
             !llvm::is_contained(epilogue, slot))
      add(slot, product.getResultElement());
  if (product.getEpilogue())
    addKernel(*product.getEpilogue(), epilogue, /*first=*/1);
}

void SlotTypes::add(Operation *op) {
  auto addBoundary = [&](auto boundary) {
    add(boundary.getSlot(),
        cast<RankedTensorType>(boundary.getType()).getElementType());
  };
  if (auto slot = dyn_cast<rt::SlotOp>(op)) {
    if (slot.getState())
      add(slot, module.lookupSymbol<StateOp>(*slot.getState())
                    .getTensorType()
                    .getElementType());
  } else if (auto input = dyn_cast<rt::InputOp>(op)) {
    addBoundary(input);
  } else if (auto output = dyn_cast<rt::OutputOp>(op)) {
    addBoundary(output);
  } else if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
    addKernel(launch.getKernel(), launch.getSlots(), /*first=*/0);
  } else if (auto product = dyn_cast<rt::GemmOp>(op)) {
    addProduct(product);
  } else if (auto copy = dyn_cast<rt::CopyOp>(op)) {
    copies.push_back({copy.getFrom(), copy.getTo()});
  } else if (auto start = dyn_cast<rt::CopyStartOp>(op)) {
    copies.push_back({start.getFrom(), start.getTo()});
  }
}

void SlotTypes::addCopies() {
  // Two passes follow a value out to the host and back; longer chains of slots
  // that nothing but copies touches take more.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [from, to] : copies)
      for (auto [known, other] : {std::pair(from, to), std::pair(to, from)}) {
        auto found = types.find(known.getDefiningOp());
        if (found == types.end() || types.contains(other.getDefiningOp()))
          continue;
        Type element = found->second;
        add(other, element);
        changed = true;
      }
  }
}
