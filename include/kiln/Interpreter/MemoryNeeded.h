//===- MemoryNeeded.h - Whether a module can be interpreted -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interpreter keeps every element of a tensor in 8 bytes. What it is going
// to need is known before it allocates anything: a file of a few lines may ask
// for more than any machine has.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_MEMORYNEEDED_H
#define KILN_INTERPRETER_MEMORYNEEDED_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Support/Status.h"

namespace kiln {

/// An error if the states of a module, the inputs and outputs of its programs
/// and the values of the program that has most of them at a time, or the arena
/// of scheduled programs, do not fit into this machine's memory.
Status checkMemoryNeeded(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_INTERPRETER_MEMORYNEEDED_H
