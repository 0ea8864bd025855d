//===- FirstTouches.h - First accesses of slot lifetimes --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When the lifetime of a slot (a planned buffer) begins, its bytes count as
// uninitialised, even if an earlier slot stored values at the same offsets.
// Each byte is marked as uninitialised immediately before the first action that
// accesses the byte in this lifetime. Events order this action after all
// actions that access the byte in earlier lifetimes, and before all others in
// this lifetime. Therefore the marking is correct for every interleaving of the
// streams.
//
// A slot that is live only within micro-batches has one lifetime for each
// micro-batch. Inputs and states are initialised before the run. A result that
// is stored in the memory of an operand keeps the initialised bytes of that
// operand.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H
#define KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H

#include "BufferNames.h"
#include "StreamProgram.h"

#include <vector>

namespace kiln::runtime {

/// Returns, for each action, the bytes that this action is the first to access
/// in the lifetime of their slot (a planned buffer).
std::vector<std::vector<ByteRange>> firstTouches(const ProgramFile &file,
                                                 const Program &program,
                                                 const StreamProgram &streams,
                                                 const BufferNames &names);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H
