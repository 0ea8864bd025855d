//===- FirstTouches.h - First accesses of slot lifetimes --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When the lifetime of a slot begins, its bytes are uninitialised, whatever an
// earlier slot stored there. Each byte is invalidated immediately before the
// first action that accesses it in this lifetime. Events order that action with
// respect to all other actions that access the byte, in this lifetime and in
// earlier ones. Therefore the invalidation is correct for every interleaving of
// the streams.
//
// A slot that is live only within a loop has one lifetime per iteration. Inputs
// and states are initialised from the start. A result that is stored in place
// of an operand takes over the initialised bytes of the operand.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H
#define KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H

#include "BufferNames.h"
#include "StreamProgram.h"

#include <vector>

namespace kiln::runtime {

/// Returns, for each action, the bytes that it is the first to access in the
/// lifetime of their slot.
std::vector<std::vector<ByteRange>> firstTouches(const ProgramFile &file,
                                                 const Program &program,
                                                 const StreamProgram &streams,
                                                 const BufferNames &names);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H
