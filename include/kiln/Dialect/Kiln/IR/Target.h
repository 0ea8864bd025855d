//===- Target.h - What a module is compiled for -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A module says what it is compiled for by the attribute `kiln.target`; without
// it, for the cpu. kilnc sets it, whatever a file says. Plans of cuda and
// cuda-emu are alike.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_TARGET_H
#define KILN_DIALECT_KILN_IR_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace kiln {

enum class TargetKind {
  Cpu,
  Cuda,   ///< an NVIDIA gpu
  CudaEmu ///< a gpu that is emulated, and checked, on the cpu
};

inline constexpr llvm::StringLiteral kTargetAttr = "kiln.target";

inline bool isGpu(TargetKind target) { return target != TargetKind::Cpu; }

/// "cpu", "cuda", "cuda-emu".
llvm::StringRef stringifyTarget(TargetKind target);
std::optional<TargetKind> symbolizeTarget(llvm::StringRef name);

TargetKind targetOf(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_TARGET_H
