//===- MemoryBlocks.h - Slots and states that contain a byte ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the slots and states that contain the first byte of a reference. The
// search has two steps. The first step finds candidates among all slots and
// states, for all executions of the command together. The second step searches
// only these few candidates, for each execution.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_MEMORYBLOCKS_H
#define KILN_LIB_RUNTIME_ENGINE_MEMORYBLOCKS_H

#include "kiln/Runtime/Engine/Program.h"

#include <vector>

namespace kiln::runtime {

class MemoryBlocks {
public:
  /// A state, or the instance of a slot that an execution uses.
  struct Block {
    ArenaKind arena;
    int64_t begin, end;
    Lifetime life;
    bool perMicrobatch; ///< Program::livesPerMicrobatch().
    int64_t ring;       ///< Slot::ring.
    std::size_t index;  ///< Identifies the slot or the state.
    /// The data-parallel rank that alone has the slot or state, or -1 if all
    /// ranks have it.
    int64_t owner;

    bool operator==(const Block &other) const {
      return index == other.index && begin == other.begin;
    }
  };

  MemoryBlocks(const ProgramFile &file, const Program &program);

  /// Indexes in blocks_.
  using Candidates = std::vector<std::size_t>;

  /// Returns the blocks that are live at `command` and may contain the first
  /// byte of `ref`, a reference of the command, in some execution. If `owner`
  /// is not negative, only rank `owner` uses the reference, and blocks that
  /// only another rank has are omitted.
  Candidates candidates(std::size_t command, const Ref &ref,
                        int64_t owner) const;
  /// Returns those of `candidates` that contain the first byte of `ref` in the
  /// execution `run`. If a slot has several instances (Slot::ring), only the
  /// instance that `run` uses is considered.
  std::vector<Block> around(const Candidates &candidates, const Ref &ref,
                            const abi::SegmentRun &run) const;

private:
  Microbatches microbatches_;
  std::vector<Block> blocks_; ///< The states, and each slot's first instance.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_MEMORYBLOCKS_H
