//===- SlotReader.h - Reads the slots of a program --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the planned buffers of a program, and checks each of them against the
// arenas and the micro-batches of the program.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_SLOTREADER_H
#define KILN_LIB_RUNTIME_ENGINE_SLOTREADER_H

#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

namespace kiln::runtime {

/// Reads a slot of `program`, whose segments (lists of commands) must have been
/// read before.
Slot readSlot(const support::Node &node, const ProgramFile &file,
              const Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_SLOTREADER_H
