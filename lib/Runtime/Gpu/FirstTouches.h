//===- FirstTouches.h - Where the lives of slots begin ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When the life of a slot begins, its bytes mean nothing, whatever an earlier
// slot left there. Each byte loses its meaning right before the first action
// that touches it in this life. As that action is ordered against all others
// that touch the byte, in this life and in earlier ones, the same holds in
// whatever order the streams run.
//
// A slot that lives inside of a loop has a life in every iteration. Inputs and
// states hold something from the start. A result that takes the place of an
// operand takes over its bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H
#define KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H

#include "BufferNames.h"
#include "StreamProgram.h"

#include <vector>

namespace kiln::runtime {

/// Per action, the bytes of slots that it is the first to touch.
std::vector<std::vector<ByteRange>> firstTouches(const ProgramFile &file,
                                                 const Program &program,
                                                 const StreamProgram &streams,
                                                 const BufferNames &names);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_FIRSTTOUCHES_H
