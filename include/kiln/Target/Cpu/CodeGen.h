//===- CodeGen.h - From kernel modules to object code -----------*- C++ -*-===//
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

/// The machine kilnc runs on, or the one that `--mcpu` names.
llvm::Expected<Processor> getProcessor(llvm::StringRef mcpu);

/// Lowers a module of emitted kernels (scf, arith, math, vector, llvm ops) to
/// the LLVM dialect and on to a position independent object file. No fast-math,
/// no implicit fma; LLVM's vectorizers and unroller are off.
llvm::Expected<llvm::SmallVector<char, 0>>
compileToObject(mlir::ModuleOp kernels, const Processor &processor);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_CODEGEN_H
