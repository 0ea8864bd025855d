//===- CopyOrder.h - Does anything disturb a copy in flight? ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asynchronous copies of a program: every token is started once and waited for
// once, later, with no begin or end of a loop between the two. Between its
// start and its wait, no other command writes what a copy reads or touches what
// it writes.
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

#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

namespace kiln::runtime {

/// Checks `program`, whose commands and slots were read from `commands`, and
/// counts its copies.
void checkCopies(const support::Node &commands, const ProgramFile &file,
                 Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYORDER_H
