//===- Collectives.h - Collectives of the commands of programs --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all engines with several ranks need.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COLLECTIVES_H
#define KILN_LIB_RUNTIME_ENGINE_COLLECTIVES_H

#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Prepares a world of several ranks for an executable, and selects the
/// commands of this rank. Fails if the number of ranks differs from that of the
/// executable.
Status joinWorld(ProgramFile &file, World &world);

/// Selects the commands that a rank executes, and the states and slots that it
/// has: all but those of other owners.
void selectCommands(ProgramFile &file, int64_t rank);

/// Allocates the scratch memory of the collectives of all programs.
void reserveCollectives(const ProgramFile &file, World &world);

/// Returns the bytes that this rank has sent in collectives; 0 if `world` is
/// null.
int64_t sentBytes(const World *world);

/// The bytes of a tensor that are the shard of a rank, without padding.
struct CopiedShard {
  int64_t begin = 0, size = 0;
};

/// Returns the shard that a copy of a shard (Command::wholeBytes > 0) copies on
/// the rank with this index in its group.
CopiedShard copiedShard(const Command &command, int64_t index);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COLLECTIVES_H
