//===- RankGroups.h - Communicators of a rank -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The NCCL communicators of a rank. The ranks form a mesh. The group of this
// rank on an axis of the mesh consists of all ranks that have the same indexes
// as this rank on all other axes. For each axis with several ranks, one
// communicator connects this group. Before the communicators are created, the
// ranks exchange the ids of the communicators through a World (MPI or sockets),
// and compare their GPUs and libraries.
//
// NCCL does not return an error, but waits forever, if another rank has failed
// or hangs. The ranks therefore agree that all of them can connect before the
// first call that needs other ranks. CallWatchdog ends the processes if such a
// call does not return, and waitForStream() checks for errors and the time-out
// while collectives are executed.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_RANKGROUPS_H
#define KILN_LIB_RUNTIME_CUDA_RANKGROUPS_H

#include "CallWatchdog.h"
#include "Gpu.h"
#include "Nccl.h"
#include "kiln/Runtime/Comm/World.h"
#include "kiln/Support/Mesh.h"

#include <memory>
#include <string>
#include <vector>

namespace kiln::runtime::cuda {

/// The group of this rank on an axis of the mesh.
struct RankGroup {
  support::MeshGroup ranks;
  int64_t index = 0; ///< The index of this rank in the group.
  /// Null if the group has one rank.
  Communicator communicator;
};

class RankGroups {
public:
  /// Creates the communicators. All ranks of `world` must call this function.
  /// `own` is the outcome of the start of this rank so far; if it is an error
  /// on any rank, returns an error on all ranks. `gpu` is null only if `own` is
  /// an error. `device` describes the GPU and the libraries that determine
  /// results. Fails if two ranks have the same GPU, different values of
  /// `device`, or different versions of NCCL. All functions of the result
  /// except its destructor may use `world`.
  static Result<std::unique_ptr<RankGroups>>
  connect(const Status &own, const support::Mesh &mesh, World &world,
          const Gpu *gpu, const std::string &device,
          const std::vector<std::string> &libraries);

  const Nccl &nccl() const { return nccl_; }
  World &world() const { return world_; }
  const RankGroup &group(int64_t axis) const {
    return groups_[std::size_t(axis)];
  }

  /// Returns a scope in which the caller makes NCCL calls, which `what`
  /// describes. If the scope is not destroyed before the time-out, the watchdog
  /// ends the processes of all ranks.
  CallWatchdog::Scope watch(const char *what) { return {watchdog_, what}; }

  /// Returns the error of a collective that has been queued, if NCCL has found
  /// one.
  Status asynchronousError() const;
  /// Adds the number of the step to the message of an error.
  Status inStep(const Status &status) const;

private:
  RankGroups(Nccl nccl, World &world)
      : nccl_(std::move(nccl)), world_(world), watchdog_(world) {}

  Nccl nccl_;
  World &world_;
  CallWatchdog watchdog_;
  std::vector<RankGroup> groups_; ///< Indexed by axis.
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_RANKGROUPS_H
