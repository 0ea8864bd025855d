//===- MemoryNeeded.h - Check of the interpreter's memory use ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interpreter stores every element of a tensor in 8 bytes. The memory that
// a module needs is computed before anything is allocated, because a module of
// a few lines may need more memory than any machine has.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_MEMORYNEEDED_H
#define KILN_INTERPRETER_MEMORYNEEDED_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Support/Status.h"

namespace kiln {

/// Returns an error if the module does not fit into the memory of this machine.
/// Counts the states of the module, the inputs and outputs of its programs, the
/// arena of its scheduled programs, and the largest peak memory of any single
/// program or command.
Status checkMemoryNeeded(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_INTERPRETER_MEMORYNEEDED_H
