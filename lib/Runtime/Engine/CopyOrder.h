//===- CopyOrder.h - Race checks of asynchronous copies ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the asynchronous copies of a program. A copy is in flight from its
// start to the first wait for its token, in execution order. The wait must
// precede the next use of the token and the end of the program. While a copy is
// in flight, no other command may write its source or access its destination.
//
// A copy that is started in one iteration of a loop may be waited for in the
// next. Its source and destination must then be in slots or states that are
// live around the whole loop. Two walks over a loop suffice: the second one
// represents all iterations except the first, because every iteration ends with
// the same copies in flight.
//
// On targets with a GPU, launches contain the size of each argument. On a CPU
// they do not, and an argument is assumed to extend to the end of the slots and
// states that contain it. If one of these slots or states also contains the
// source or destination of a copy, the argument and the copy usually access
// disjoint bytes of it (slices, operands of a concat). Therefore only the first
// byte of such an argument is compared with the copied bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COPYORDER_H
#define KILN_LIB_RUNTIME_ENGINE_COPYORDER_H

#include "SegmentReader.h"
#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Checks the copies of `program`, whose commands were read from `segments`,
/// and sets Program::copies.
void checkCopies(const SegmentReader &segments, const ProgramFile &file,
                 Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYORDER_H
