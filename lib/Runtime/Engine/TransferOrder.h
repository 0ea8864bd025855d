//===- TransferOrder.h - Race checks of transfers ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the asynchronous transfers of a program: copies, and collectives over
// ranks. A transfer is in flight from its start to the first wait for its
// token, in execution order. That wait must precede the next transfer with the
// same token and the end of the program. While a copy is in flight, no other
// command may write the source of the copy, and no other command may read or
// write the destination of the copy. The tensors that a collective only reads
// are checked like the source of a copy, and the tensors that it writes are
// checked like the destination.
//
// A copy may be in flight when a segment (a list of commands) ends, and when
// the segment of the next micro-batch begins. In that case its source and
// destination must be in slots or states that are live from its start to its
// wait. The check visits every execution of every command, with the addresses
// of that execution. Therefore the check also covers the memory of a ring slot,
// which one micro-batch releases and a later micro-batch uses.
//
// For a target with a GPU, the description of a launch contains the size of
// each argument. For a CPU it does not, and an argument is assumed to extend to
// the end of the slots and states that contain it. If one of these slots or
// states also contains the source or destination of a copy, the argument and
// the copy usually access disjoint bytes of that slot or state, such as slices
// or the operands of a concat. Therefore only the first byte of such an
// argument is compared with the copied bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_TRANSFERORDER_H
#define KILN_LIB_RUNTIME_ENGINE_TRANSFERORDER_H

#include "SegmentReader.h"
#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Checks the transfers of `program`, whose commands were read from `segments`,
/// and sets Program::tokens.
void checkTransfers(const SegmentReader &segments, const ProgramFile &file,
                    Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_TRANSFERORDER_H
