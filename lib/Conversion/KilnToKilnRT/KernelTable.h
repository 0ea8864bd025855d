//===- KernelTable.h - Distinct kernels of a module -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_CONVERSION_KILNTOKILNRT_KERNELTABLE_H
#define KILN_LIB_CONVERSION_KILNTOKILNRT_KERNELTABLE_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/DenseMap.h"

namespace kiln {

/// Creates one kernel for all equal dispatches. Two dispatches are equal if
/// their bodies are equal except for locations and launch arguments, and their
/// operands and results have the same row strides. The kernel of a
/// dispatch of the family 'gemm' is the epilogue of the dispatch, with the
/// result of the matmul as first operand.
class KernelTable {
public:
  explicit KernelTable(mlir::ModuleOp module)
      : module(module), symbols(module) {}

  /// Returns the kernel of a dispatch. `rowStrides` are the row pitches, in
  /// elements, of the operands and then the results.
  rt::KernelOp get(DispatchOp dispatch, llvm::ArrayRef<int64_t> rowStrides);

  mlir::SymbolTable &getSymbols() { return symbols; }

private:
  rt::KernelOp make(DispatchOp dispatch, llvm::ArrayRef<int64_t> rowStrides);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  /// The kernels, grouped by their hashes, and the number of all kernels.
  llvm::DenseMap<uint64_t, llvm::SmallVector<rt::KernelOp>> kernels;
  size_t count = 0;
  /// The row strides and the result of the last lookup of each dispatch.
  llvm::DenseMap<mlir::Operation *,
                 std::pair<llvm::SmallVector<int64_t>, rt::KernelOp>>
      ofDispatches;
};

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_KERNELTABLE_H
