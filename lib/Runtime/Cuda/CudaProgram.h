//===- CudaProgram.h - A program on CUDA streams ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queues the actions of a StreamProgram on CUDA streams. At the start, all
// streams other than the compute stream wait for the compute stream. At the
// end, the compute stream waits for all other streams. CUDA requires these
// waits in the capture of a graph. Since they are always queued, the same calls
// can be executed directly or captured.
//
// The staging memory of a program is pinned host memory. It contains copies of
// the inputs, of the outputs other than gradients, and of device data that host
// kernels read.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_CUDAPROGRAM_H
#define KILN_LIB_RUNTIME_CUDA_CUDAPROGRAM_H

#include "AttentionLibrary.h"
#include "BlasLt.h"
#include "BufferNames.h"
#include "Collectives.h"
#include "Gpu.h"
#include "HostWork.h"
#include "StreamProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <optional>
#include <vector>

namespace kiln::runtime::cuda {

class RankGroups;

/// The resources that all programs of an engine share.
struct CudaResources {
  const Gpu *gpu = nullptr;
  DevicePointer arena = 0;
  char *hostArena = nullptr; ///< Null if the host arena is empty.
  /// Computes gemms. Null if no program has a gemm.
  BlasLt *products = nullptr;
  /// Chooses the algorithms of gemms. If null, cuBLASLt's heuristic chooses
  /// them.
  AlgorithmSearch *search = nullptr;
  /// Chooses between cuDNN and kiln's kernel for each attention launch for
  /// which the program allows cuDNN. Null if there are no such launches.
  AttentionLibrary *attention = nullptr;
  /// The communicators that connect this rank to the other ranks. Null if there
  /// is one rank, and before the ranks are connected.
  RankGroups *groups = nullptr;
  int rank = 0;
  ThreadTeam *team = nullptr;
  const void *const *kernels = nullptr;
  /// The CUDA functions of the device kernels, indexed like `kernels`. The
  /// elements for host kernels are null.
  std::vector<Function> functions;
  std::array<QueueStream, streamCount> streams;
  /// All programs use the same events. Their number is the maximum of
  /// CudaProgram::events() over all programs.
  std::vector<Event> events;

  StreamHandle stream(Stream which) const {
    return streams[std::size_t(which)].get();
  }
};

/// Returns the bytes of dynamic shared memory of a launch. CUDA limits static
/// shared memory to 48 KiB; a kernel that needs more uses dynamic shared memory
/// only.
inline int64_t dynamicSharedBytes(const Command &command) {
  constexpr int64_t mostStatic = 48 * 1024;
  return command.sharedBytes > mostStatic ? command.sharedBytes : 0;
}

/// Observes the actions of a program while they are queued.
class ActionObserver {
public:
  virtual ~ActionObserver() = default;
  /// Returns true if the launches of a launch group run separately, and false
  /// if they run as one launch.
  virtual bool splitsGroups() const { return true; }
  virtual Status before(std::size_t action) { return Status(); }
  virtual Status after(std::size_t action) { return Status(); }
};

class CudaProgram {
public:
  /// `file` must outlive the program.
  CudaProgram(const ProgramFile &file, std::size_t index);

  const StreamProgram &streams() const { return streams_; }
  const BufferNames &names() const { return names_; }
  const Program &program() const { return program_; }
  const ProgramInfo &info() const { return info_; }
  bool usesBlasLt() const;
  /// Returns true if the program has attention kernels that the engine is
  /// allowed to replace by calls of cuDNN.
  bool mayUseAttention() const;
  /// Returns the number of events that queue() uses.
  std::size_t events() const {
    return std::size_t(streams_.events) + streamCount;
  }
  /// Returns the size of the staging memory that prepare() expects.
  int64_t stagingBytes() const { return stagingBytes_; }

  /// Resolves all references and chooses the algorithms. `staging` is pinned
  /// memory of stagingBytes() bytes. The staging memory and `resources` must
  /// outlive the program and must not move.
  Status prepare(const CudaResources &resources, char *staging);

  char *inputData(std::size_t input) const { return staging_ + inputs_[input]; }
  /// Returns null for a gradient, which has no host copy.
  char *outputData(std::size_t output) const {
    return outputs_[output] < 0 ? nullptr : staging_ + outputs_[output];
  }

  Status copyInputs() const;
  Status copyOutputs() const;
  /// Queues all actions. `observer` may be null.
  Status queue(ActionObserver *observer) const;
  /// Captures the calls of queue() into a graph and uploads the graph.
  Status capture();
  bool isCaptured() const { return bool(graph_); }
  Status launchGraph() const;
  /// Waits until all queued work has completed.
  Status finish() const;
  /// Returns true if the program has actions on the stream.
  bool uses(Stream stream) const { return used_[std::size_t(stream)]; }
  /// Returns the bytes that `rank` sends to other ranks in one run, as
  /// ringBytes() computes them.
  int64_t sentBytes(int rank) const;

private:
  /// Device data that a host kernel reads from a copy in staging memory.
  struct HostRead {
    int64_t offset; ///< Offset in the device arena.
    int64_t bytes;
    int64_t staging;
  };
  /// The data that an action needs in addition to its command.
  struct Prepared {
    /// For a gemm, the index of the choice that BlasLt::choose() returned.
    std::size_t choice = 0;
    /// For an attention launch, the cuDNN plan that runs in place of kiln's
    /// kernel. Null if kiln's kernel runs.
    const DnnAttention *attention = nullptr;
    HostWork hostWork;
    std::vector<HostRead> reads;
  };

  void layOutStaging();
  std::optional<std::size_t> inputAt(std::size_t action,
                                     const ByteRange &range) const;
  void prepareHost(std::size_t action);
  Status prepareAttention(std::size_t action);
  std::vector<DevicePointer> argumentsOf(const StreamAction &action) const;
  Status queueAction(std::size_t action, bool splitsGroups) const;
  Status queueLaunch(const StreamAction &action, int64_t members) const;
  Status queueHost(std::size_t action) const;
  Status queueGemm(std::size_t action) const;
  Status queueCopy(const StreamAction &action) const;
  Status queueShardCopy(const StreamAction &action) const;
  Status wait(Stream stream, std::size_t event) const;
  Status record(std::size_t event, Stream stream) const;
  Status inAction(const Status &status, std::size_t action) const;
  const Command &commandOf(const StreamAction &action) const {
    return program_.commands[action.command];
  }
  DevicePointer device(const Place &place) const {
    return resources_->arena + DevicePointer(place.offset);
  }
  char *host(const Place &place) const {
    return resources_->hostArena + place.offset;
  }
  /// Returns the group to which `rank` belongs on the mesh axis of `command`.
  support::MeshGroup groupOf(const Command &command, int rank) const;
  /// Returns the shard that this rank copies when it executes `command`, which
  /// must be the copy of a shard.
  CopiedShard ownShard(const Command &command) const;
  MatmulPlaces placesOf(const StreamAction &action) const;
  const Driver &driver() const { return resources_->gpu->driver(); }
  const DriverApi &api() const { return driver().api(); }

  const ProgramFile &file_;
  const Program &program_;
  const ProgramInfo &info_;
  StreamProgram streams_;
  BufferNames names_;
  std::array<bool, streamCount> used_ = {};
  // The offsets of the inputs and of the outputs in the staging memory. The
  // offset of a gradient is -1, because gradients are not copied to the host.
  std::vector<int64_t> inputs_, outputs_;
  int64_t readsBegin_ = 0;
  int64_t stagingBytes_ = 0;
  const CudaResources *resources_ = nullptr;
  char *staging_ = nullptr;
  std::vector<Prepared> prepared_; ///< Indexed by action.
  GraphExec graph_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_CUDAPROGRAM_H
