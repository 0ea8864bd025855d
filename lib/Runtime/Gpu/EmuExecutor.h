//===- EmuExecutor.h - Carries out actions on the emulated GPU --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One action after the other, in whatever order the caller chooses. Kernels of
// the GPU run on the emulated device, with the exact bounds of their arguments.
// What stands in for a GPU's library, products and copies, computes as the
// engine of the cpu does, tile by tile: of products the bits are the same. All
// bytes that these and the kernels of the host read must have been written.
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

/// A program, ready to run.
struct EmuProgram {
  const Program &program;
  const ProgramInfo &info;
  BufferNames names;
  StreamProgram streams;
  std::vector<std::vector<ByteRange>> firstTouches; ///< Per action.
};

class EmuExecutor {
public:
  /// The arenas are mapped, and memory of the device.
  EmuExecutor(const ProgramFile &file, const Arenas &arenas, EmuDevice &device,
              ThreadTeam &team, const void *const *kernels)
      : file_(file), arenas_(arenas), device_(device), team_(team),
        kernels_(kernels) {}

  /// A run begins: states and inputs hold values, and nothing else does.
  Status begin(const EmuProgram &program);
  Status execute(const EmuProgram &program, std::size_t action) {
    return executeActions(program, action, 1);
  }
  /// The same, but the first member of a group runs it as one launch, so that
  /// nothing is left to do for the others.
  Status executeGroup(const EmuProgram &program, std::size_t action);
  /// A run ends: outputs and states must hold values.
  Status end(const EmuProgram &program) const;

  /// Of the kernels since begin().
  const SectorCounts &sectors() const { return sectors_; }

private:
  /// A command in an iteration.
  struct Work {
    const EmuProgram &program;
    std::size_t index;
    const Command &command;
    int64_t iteration;
  };
  /// `count` actions from one on, of a group if there are several.
  Status executeActions(const EmuProgram &program, std::size_t action,
                        int64_t count);
  Status execute(const Work &work);
  /// `members`: of the group that the command begins, or 1.
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
