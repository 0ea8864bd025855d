//===- CodeGen.h - From kernel modules to object code -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_CODEGEN_H
#define KILN_TARGET_CPU_CODEGEN_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace kiln::cpu {

/// The processor that code is made for.
struct Processor {
  std::string name;                  ///< LLVM's name, e.g. "sapphirerapids"
  std::vector<std::string> features; ///< those that must be present at run time
  std::string featureString;         ///< as LLVM's TargetMachine wants it
};

/// The machine kilnc runs on, or the one that `--mcpu` names.
llvm::Expected<Processor> getProcessor(llvm::StringRef mcpu);

/// Lowers a module of emitted kernels (scf, arith, math, vector, llvm ops) to
/// the LLVM dialect and on to a position independent object file. No fast-math,
/// no implicit fma; LLVM's vectorizers and unroller are off.
llvm::Expected<llvm::SmallVector<char, 0>>
compileToObject(mlir::ModuleOp kernels, const Processor &processor);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_CODEGEN_H
