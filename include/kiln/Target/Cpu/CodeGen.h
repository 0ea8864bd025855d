//===- CodeGen.h - Compiles kernel modules to object code -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_CODEGEN_H
#define KILN_TARGET_CPU_CODEGEN_H

#include "kiln/Target/Common/ProgramWriter.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace kiln::cpu {

/// Returns the processor named `mcpu`. If `mcpu` is empty or "native", returns
/// the processor that kilnc runs on.
llvm::Expected<Processor> getProcessor(llvm::StringRef mcpu);

/// Lowers a module of emitted kernels (scf, arith, math, vector and llvm ops)
/// to the llvm dialect. May load dialects into the context, so it must not run
/// on several threads.
llvm::Error lowerKernels(mlir::ModuleOp kernels);

/// Compiles a module that lowerKernels() has lowered to a position-independent
/// object file. Uses no fast-math flags and no implicit FMA, and disables the
/// vectorizers and the unroller of LLVM. Several threads can compile modules of
/// one context at the same time.
llvm::Expected<llvm::SmallVector<char, 0>>
compileLowered(mlir::ModuleOp kernels, const Processor &processor);

/// Lowers a module of emitted kernels and compiles it.
llvm::Expected<llvm::SmallVector<char, 0>>
compileToObject(mlir::ModuleOp kernels, const Processor &processor);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_CODEGEN_H
