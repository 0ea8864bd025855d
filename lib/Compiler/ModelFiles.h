//===- ModelFiles.h - Small files of a model directory ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the files of a model directory that a saved model also contains: the
// configuration and the tokenizer files.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_MODELFILES_H
#define KILN_LIB_COMPILER_MODELFILES_H

#include "kiln/Support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// Returns names and contents of the small files in `directory` that a saved
/// model needs. A model in a .mlir file has none, even if it was imported from
/// a directory.
Result<std::vector<std::pair<std::string, std::string>>>
readModelFiles(mlir::ModuleOp module, llvm::StringRef directory);

} // namespace kiln

#endif // KILN_LIB_COMPILER_MODELFILES_H
