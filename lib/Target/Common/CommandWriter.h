//===- CommandWriter.h - Writes the programs of a description ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands, slots, inputs and outputs of programs in the format of
// docs/reference/program-format.md.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_COMMON_COMMANDWRITER_H
#define KILN_LIB_TARGET_COMMON_COMMANDWRITER_H

#include "kiln/Target/Common/ProgramWriter.h"

namespace kiln {

/// The name of the only role in a program file. The rank with this role runs
/// all programs and holds all states.
inline constexpr llvm::StringRef mainRole = "main";

/// Returns the name of an element type.
inline llvm::StringRef typeName(mlir::Type element) {
  return infoOf(elementTypeOf(element)).name;
}

inline llvm::json::Array shapeOf(mlir::RankedTensorType type) {
  llvm::json::Array shape;
  for (int64_t size : type.getShape())
    shape.push_back(size);
  return shape;
}

/// Returns the value of the member "programs" of the program file.
llvm::json::Object writePrograms(mlir::ModuleOp module,
                                 const TargetBackend &target,
                                 const KernelIndex &kernels);

} // namespace kiln

#endif // KILN_LIB_TARGET_COMMON_COMMANDWRITER_H
