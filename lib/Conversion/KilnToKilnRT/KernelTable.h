//===- KernelTable.h - Distinct kernels of a module -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_CONVERSION_KILNTOKILNRT_KERNELTABLE_H
#define KILN_LIB_CONVERSION_KILNTOKILNRT_KERNELTABLE_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {

/// Gives equal dispatches one kernel. Two dispatches are equal when their
/// bodies print alike without locations, RNG keys and attention scales, and
/// their operands have the same row strides. The kernel of a product is its
/// epilogue, with the product as first operand.
class KernelTable {
public:
  KernelTable(mlir::ModuleOp module, RowPrograms &rowPrograms)
      : module(module), rowPrograms(rowPrograms), symbols(module) {}

  /// The kernel of a dispatch; `rowStrides` of operands, then results.
  rt::KernelOp get(DispatchOp dispatch, llvm::ArrayRef<int64_t> rowStrides);

  RowPrograms &getRowPrograms() { return rowPrograms; }

  /// What a launch of this dispatch passes as immediates.
  llvm::SmallVector<int64_t> immediatesOf(DispatchOp dispatch);

private:
  mlir::ModuleOp module;
  RowPrograms &rowPrograms;
  mlir::SymbolTable symbols;
  llvm::StringMap<rt::KernelOp> kernels;
};

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_KERNELTABLE_H
