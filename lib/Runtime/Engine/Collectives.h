//===- Collectives.h - Collectives of the commands of programs --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that all engines need for executables with several ranks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COLLECTIVES_H
#define KILN_LIB_RUNTIME_ENGINE_COLLECTIVES_H

#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Prepares `world`, the connections to the other ranks, for an executable, and
/// selects the commands of this rank. Fails if `world` does not have as many
/// ranks as the executable requires.
Status joinWorld(ProgramFile &file, World &world);

/// Selects the commands that a rank executes, and the states and slots that it
/// stores. Each command, state and slot belongs either to a single rank or to
/// all ranks.
void selectCommands(ProgramFile &file, int64_t rank);

/// Allocates the scratch memory for the collectives of all programs.
void reserveCollectives(const ProgramFile &file, World &world);

/// Returns the number of bytes that this rank has sent in collectives, or 0 if
/// `world` is null.
int64_t sentBytes(const World *world);

/// The range of bytes of a tensor that a rank's shard contains, without
/// padding.
struct CopiedShard {
  int64_t begin = 0, size = 0;
};

/// Returns the bytes that `command`, a copy of a shard (Command::wholeBytes >
/// 0), copies on the rank with index `index` in its group of ranks.
CopiedShard copiedShard(const Command &command, int64_t index);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COLLECTIVES_H
