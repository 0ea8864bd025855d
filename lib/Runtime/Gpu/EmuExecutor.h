//===- EmuExecutor.h - Execution of actions on the emulated GPU -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes actions one at a time, in an order that the caller chooses. GPU
// kernels run on the emulated device with the exact bounds of their arguments.
// Host code executes copies and the matmuls of the vendor library. These
// matmuls use the tiles of the CPU engine and produce the same bits as that
// engine. All bytes that matmuls and host kernels read must be initialised. A
// copy of uninitialised bytes leaves its target uninitialised.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_EMUEXECUTOR_H
#define KILN_LIB_RUNTIME_GPU_EMUEXECUTOR_H

#include "Arena.h"
#include "BufferNames.h"
#include "GemmTiles.h"
#include "StreamProgram.h"
#include "ThreadTeam.h"
#include "kiln/Runtime/Emu/EmuDevice.h"
#include "kiln/Runtime/Engine/Engine.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// A program prepared for execution.
struct EmuProgram {
  const Program &program;
  const ProgramInfo &info;
  BufferNames names;
  StreamProgram streams;
  std::vector<std::vector<ByteRange>> firstTouches; ///< Indexed by action.
};

class EmuExecutor {
public:
  /// The arenas must be mapped and declared as memory of the device.
  EmuExecutor(const ProgramFile &file, const Arenas &arenas, EmuDevice &device,
              ThreadTeam &team, const void *const *kernels)
      : file_(file), arenas_(arenas), device_(device), team_(team),
        kernels_(kernels) {}

  /// Begins a run, in which states and inputs are initialised and all other
  /// bytes are uninitialised.
  Status begin(const EmuProgram &program);
  Status execute(const EmuProgram &program, std::size_t action) {
    return executeActions(program, action, 1);
  }
  /// Executes an action. The first member of a launch group runs the whole
  /// group as one launch, and the other members do nothing.
  Status executeGroup(const EmuProgram &program, std::size_t action);
  /// Ends a run. Returns an error if an output or a state is not initialised.
  Status end(const EmuProgram &program) const;

  /// Returns the memory traffic of the kernels since begin().
  const SectorCounts &sectors() const { return sectors_; }

private:
  /// One execution of a command, in an iteration of its loop.
  struct Work {
    const EmuProgram &program;
    std::size_t index;
    const Command &command;
    int64_t iteration;
  };
  /// Executes `count` consecutive actions. If `count` exceeds 1, they are the
  /// members of a launch group.
  Status executeActions(const EmuProgram &program, std::size_t action,
                        int64_t count);
  Status execute(const Work &work);
  /// Launches a kernel. `members` is the size of the group that starts at the
  /// command, or 1.
  Status launch(const Work &work, int64_t members);
  void addArguments(const Work &work, EmuLaunch &launch) const;
  Status launchOnHost(const Work &work);
  Status gemm(const Work &work);
  void multiply(const Work &work, const GemmPlaces &places, bool accumulate);
  Status fill(const Work &work);
  Status copy(const Work &work);
  Status checkRead(const Work &work, const Ref &ref, int64_t bytes) const;
  char *at(const Ref &ref, int64_t iteration) const {
    return arenas_.at(ref.at(iteration));
  }

  const ProgramFile &file_;
  const Arenas &arenas_;
  EmuDevice &device_;
  ThreadTeam &team_;
  const void *const *kernels_;
  SectorCounts sectors_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_EMUEXECUTOR_H
