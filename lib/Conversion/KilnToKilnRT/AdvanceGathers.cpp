//===- AdvanceGathers.cpp - Early starts of gathers of states -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-place-copies starts each all-gather of a parameter when the readers of
// the previously gathered parameter begin, which needs the least memory. Most
// of a step needs less memory than its peak. Where the need is below the peak,
// gathers can start earlier at no cost. This hides the transfer of a large
// parameter, such as the embedding, and the transfers of gathers that would
// otherwise wait for sums of gradients on the same queue.
//
// A gather moves together with the casts that compute its operands. The first
// and the last command of the program and of each segment (forward or backward)
// stay in place, so that lifetimes that begin or end with a segment keep their
// meaning.
//
//===----------------------------------------------------------------------===//

#include "AdvanceGathers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

static bool startsGather(const Command &command) {
  return command.kind == Command::Kind::CollectiveStart &&
         cast<CollectiveStartOp>(command.op).getCollective() ==
             Collective::AllGather;
}

static int64_t alignedBytesOf(const Buffer &buffer,
                              const TargetBackend &target) {
  return static_cast<int64_t>(llvm::alignTo(
      buffer.getTotalBytes(), target.getAlignment(buffer.slotClass)));
}

/// Returns the live bytes during each command. Counts device buffers, except
/// states and buffers with an owner (buffers that only one rank has).
static std::vector<int64_t> liveBytesOf(const ProgramPlan &plan,
                                        const TargetBackend &target) {
  std::vector<int64_t> live(plan.commands.size() + 1);
  for (const Buffer &buffer : plan.buffers) {
    if (buffer.state || buffer.memory != MemorySpace::Device ||
        buffer.last < 0 || buffer.owner != kNoOwner)
      continue;
    auto [first, last] = plan.occupancyOf(buffer);
    live[first] += alignedBytesOf(buffer, target);
    live[last + 1] -= alignedBytesOf(buffer, target);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

namespace {

/// An all-gather of states, and the casts that compute its operands.
struct Gather {
  int64_t start = 0; ///< Index of the command that starts the gather.
  /// The launches that cast shards, in order, and the bytes of their results.
  SmallVector<std::pair<int64_t, int64_t>, 2> casts;
  int64_t bytes = 0; ///< Bytes of the gathered tensors.
  /// The commands that compute the other operands of the gather, which are not
  /// results of `casts`. The gather must start after these commands.
  SmallVector<int64_t, 2> sources;
};

class GatherAdvancer {
public:
  GatherAdvancer(ProgramPlan &plan, const TargetBackend &target, int64_t limit)
      : plan(plan), target(target), limit(limit),
        live(liveBytesOf(plan, target)), order(plan.commands.size()) {
    std::iota(order.begin(), order.end(), 0);
  }
  bool run();

private:
  bool advanceIn(int64_t begin, int64_t end);
  bool advance(const Gather &gather, int64_t &previous);
  std::optional<Gather> findGather(int64_t index, int64_t begin,
                                   int64_t end) const;
  void findSource(Gather &gather, int64_t begin, int32_t buffer) const;
  void applyOrder();
  int64_t positionOf(int64_t index) const {
    return llvm::find(order, index) - order.begin();
  }

  ProgramPlan &plan;
  const TargetBackend &target;
  int64_t limit;
  // Commands are identified by their indices in the original order.
  std::vector<int64_t> live;  ///< Live bytes during each command.
  std::vector<int64_t> order; ///< The commands in their new order.
};

} // namespace

/// Finds the command that computes an operand of a gather. A launch that
/// computes the operand from states alone moves together with the gather.
void GatherAdvancer::findSource(Gather &gather, int64_t begin,
                                int32_t buffer) const {
  int64_t source = gather.start - 1;
  auto accesses = [&](int64_t index) {
    return llvm::any_of(plan.commands[index].places, [&](const Place &place) {
      return place.buffer == buffer;
    });
  };
  while (source >= begin && !accesses(source))
    --source;
  bool isCast = source >= begin && plan.buffers[buffer].first == source &&
                plan.commands[source].kind == Command::Kind::Launch &&
                plan.commands[source].scratch < 0 &&
                plan.commands[source].when == rt::When::Always;
  if (isCast)
    plan.commands[source].forEachAccess([&](int32_t accessed, bool writes) {
      isCast &=
          writes ? accessed == buffer : bool(plan.buffers[accessed].state);
    });
  if (isCast)
    gather.casts.push_back(
        {source, alignedBytesOf(plan.buffers[buffer], target)});
  else
    gather.sources.push_back(source);
}

/// Returns the all-gather that the command at `index` starts, or nullopt if it
/// starts none that can move in the commands [begin, end).
std::optional<Gather> GatherAdvancer::findGather(int64_t index, int64_t begin,
                                                 int64_t end) const {
  const Command &command = plan.commands[index];
  if (!startsGather(command) || command.when != rt::When::Always)
    return std::nullopt;
  bool waitsHere = llvm::any_of(llvm::seq(index + 1, end), [&](int64_t i) {
    return plan.commands[i].kind == Command::Kind::TransferWait &&
           plan.commands[i].op == command.op;
  });
  if (!waitsHere)
    return std::nullopt;
  Gather gather;
  gather.start = index;
  size_t count = cast<CollectiveStartOp>(command.op).getInputs().size();
  for (const Place &place : ArrayRef(command.places).take_front(count))
    if (!plan.buffers[place.buffer].state)
      findSource(gather, begin, place.buffer);
  llvm::sort(gather.casts);
  for (const Place &place : ArrayRef(command.places).drop_front(count)) {
    const Buffer &buffer = plan.buffers[place.buffer];
    if (buffer.state || buffer.first != index || buffer.instances > 1)
      return std::nullopt;
    gather.bytes += alignedBytesOf(buffer, target);
  }
  return gather;
}

/// Moves a gather to the earliest position that the limit of live bytes permits
/// and that is after `previous`, the position of the preceding gather. Sets
/// `previous` to the new position of the gather. Returns true if the gather
/// moved.
bool GatherAdvancer::advance(const Gather &gather, int64_t &previous) {
  int64_t from = positionOf(gather.start), to = from, bytes = gather.bytes;
  auto cast = gather.casts.rbegin();
  for (int64_t position = from - 1; position > previous; --position) {
    int64_t index = order[position];
    if (llvm::is_contained(gather.sources, index))
      break;
    // If the gather moves before a cast, the cast moves, too, so its results
    // are also live earlier.
    if (cast != gather.casts.rend() && index == cast->first) {
      bytes += cast++->second;
      continue;
    }
    if (live[index] + bytes > limit)
      break;
    live[index] += bytes;
    to = position;
  }
  previous = from;
  if (to == from)
    return false;
  // Casts that are already before the new position stay in place.
  SmallVector<int64_t> block;
  for (auto &[index, castBytes] : gather.casts)
    if (positionOf(index) > to)
      block.push_back(index);
  block.push_back(gather.start);
  for (int64_t index : block)
    live[index] = live[order[to]];
  llvm::erase_if(
      order, [&](int64_t index) { return llvm::is_contained(block, index); });
  order.insert(order.begin() + to, block.begin(), block.end());
  previous = to + static_cast<int64_t>(block.size()) - 1;
  return true;
}

/// Moves the starts of the all-gathers in the commands [begin, end) to earlier
/// positions if possible. Returns true if any moved.
bool GatherAdvancer::advanceIn(int64_t begin, int64_t end) {
  SmallVector<Gather> gathers;
  for (int64_t index = begin; index < end; ++index)
    if (std::optional<Gather> gather = findGather(index, begin, end))
      gathers.push_back(std::move(*gather));
  bool moved = false;
  int64_t previous = begin;
  for (const Gather &gather : gathers)
    moved |= advance(gather, previous);
  return moved;
}

/// Puts the commands in the new order, and updates the lifetimes of buffers.
void GatherAdvancer::applyOrder() {
  std::vector<Command> commands;
  commands.reserve(order.size());
  std::vector<int64_t> indexOf(order.size());
  for (auto [i, index] : llvm::enumerate(order)) {
    commands.push_back(std::move(plan.commands[index]));
    indexOf[index] = static_cast<int64_t>(i);
  }
  plan.commands = std::move(commands);
  for (Buffer &buffer : plan.buffers)
    if (buffer.last >= 0) {
      buffer.first = indexOf[buffer.first];
      buffer.last = indexOf[buffer.last];
    }
}

bool GatherAdvancer::run() {
  auto [op, forward, backward, end] = plan.microbatches;
  auto count = static_cast<int64_t>(plan.commands.size());
  if (!op)
    forward = backward = end = count;
  bool moved = false;
  moved |= advanceIn(0, forward);
  moved |= advanceIn(forward, backward);
  moved |= advanceIn(backward, end);
  moved |= advanceIn(end, count);
  if (moved)
    applyOrder();
  return moved;
}

bool kiln::hasGathers(const ProgramPlan &plan) {
  return llvm::any_of(plan.commands, startsGather);
}

int64_t kiln::peakBytesOf(const ProgramPlan &plan,
                          const TargetBackend &target) {
  std::vector<int64_t> live = liveBytesOf(plan, target);
  return live.empty() ? 0 : *llvm::max_element(live);
}

bool kiln::advanceGathers(ProgramPlan &plan, const TargetBackend &target,
                          int64_t limit) {
  return GatherAdvancer(plan, target, limit).run();
}
