//===- CommandTable.h - Executable form of a program's commands -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table of the commands of a program, in which references are resolved to
// pointers, and the function that executes the commands. The table is built
// once, and executing it allocates no memory. References and immediates that
// differ between executions of a command are resolved again in each execution.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDTABLE_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDTABLE_H

#include "Arena.h"
#include "CommandObserver.h"
#include "ThreadTeam.h"
#include "Transfers.h"
#include "kiln/Runtime/Engine/CommandEngine.h"
#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kiln::runtime {

class CommandTable {
public:
  /// `program` must outlive the table. `rank` is the number of this rank in
  /// `mesh`. It determines the group of ranks that executes a collective, and
  /// the shard that is copied if a command copies one shard of a tensor.
  CommandTable(const Program &program, const Arenas &arenas, ThreadTeam &team,
               const void *const *kernels, const support::Mesh &mesh = {},
               int rank = 0);

  /// Executes all commands. `observer` may be null. If `transfers` is null,
  /// transfers are executed synchronously at their starts, and carryOutAlone()
  /// executes collectives without other ranks.
  void run(CommandObserver *observer, Transfers *transfers = nullptr);

private:
  struct Step {
    const Command *command;
    KernelFunction kernel = nullptr;
    std::size_t firstArg = 0;       ///< Index in args_.
    std::size_t firstImmediate = 0; ///< Index in immediates_.
    std::size_t firstSpan = 0;      ///< Index in spans_.
    int64_t chunks = 0;
    /// True if a reference or an immediate differs between executions.
    bool varies = false;
    /// The group of ranks of a collective or of a copy of a shard.
    support::MeshGroup group;
    int64_t index = 0; ///< The index of this rank in the group.
  };

  void resolve(const Step &step, const abi::SegmentRun &run);
  void execute(std::size_t index, const abi::SegmentRun &run,
               Transfers &transfers);
  void startTransfer(std::size_t index, const abi::SegmentRun &run,
                     Transfers &transfers);
  void launch(const Step &step);
  void gemm(const Step &step, const abi::SegmentRun &run);
  void fill(const Step &step, const abi::SegmentRun &run);
  void copy(const Step &step, const abi::SegmentRun &run);
  char *deviceAt(int64_t offset) const {
    return bases_[std::size_t(ArenaKind::Device)] + offset;
  }
  char *at(const Ref &ref, const abi::SegmentRun &run) const {
    return bases_[std::size_t(ref.arena)] + ref.at(run).offset;
  }

  const Program &program_;
  /// Start addresses of the arenas, indexed by ArenaKind. Null for an arena
  /// that is not mapped.
  std::array<char *, std::size(arenaKinds)> bases_;
  ThreadTeam &team_;
  std::vector<Step> steps_;
  std::vector<char *> args_;
  std::vector<int64_t> immediates_;
  std::vector<CollectiveSpan> spans_;
  /// The number of elements of threadImmediates_ per thread: the immediates of
  /// one call of an epilogue, and padding.
  std::size_t epilogueImmediates_ = 0;
  std::vector<int64_t> threadImmediates_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDTABLE_H
