//===- EmulateTensorCore.h - Emulating a warp's operations ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations of the nvvm dialect that TensorCore.h emits, as calls of the
// emulated device. Their operands and results go through a few words on the
// thread's stack.
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
  /// Emits a call of the device; a null type is no result.
  using Call = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                              llvm::StringRef, mlir::Type,
                                              llvm::ArrayRef<mlir::Value>)>;

  explicit TensorCoreEmulation(mlir::LLVM::LLVMFuncOp function)
      : function(function) {}

  /// Whether the operation is a matter of this class.
  static bool handles(mlir::Operation *op);
  /// Replaces such an operation, or says why it cannot.
  std::optional<std::string> lower(mlir::Operation *op, Call call);

private:
  std::optional<std::string> multiply(mlir::Operation *op, Call call);
  std::optional<std::string> load(mlir::Operation *op, Call call);
  std::optional<std::string> copy(mlir::Operation *op, Call call);
  mlir::Value word(mlir::OpBuilder &b, mlir::Location loc, int32_t index);
  /// Replaces an operation by what the device left at the words from `first`
  /// on.
  void replaceByWords(mlir::Operation *op, int32_t first);

  mlir::LLVM::LLVMFuncOp function;
  mlir::Value words; ///< On the stack; made at first use.
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_EMULATETENSORCORE_H
