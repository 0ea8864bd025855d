//===- CudaProgram.h - A program on the streams of a GPU --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queues the actions of a StreamProgram on the driver's streams. All begin
// behind what the compute stream holds, and the compute stream ends behind all
// of them, so that the same calls can be carried out or recorded as a graph.
//
// A program has memory on the host that copies reach (pinned): its inputs, its
// outputs but for gradients, and what kernels of the host read on the device.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_CUDAPROGRAM_H
#define KILN_LIB_RUNTIME_CUDA_CUDAPROGRAM_H

#include "AttentionLibrary.h"
#include "BlasLt.h"
#include "BufferNames.h"
#include "Gpu.h"
#include "HostWork.h"
#include "StreamProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <optional>
#include <vector>

namespace kiln::runtime::cuda {

/// What all programs of an engine share.
struct CudaResources {
  const Gpu *gpu = nullptr;
  DevicePointer arena = 0;
  char *hostArena = nullptr;         ///< May be null when nothing lives there.
  BlasLt *products = nullptr;        ///< Null: no program has one.
  AlgorithmSearch *search = nullptr; ///< Null: the library chooses.
  AttentionLibrary *attention = nullptr; ///< Null: no launch may be its.
  ThreadTeam *team = nullptr;
  const void *const *kernels = nullptr;
  std::vector<Function> functions; ///< As `kernels`; null: of the host.
  std::array<QueueStream, streamCount> streams;
  std::vector<Event> events; ///< Enough for any program.

  StreamHandle stream(Stream which) const {
    return streams[std::size_t(which)].get();
  }
};

/// Of a launch, which has to ask for it: a kernel with more than what every one
/// may have gets all of it so.
inline int64_t dynamicSharedBytes(const Command &command) {
  constexpr int64_t mostStatic = 48 * 1024;
  return command.sharedBytes > mostStatic ? command.sharedBytes : 0;
}

/// Called around every action while a program is queued.
class ActionObserver {
public:
  virtual ~ActionObserver() = default;
  /// Whether launches that could be one stay apart, each with its own calls;
  /// else the first of them is all of them.
  virtual bool splitsGroups() const { return true; }
  virtual Status before(std::size_t action) { return Status(); }
  virtual Status after(std::size_t action) { return Status(); }
};

class CudaProgram {
public:
  /// The file must outlive the program.
  CudaProgram(const ProgramFile &file, std::size_t index);

  const StreamProgram &streams() const { return streams_; }
  const BufferNames &names() const { return names_; }
  const Program &program() const { return program_; }
  const ProgramInfo &info() const { return info_; }
  bool usesBlasLt() const;
  /// Whether cuDNN may compute any of it.
  bool mayUseAttention() const;
  /// Number of events to queue it.
  std::size_t events() const {
    return std::size_t(streams_.events) + streamCount;
  }
  /// Of the memory that prepare() is given.
  int64_t stagingBytes() const { return stagingBytes_; }

  /// Resolves every reference. The resources must outlive the program and stay
  /// where they are.
  Status prepare(const CudaResources &resources, char *staging);

  char *inputData(std::size_t input) const { return staging_ + inputs_[input]; }
  /// Null: a gradient, which stays on the device.
  char *outputData(std::size_t output) const {
    return outputs_[output] < 0 ? nullptr : staging_ + outputs_[output];
  }

  Status copyInputs() const;
  Status copyOutputs() const;
  /// `observer` may be null.
  Status queue(ActionObserver *observer) const;
  /// Records what queue() does.
  Status capture();
  bool isCaptured() const { return bool(graph_); }
  Status launchGraph() const;
  /// Waits for all that was queued.
  Status finish() const;
  /// Whether it uses a stream.
  bool uses(Stream stream) const { return used_[std::size_t(stream)]; }

private:
  /// Bytes of the device that a kernel of the host reads.
  struct HostRead {
    int64_t offset; ///< In the device arena.
    int64_t bytes;
    int64_t staging;
  };
  /// What an action needs beside its command.
  struct Prepared {
    std::size_t choice = 0;                  ///< Of a product.
    const DnnAttention *attention = nullptr; ///< Null: the kernel.
    HostWork host;
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
  MatmulPlaces placesOf(const StreamAction &action) const;
  const Driver &driver() const { return resources_->gpu->driver(); }
  const DriverApi &api() const { return driver().api(); }

  const ProgramFile &file_;
  const Program &program_;
  const ProgramInfo &info_;
  StreamProgram streams_;
  BufferNames names_;
  std::array<bool, streamCount> used_ = {};
  // Offsets in the staging memory; -1: none.
  std::vector<int64_t> inputs_, outputs_;
  int64_t readsBegin_ = 0;
  int64_t stagingBytes_ = 0;
  const CudaResources *resources_ = nullptr;
  char *staging_ = nullptr;
  std::vector<Prepared> prepared_; ///< As the actions.
  GraphExec graph_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_CUDAPROGRAM_H
