//===- EmulateTensorCore.h - Emulation of tensor core operations ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers the nvvm operations that TensorCore.h emits to calls of the emulated
// device. Operands and results are passed in an array on the stack of the
// thread.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_EMULATETENSORCORE_H
#define KILN_LIB_TARGET_GPU_EMULATETENSORCORE_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <optional>
#include <string>

namespace kiln::gpu {

class TensorCoreEmulation {
public:
  /// Emits a call of a function of the emulated device, given the name, the
  /// result type (null if there is no result) and the arguments.
  using Call = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                              llvm::StringRef, mlir::Type,
                                              llvm::ArrayRef<mlir::Value>)>;

  explicit TensorCoreEmulation(mlir::LLVM::LLVMFuncOp function)
      : function(function) {}

  /// Returns true if this class lowers the operation.
  static bool handles(mlir::Operation *op);
  /// Replaces an operation, or returns the reason why it is not supported.
  std::optional<std::string> lower(mlir::Operation *op, Call call);

private:
  std::optional<std::string> multiply(mlir::Operation *op, Call call);
  std::optional<std::string> load(mlir::Operation *op, Call call);
  std::optional<std::string> copy(mlir::Operation *op, Call call);
  mlir::Value word(mlir::OpBuilder &b, mlir::Location loc, int32_t index);
  /// Replaces an operation by the words that the device wrote, starting at word
  /// `first`.
  void replaceByWords(mlir::Operation *op, int32_t first);

  mlir::LLVM::LLVMFuncOp function;
  /// Pointer to the operands and results on the stack. Null until it is first
  /// used.
  mlir::Value words;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_EMULATETENSORCORE_H
