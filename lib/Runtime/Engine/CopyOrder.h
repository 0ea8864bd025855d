//===- CopyOrder.h - Does anything disturb a copy in transfer? ----*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the asynchronous copies of a program. A copy is in transfer from its
// start to the first wait for its token, in the order of a run. There is such a
// wait before its token is used for another copy and before the program ends.
// While a copy is in transfer, no other command writes what it reads or touches
// what it writes.
//
// A copy that is started in one iteration of a loop may be waited for in the
// next one. Then what it reads and writes is in slots or states that live all
// around the loop. It is enough to walk through a loop twice: the second walk
// stands for all iterations but the first, because every iteration ends with
// the same copies in transfer.
//
// Where the target has a GPU, launches say how many bytes each argument has.
// The description for a cpu does not: an argument is taken to reach to the end
// of the slots and states around it. But where these hold a copy too, they are
// made of parts (slices, operands of a concat), and only an argument that
// begins inside of the copied bytes counts.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COPYORDER_H
#define KILN_LIB_RUNTIME_ENGINE_COPYORDER_H

#include "SegmentReader.h"
#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Checks `program`, whose commands were read from `segments`, and counts its
/// copies.
void checkCopies(const SegmentReader &segments, const ProgramFile &file,
                 Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYORDER_H
