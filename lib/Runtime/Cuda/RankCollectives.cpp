//===- RankCollectives.cpp - Collectives of commands through NCCL ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankCollectives.h"

#include "PeerClock.h"
#include "RankGroups.h"
#include "RingCollective.h"

#include <algorithm>
#include <thread>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// A tensor of a collective. All sizes are numbers of elements.
struct Tensor {
  DevicePointer whole = 0, shard = 0;
  int64_t count = 0, shardCount = 0;
  int64_t owner = -1; ///< The rank whose shard is the whole tensor; -1: none.

  /// Returns the index, in the whole tensor, of the first element of a shard.
  /// `index` is the rank that has the shard, as an index in the group of ranks.
  int64_t beginOf(int64_t index) const {
    return owner < 0 ? index * shardCount : 0;
  }
  /// Returns the number of elements of the shard of rank `index`, without
  /// padding.
  int64_t elementsOf(int64_t index) const {
    if (owner >= 0)
      return index == owner ? count : 0;
    return std::clamp<int64_t>(count - index * shardCount, 0, shardCount);
  }
  /// Returns true if all ranks have shards of the same size, without padding.
  bool isEven(int64_t ranks) const {
    return owner < 0 && count == ranks * shardCount;
  }
};

/// Queues the tensors of a collective one by one.
class CollectiveQueue {
public:
  CollectiveQueue(const CudaResources &resources, const Command &command,
                  StreamHandle stream)
      : resources_(resources), command_(command), stream_(stream),
        elementBytes_(bytesOf(command.type)) {}

  /// Queues the work for a tensor if this rank communicates with no other rank.
  /// An all-reduce needs no work. Other collectives copy this rank's elements
  /// and fill the rest of the destination with zeros.
  Status queueAlone(const Tensor &tensor);
  /// Queues the NCCL calls for a tensor. Must be called between
  /// ncclGroupStart() and ncclGroupEnd().
  Status queue(const Tensor &tensor, const RankGroup &group);
  /// Sets the padding of a shard to zero.
  Status clearPadding(const Tensor &tensor, int64_t index);
  /// Returns the number of calls of NCCL for a tensor.
  int64_t calls(const Tensor &tensor, int64_t ranks) const {
    bool isOne = command_.collective == Collective::AllReduce ||
                 tensor.owner >= 0 || tensor.isEven(ranks);
    return isOne ? 1 : ranks;
  }

private:
  Status copy(DevicePointer to, DevicePointer from, int64_t elements);
  Status clear(DevicePointer place, int64_t elements);
  Status scatter(const Tensor &tensor, const RankGroup &group);
  Status gather(const Tensor &tensor, const RankGroup &group);
  const Nccl &nccl() const { return resources_.groups->nccl(); }
  const DriverApi &driver() const { return resources_.gpu->driver().api(); }
  DevicePointer at(DevicePointer place, int64_t element) const {
    return place + DevicePointer(element * elementBytes_);
  }
  /// Returns the ncclDataType_t for sums. All-gathers send bytes.
  int type() const;

  const CudaResources &resources_;
  const Command &command_;
  StreamHandle stream_;
  int64_t elementBytes_;
};

} // namespace

int CollectiveQueue::type() const {
  switch (command_.type) {
  case ElementType::F64:
    return ncclTypeF64;
  case ElementType::BF16:
    return ncclTypeBF16;
  case ElementType::F16:
    return ncclTypeF16;
  case ElementType::I8:
    return ncclTypeI8;
  default:
    return ncclTypeF32;
  }
}

Status CollectiveQueue::copy(DevicePointer to, DevicePointer from,
                             int64_t elements) {
  if (elements == 0)
    return Status();
  return resources_.gpu->driver().call(driver().cuMemcpyDtoDAsync_v2, to, from,
                                       std::size_t(elements * elementBytes_),
                                       stream_);
}

Status CollectiveQueue::clear(DevicePointer place, int64_t elements) {
  if (elements == 0)
    return Status();
  return resources_.gpu->driver().call(
      driver().cuMemsetD8Async, place, static_cast<unsigned char>(0),
      std::size_t(elements * elementBytes_), stream_);
}

Status CollectiveQueue::clearPadding(const Tensor &tensor, int64_t index) {
  if (tensor.owner >= 0)
    return Status();
  int64_t elements = tensor.elementsOf(index);
  return clear(at(tensor.shard, elements), tensor.shardCount - elements);
}

Status CollectiveQueue::queueAlone(const Tensor &tensor) {
  if (command_.collective == Collective::AllReduce)
    return Status();
  int64_t elements = tensor.elementsOf(0);
  if (command_.collective == Collective::ReduceScatter) {
    Status status = copy(tensor.shard, tensor.whole, elements);
    return status.ok() ? clearPadding(tensor, 0) : status;
  }
  Status status = copy(tensor.whole, tensor.shard, elements);
  return status.ok()
             ? clear(at(tensor.whole, elements), tensor.count - elements)
             : status;
}

Status CollectiveQueue::scatter(const Tensor &tensor, const RankGroup &group) {
  const NcclApi &api = nccl().api();
  CommHandle communicator = group.communicator.get();
  if (tensor.isEven(group.ranks.size))
    return nccl().call(api.ncclReduceScatter, tensor.whole, tensor.shard,
                       std::size_t(tensor.shardCount), type(), ncclAdd,
                       communicator, stream_);
  Status status;
  for (int64_t i = 0; i < group.ranks.size && status.ok(); ++i)
    if (int64_t elements = tensor.elementsOf(i); elements > 0)
      // Only rank i of the group receives the sums.
      status = nccl().call(api.ncclReduce, at(tensor.whole, tensor.beginOf(i)),
                           i == group.index ? tensor.shard : DevicePointer(0),
                           std::size_t(elements), type(), ncclAdd, int(i),
                           communicator, stream_);
  return status;
}

Status CollectiveQueue::gather(const Tensor &tensor, const RankGroup &group) {
  const NcclApi &api = nccl().api();
  CommHandle communicator = group.communicator.get();
  if (tensor.isEven(group.ranks.size))
    return nccl().call(api.ncclAllGather, tensor.shard, tensor.whole,
                       std::size_t(tensor.shardCount * elementBytes_),
                       ncclTypeI8, communicator, stream_);
  Status status;
  for (int64_t i = 0; i < group.ranks.size && status.ok(); ++i)
    if (int64_t elements = tensor.elementsOf(i); elements > 0)
      // Only rank i of the group sends its shard.
      status = nccl().call(api.ncclBroadcast,
                           i == group.index ? tensor.shard : DevicePointer(0),
                           at(tensor.whole, tensor.beginOf(i)),
                           std::size_t(elements * elementBytes_), ncclTypeI8,
                           int(i), communicator, stream_);
  return status;
}

Status CollectiveQueue::queue(const Tensor &tensor, const RankGroup &group) {
  if (tensor.count == 0)
    return Status();
  switch (command_.collective) {
  case Collective::AllReduce:
    return nccl().call(nccl().api().ncclAllReduce, tensor.whole, tensor.whole,
                       std::size_t(tensor.count), type(), ncclAdd,
                       group.communicator.get(), stream_);
  case Collective::ReduceScatter:
    return scatter(tensor, group);
  case Collective::AllGather:
    break;
  }
  return gather(tensor, group);
}

/// Queues the tensors [first, end) as one group of NCCL.
static Status queueGroup(CollectiveQueue &queue, RankGroups &groups,
                         const RankGroup &group, const Tensor *first,
                         const Tensor *end) {
  const NcclApi &api = groups.nccl().api();
  CallWatchdog::Scope scope = groups.watch("the start of a collective");
  Status status = groups.nccl().call(api.ncclGroupStart);
  if (!status.ok())
    return status;
  for (; first != end && status.ok(); ++first)
    status = queue.queue(*first, group);
  // A group must be ended even after an error.
  Status ended = groups.nccl().call(api.ncclGroupEnd);
  return status.ok() ? ended : status;
}

Status kiln::runtime::cuda::queueCollective(const CudaResources &resources,
                                            const Command &command,
                                            const abi::SegmentRun &run,
                                            StreamHandle stream) {
  /// The maximum number of calls in a group, well below NCCL's limit of 2048.
  constexpr int64_t mostCalls = 1024;
  auto place = [&](const Ref &ref) {
    return resources.arena + DevicePointer(ref.at(run).offset);
  };
  std::vector<Tensor> tensors;
  for (const CollectiveTensor &tensor : command.tensors) {
    Tensor &added = tensors.emplace_back();
    added.whole = place(tensor.whole.ref);
    added.count = tensor.whole.count;
    if (command.collective == Collective::AllReduce)
      continue;
    added.shard = place(tensor.shard.ref);
    added.shardCount = tensor.shard.count;
    added.owner = tensor.owner;
  }
  CollectiveQueue queue(resources, command, stream);
  RankGroups *groups = resources.groups;
  Status status;
  if (!groups || groups->group(command.axis).ranks.size == 1) {
    for (const Tensor &tensor : tensors)
      if (status.ok())
        status = queue.queueAlone(tensor);
    return status;
  }
  const RankGroup &group = groups->group(command.axis);
  if (command.collective == Collective::ReduceScatter)
    for (const Tensor &tensor : tensors)
      if (status.ok())
        status = queue.clearPadding(tensor, group.index);
  const Tensor *end = tensors.data() + tensors.size();
  for (const Tensor *first = tensors.data(); first != end && status.ok();) {
    const Tensor *next = first;
    int64_t calls = 0;
    do
      calls += queue.calls(*next++, group.ranks.size);
    while (next != end &&
           calls + queue.calls(*next, group.ranks.size) <= mostCalls);
    status = groups->inStep(queueGroup(queue, *groups, group, first, next));
    first = next;
  }
  return status;
}

int64_t kiln::runtime::cuda::ringBytes(const Command &command,
                                       const MeshGroup &group, int64_t rank) {
  std::vector<CollectiveSpan> spans;
  for (const CollectiveTensor &tensor : command.tensors) {
    CollectiveSpan &span = spans.emplace_back();
    span.count = tensor.whole.count;
    span.shardCount = tensor.shard.count;
    span.owner = tensor.owner;
  }
  setEnds(command.collective, spans.data(), spans.size());
  CollectiveJob job;
  job.collective = command.collective;
  job.spans = spans.data();
  job.spanCount = spans.size();
  job.type = command.type;
  return ringSentBytes(job, int(group.size), int(group.indexOf(rank)));
}

Status kiln::runtime::cuda::waitForStream(const CudaResources &resources,
                                          StreamHandle stream) {
  const Driver &driver = resources.gpu->driver();
  const DriverApi &api = driver.api();
  RankGroups *groups = resources.groups;
  if (!groups)
    return driver.call(api.cuStreamSynchronize, stream);
  using Clock = PeerClock::Clock;
  PeerClock clock;
  Clock::time_point begin = Clock::now(), checked = begin;
  for (;;) {
    int code = api.cuStreamQuery.function(stream);
    if (code == success)
      return Status();
    if (code != notReady)
      return driver.failure(code, api.cuStreamQuery.name);
    Clock::time_point now = Clock::now();
    if (now - checked >= std::chrono::milliseconds(1)) {
      checked = now;
      clock.advance();
      Status status = groups->asynchronousError();
      World &world = groups->world();
      if (status.ok() && clock.seconds() >= double(world.peerTimeout()))
        status =
            Status::error(silenceText("work of the GPU", world) +
                          ", or the work takes longer than --peer-timeout");
      // World::fail() ends the process. Communicators are not aborted first,
      // because ncclCommAbort would wait until all graphs that contain their
      // collectives are destroyed.
      if (!status.ok()) {
        world.fail(status.message());
        return status;
      }
    }
    // Poll without a pause at first, because the GPU completes the work of a
    // small model quickly.
    if (now - begin > std::chrono::microseconds(50))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}
