//===- EmuExecutor.h - Execution of actions on the emulated GPU -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes actions one at a time, in an order that the caller chooses. Kernels
// of the GPU run on the emulated device, which checks that each access is
// within an argument. Copies, and the matmuls of the vendor library, are
// executed by host code. Such a matmul uses the tiles of the CPU engine and
// produces the same bits as that engine. All bytes that a matmul or a host
// kernel reads must be initialised. A copy of uninitialised bytes makes the
// destination uninitialised. A reduce-scatter makes its operands uninitialised,
// because it may overwrite them with partial sums.
//
// Each rank has an emulated device of its own. In a collective, the calling
// thread waits for the other ranks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_EMUEXECUTOR_H
#define KILN_LIB_RUNTIME_GPU_EMUEXECUTOR_H

#include "Arena.h"
#include "BufferNames.h"
#include "GemmTiles.h"
#include "StreamProgram.h"
#include "ThreadTeam.h"
#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Emu/EmuDevice.h"
#include "kiln/Runtime/Engine/Engine.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// A program that has been prepared for execution.
struct EmuProgram {
  const Program &program;
  const ProgramInfo &info;
  BufferNames names;
  StreamProgram streams;
  /// For each action, the bytes that it is the first to access in the lifetime
  /// of their planned buffer.
  std::vector<std::vector<ByteRange>> firstTouches;
};

class EmuExecutor {
public:
  /// The arenas must have been mapped, and must have been declared as memory of
  /// `device`. `world` is null if there is only one rank.
  EmuExecutor(const ProgramFile &file, const Arenas &arenas, EmuDevice &device,
              ThreadTeam &team, const void *const *kernels, World *world)
      : file_(file), arenas_(arenas), device_(device), team_(team),
        kernels_(kernels), world_(world) {}

  /// Begins a run. States and inputs count as initialised, and all other bytes
  /// as uninitialised.
  Status begin(const EmuProgram &program);
  Status execute(const EmuProgram &program, std::size_t action) {
    return executeActions(program, action, 1);
  }
  /// Executes an action. If the action is the first launch of a launch group,
  /// executes the whole group as one launch. If the action is a later launch of
  /// a group, does nothing.
  Status executeGroup(const EmuProgram &program, std::size_t action);
  /// Ends a run. Returns an error if an output or a state is not initialised.
  Status end(const EmuProgram &program) const;

  /// Returns the seconds that collectives have taken since begin().
  double waitedSeconds() const { return waitedSeconds_; }
  /// Returns the memory traffic of the kernels since begin().
  const SectorCounts &sectors() const { return sectors_; }

private:
  /// One execution of a command.
  struct Work {
    const EmuProgram &program;
    std::size_t index;
    const Command &command;
    const abi::SegmentRun &run;
  };
  /// Executes `count` consecutive actions. If `count` exceeds 1, they are the
  /// launches of a launch group.
  Status executeActions(const EmuProgram &program, std::size_t action,
                        int64_t count);
  Status execute(const Work &work);
  /// Launches a kernel. `members` is the number of launches of the launch group
  /// that begins with the command, or 1 to launch the command alone.
  Status launch(const Work &work, int64_t members);
  void addArguments(const Work &work, EmuLaunch &launch) const;
  Status launchOnHost(const Work &work);
  Status gemm(const Work &work);
  void multiply(const Work &work, const GemmPlaces &places, bool accumulate);
  Status fill(const Work &work);
  Status copy(const Work &work);
  Status collective(const Work &work);
  int rank() const { return world_ ? world_->rank() : 0; }
  support::MeshGroup groupOf(const Command &command) const;
  Status checkRead(const Work &work, const Ref &ref, int64_t bytes) const;
  char *at(const Ref &ref, const abi::SegmentRun &run) const {
    return arenas_.at(ref.at(run));
  }

  const ProgramFile &file_;
  const Arenas &arenas_;
  EmuDevice &device_;
  ThreadTeam &team_;
  const void *const *kernels_;
  World *world_;
  SectorCounts sectors_;
  double waitedSeconds_ = 0;
  /// Scratch memory for GEMMs. A GEMM with GemmKernel::Blas uses the workspace
  /// of its command instead.
  std::vector<char> scratch_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_EMUEXECUTOR_H
