//===- RankGroups.cpp - Communicators of a rank ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankGroups.h"

#include "RankProcessors.h"
#include "kiln/Support/Messages.h"

#include <cstring>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// What a rank tells the others before they create communicators.
struct RankCard {
  int64_t code = 0; ///< ExitCode if the rank failed to start; otherwise 0.
  char error[1024] = {};
  uint64_t machine = 0;
  GpuId gpu = {};
  char device[256] = {};
  int64_t version = 0; ///< The version of NCCL.
  /// For each axis on which this rank is the first rank of its group, the id of
  /// the communicator of that group.
  NcclId ids[maxMeshAxes] = {};
};

} // namespace

/// Returns the error of the first rank whose start has failed. The message
/// contains the number of that rank unless it is 0 or `ownRank`.
static Status firstError(const std::vector<RankCard> &cards, int ownRank) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank)
    if (cards[rank].code != 0)
      return Status(ExitCode(cards[rank].code),
                    (rank == 0 || int(rank) == ownRank
                         ? std::string()
                         : "rank " + std::to_string(rank) + ": ") +
                        cards[rank].error);
  return Status();
}

/// Fails if the ranks cannot communicate through NCCL.
static Status compare(const std::vector<RankCard> &cards) {
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].version != cards[0].version)
      return Status::error("rank 0 has NCCL " +
                           std::to_string(cards[0].version) + ", but rank " +
                           std::to_string(rank) + " has NCCL " +
                           std::to_string(cards[rank].version) +
                           "; install the same version for all ranks");
    if (std::strcmp(cards[rank].device, cards[0].device) != 0)
      return Status::error(
          "rank 0 computes on " + inQuotes(cards[0].device, 300) +
          ", but rank " + std::to_string(rank) + " on " +
          inQuotes(cards[rank].device, 300) +
          "; ranks need the same kind of GPU and the same cuBLASLt, because "
          "values that several of them compute must have the same bits");
    for (std::size_t other = 0; other < rank; ++other)
      if (cards[rank].machine == cards[other].machine &&
          cards[rank].gpu == cards[other].gpu)
        return Status(
            ExitCode::Usage,
            "ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                " of one machine have the same GPU, but each rank needs its "
                "own: start at most as many ranks on a machine as it has GPUs, "
                "and let CUDA_VISIBLE_DEVICES give each process another one, "
                "or all of them");
  }
  return Status();
}

Result<std::unique_ptr<RankGroups>>
RankGroups::connect(const Status &own, const Mesh &mesh, World &world,
                    const Gpu *gpu, const std::string &device,
                    const std::vector<std::string> &libraries) {
  RankCard card;
  std::unique_ptr<RankGroups> result;
  int rank = world.rank();
  auto prepare = [&]() -> Status {
    if (!own.ok())
      return own;
    Result<Nccl> nccl = Nccl::open(libraries);
    if (!nccl.ok())
      return nccl.status();
    result.reset(new RankGroups(std::move(*nccl), world));
    if (!result->watchdog_.status().ok())
      return result->watchdog_.status();
    card.version = result->nccl_.version();
    std::strncpy(card.device, device.c_str(), sizeof card.device - 1);
    card.machine = machineNumber();
    Result<GpuId> id = gpu->id();
    if (!id.ok())
      return id.status();
    card.gpu = *id;
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      RankGroup group;
      group.ranks = mesh.groupOf(mesh.axes[axis].name, rank);
      group.index = group.ranks.indexOf(rank);
      if (group.ranks.size > 1 && group.index == 0)
        if (Status status = result->nccl_.call(
                result->nccl_.api().ncclGetUniqueId, &card.ids[axis]);
            !status.ok())
          return status;
      result->groups_.push_back(std::move(group));
    }
    return Status();
  };
  Status status = prepare();
  card.code = int64_t(status.code());
  std::strncpy(card.error, status.message().c_str(), sizeof card.error - 1);
  std::vector<RankCard> cards(std::size_t(world.size()));
  // Wait without a limit, because other ranks may still be measuring GEMM
  // algorithms.
  Status exchanged = world.gather("the start of NCCL", &card, sizeof card,
                                  cards.data(), Patience::Unlimited);
  if (!status.ok())
    return status;
  status = exchanged;
  if (status.ok())
    status = firstError(cards, rank);
  if (status.ok())
    status = compare(cards);
  // From here on, other ranks may be waiting in NCCL and cannot receive an
  // error from this rank. Therefore a failure ends the processes of all ranks.
  for (std::size_t axis = 0; axis < mesh.axes.size() && status.ok(); ++axis) {
    RankGroup &group = result->groups_[axis];
    if (group.ranks.size == 1)
      continue;
    const NcclId &id = cards[std::size_t(group.ranks.first)].ids[axis];
    CommHandle handle = nullptr;
    CallWatchdog::Scope scope = result->watch("the start of NCCL");
    status = result->nccl_.call(result->nccl_.api().ncclCommInitRank, &handle,
                                int(group.ranks.size), id, int(group.index));
    if (status.ok())
      group.communicator = {handle, result->nccl_.api().ncclCommDestroy};
    else
      world.fail(status.message());
  }
  if (!status.ok())
    return status;
  return Result<std::unique_ptr<RankGroups>>(std::move(result));
}

Status RankGroups::asynchronousError() const {
  for (const RankGroup &group : groups_) {
    if (!group.communicator)
      continue;
    int code = ncclOk;
    Status status = nccl_.call(nccl_.api().ncclCommGetAsyncError,
                               group.communicator.get(), &code);
    if (status.ok() && code != ncclOk && code != ncclOngoing)
      status = nccl_.failure(code, "collective");
    if (!status.ok())
      return inStep(status);
  }
  return Status();
}

Status RankGroups::inStep(const Status &status) const {
  if (status.ok())
    return status;
  return Status(status.code(), status.message() + "; in step " +
                                   std::to_string(world_.step()));
}
