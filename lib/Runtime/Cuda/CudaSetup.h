//===- CudaSetup.h - What an engine takes of a GPU --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything that a start takes, in the order in which it is taken: context,
// kernels, libraries, the arenas, streams and events, memory for inputs and
// outputs. All of it is given back from the last one to the first one, and what
// each took of the GPU's free memory is counted.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_CUDASETUP_H
#define KILN_LIB_RUNTIME_CUDA_CUDASETUP_H

#include "CudaProgram.h"
#include "Images.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime::cuda {

class CudaSetup {
public:
  /// `file` must outlive it. `kernels` has the names of the kernels, as
  /// createCudaEngine(); an empty `algorithmFile` lets the library choose.
  CudaSetup(const ProgramFile &file, const void *const *kernels,
            const GpuImages &images, Libraries libraries,
            std::string algorithmFile)
      : file_(file), images_(images), libraries_(std::move(libraries)),
        algorithmFile_(std::move(algorithmFile)) {
    resources_.kernels = kernels;
  }

  /// Before start(): another file, as of the constructor.
  void keepAlgorithms(const std::string &path) { algorithmFile_ = path; }

  /// Takes everything and prepares the programs, which must stay where they
  /// are. `threads` of the host's kernels; 0: as planned.
  Status start(std::vector<CudaProgram> &programs, int threads);

  /// Valid and in its place as long as this.
  const CudaResources &resources() const { return resources_; }
  int threads() const { return team_ ? team_->size() : 0; }
  /// What a user should know of the start: one line, if anything.
  std::optional<std::string> notice() const { return notice_; }
  /// Libraries and device, as the log has them; empty before the start.
  std::string libraryName() const;

  /// Adds lines of what everything took of the GPU's free memory; the arena's
  /// can be wrong.
  Status checkMemory(std::vector<MemoryCheckLine> &lines);

  /// Nothing that is still under way may lose its memory.
  void waitForAll() const;

private:
  /// What a part of the start took of the device's memory.
  struct MemoryUse {
    const char *what;
    int64_t bytes;
  };
  using Programs = std::vector<CudaProgram>;

  Status openDevice(const Programs &programs);
  Status takeMemory();
  Status checkFreeMemory(const Gpu::Memory &memory) const;
  Status makeStreams(const Programs &programs);
  Status findFunctions();
  Status preparePrograms(Programs &programs);
  Status beginSearch();
  void endSearch();
  Status openAttention(const Programs &programs);
  void note(const std::string &text);
  /// Adds what the free memory has fallen by since the last call.
  Status countMemory(const char *what);

  const ProgramFile &file_;
  GpuImages images_;
  Libraries libraries_;
  std::string algorithmFile_;
  std::optional<std::string> notice_;
  std::optional<ThreadTeam> team_;
  // Given back from the last one to the first one.
  std::optional<Driver> driver_;
  std::optional<Gpu> gpu_;
  LoadedModule module_;
  std::optional<BlasLt> blasLt_;
  std::optional<AlgorithmSearch> search_; ///< While the engine starts.
  std::optional<AttentionLibrary> attention_;
  DeviceMemory arena_;
  PinnedMemory hostArena_, staging_;
  CudaResources resources_;
  int64_t freeBytes_ = 0;
  std::vector<MemoryUse> memoryUses_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_CUDASETUP_H
