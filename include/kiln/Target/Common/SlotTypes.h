//===- SlotTypes.h - Of which elements slots are ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slot is bytes. What it holds follows from those who touch it: kernels,
// products, inputs, outputs, states, and copies of slots that they touch.
// Memory that a kernel or a library works in is of no type, nor is a slot that
// holds one type first and another one later.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_SLOTTYPES_H
#define KILN_TARGET_COMMON_SLOTTYPES_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/DenseMap.h"

namespace kiln {

class SlotTypes {
public:
  /// Of the slots of a program, which lies in a module with its kernels.
  explicit SlotTypes(rt::ProgramOp program);

  /// The type of the elements; null: none is known.
  mlir::Type of(rt::SlotOp slot) const { return types.lookup(slot); }

private:
  void add(mlir::Value slot, mlir::Type element);
  void addKernel(mlir::StringRef name, mlir::ValueRange slots, unsigned first);
  void addProduct(rt::GemmOp product);
  void add(mlir::Operation *op);
  /// Types that one end of a copy gives the other.
  void addCopies();

  mlir::ModuleOp module;
  llvm::DenseMap<mlir::Operation *, mlir::Type> types;
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> copies;
};

} // namespace kiln

#endif // KILN_TARGET_COMMON_SLOTTYPES_H
