//===- CudaSetup.h - GPU resources of an engine -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Acquires all resources of an engine in a fixed order: context, kernels,
// cuBLASLt, arenas, streams and events, cuDNN, and memory for inputs and
// outputs. The destructor releases the resources in reverse order. After each
// step, the decrease of the GPU's free memory is recorded.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_CUDASETUP_H
#define KILN_LIB_RUNTIME_CUDA_CUDASETUP_H

#include "CudaProgram.h"
#include "Images.h"
#include "RankGroups.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime::cuda {

class CudaSetup {
public:
  /// `file` must outlive this object. `kernels` is the kernel table that was
  /// passed to createCudaEngine(). If `algorithmFile` is empty, cuBLASLt's
  /// heuristic chooses the GEMM algorithms.
  CudaSetup(const ProgramFile &file, const void *const *kernels,
            const GpuImages &images, Libraries libraries,
            std::string algorithmFile)
      : file_(file), images_(images), libraries_(std::move(libraries)),
        algorithmFile_(std::move(algorithmFile)) {
    resources_.kernels = kernels;
  }

  /// Sets the path of the algorithm file. Must be called before start().
  void keepAlgorithms(const std::string &path) { algorithmFile_ = path; }

  /// Sets the number of this rank and its index among the ranks on the same
  /// machine, which selects the GPU. `threads` limits the number of threads
  /// that start() uses by default. Must be called before start().
  void setRank(int rank, int localRank, int threads) {
    resources_.rank = rank;
    localRank_ = localRank;
    mostThreads_ = threads;
  }

  /// Acquires all resources and prepares `programs`. The elements of `programs`
  /// must not be moved in memory afterwards. `threads` is the number of threads
  /// for host kernels; 0 selects the number in the plan, but at most the
  /// `threads` of setRank() or, if setRank() was not called, at most the number
  /// of available processors.
  Status start(std::vector<CudaProgram> &programs, int threads);

  /// Connects the ranks of `world`. All ranks must call this function after
  /// start(), even if start() has failed. `started` is the result of start() on
  /// this rank. If it is an error on any rank, this function returns an error
  /// on all ranks.
  Status connectRanks(const Status &started, World &world);

  /// Returns the resources. The reference is valid for the lifetime of this
  /// object.
  const CudaResources &resources() const { return resources_; }
  int threads() const { return team_ ? team_->size() : 0; }
  /// Returns a one-line notice for the user, if start() produced one.
  std::optional<std::string> notice() const { return notice_; }
  /// Returns the names of the libraries and the GPU for the log, or an empty
  /// string before start().
  std::string libraryName() const;

  /// Appends one line for each step of start(), with the GPU memory that the
  /// step acquired. Only the line for the arena has an expected size, the
  /// planned size of the arena; all other lines are for information.
  Status checkMemory(std::vector<MemoryCheckLine> &lines);

  /// Waits for all queued work, so that the memory that the work uses can be
  /// released.
  void waitForAll() const;

private:
  /// The device memory that one step of start() acquired.
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
  Status shareAlgorithms(World &world);
  void note(const std::string &text);
  /// Records the decrease of free GPU memory since the previous call of
  /// countMemory(), under the name `what`.
  Status countMemory(const char *what);

  const ProgramFile &file_;
  GpuImages images_;
  Libraries libraries_;
  std::string algorithmFile_;
  int localRank_ = 0;
  std::optional<int> mostThreads_;
  std::optional<std::string> notice_;
  std::optional<ThreadTeam> team_;
  // The order of declaration matters, because members are destroyed in reverse
  // order.
  std::optional<Driver> driver_;
  std::optional<Gpu> gpu_;
  LoadedModule module_;
  std::optional<BlasLt> blasLt_;
  /// Has a value only while start() chooses the algorithms of gemms.
  std::optional<AlgorithmSearch> search_;
  std::optional<AttentionLibrary> attention_;
  std::unique_ptr<RankGroups> groups_;
  DeviceMemory arena_;
  PinnedMemory hostArena_, staging_;
  CudaResources resources_;
  int64_t freeBytes_ = 0;
  std::vector<MemoryUse> memoryUses_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_CUDASETUP_H
