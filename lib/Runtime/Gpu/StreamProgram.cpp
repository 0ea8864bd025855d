//===- StreamProgram.cpp - A program as actions on GPU streams ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The actions of each stream are numbered from 1. A vector clock contains one
// number per stream. The clock of a stream s contains, for each stream t, the
// number of actions of t that are known to have completed when the next action
// of s begins.
//
//===----------------------------------------------------------------------===//

#include "StreamProgram.h"

#include "CommandWalk.h"

#include <algorithm>
#include <optional>

using namespace kiln::runtime;
using namespace kiln;

const char *kiln::runtime::streamName(Stream stream) {
  switch (stream) {
  case Stream::Compute:
    return "compute";
  case Stream::Host:
    return "host";
  case Stream::CopyOut:
    return "copy-out";
  case Stream::CopyIn:
    return "copy-in";
  case Stream::Ranks:
    return "rank";
  }
  return "unknown";
}

/// Returns the stream that executes the commands of a queue. Returns
/// std::nullopt for a queue of transfers (copies or collectives) on which no
/// program starts a transfer.
static std::optional<Stream> streamOf(const Queue &queue) {
  switch (queue.engine) {
  case QueueEngine::Device:
    return Stream::Compute;
  case QueueEngine::Host:
    return Stream::Host;
  case QueueEngine::Link:
    break;
  }
  if (!queue.transfers)
    return std::nullopt;
  switch (*queue.transfers) {
  case TransferKind::CopyOut:
    return Stream::CopyOut;
  case TransferKind::CopyIn:
    return Stream::CopyIn;
  case TransferKind::Collective:
    break;
  }
  return Stream::Ranks;
}

/// Returns the byte ranges that a command accesses in one execution, except
/// empty ranges.
static std::vector<ByteAccess> bytesOf(const Command &command,
                                       const abi::SegmentRun &run) {
  std::vector<ByteAccess> accesses;
  for (const MemoryAccess &access : accessesOf(command)) {
    Place place = access.ref.at(run);
    if (access.bytes > 0)
      accesses.push_back(
          {{place.arena, place.offset, place.offset + access.bytes},
           access.writes()});
  }
  return accesses;
}

namespace {

class Builder {
public:
  Builder(const std::vector<Queue> &queues, const Program &program)
      : queues_(queues), program_(program) {}
  StreamProgram build();

private:
  /// Identifies an action by its stream and by its number on the stream.
  struct Position {
    Stream stream;
    int64_t number;
  };
  struct Lane {
    /// Element n - 1 is the index in result_.actions of the stream's action n.
    std::vector<std::size_t> actions;
    /// Element n - 1 is the vector clock of the stream after its action n.
    std::vector<StreamNumbers> clocks;
    StreamNumbers knows = {};    ///< The vector clock of the stream.
    StreamNumbers mustKnow = {}; ///< The clock that the next action requires.
  };

  void visit(std::size_t command, const abi::SegmentRun &run);
  void issue(std::size_t command, const abi::SegmentRun &run);
  void requireAll(Stream stream, Stream other);
  void addWaits(StreamAction &action);
  int64_t eventAfter(const Position &position);
  Lane &lane(Stream stream) { return lanes_[std::size_t(stream)]; }
  int64_t issued(Stream stream) { return int64_t(lane(stream).actions.size()); }
  void require(Stream stream, const Position &position) {
    int64_t &number = of(lane(stream).mustKnow, position.stream);
    number = std::max(number, position.number);
  }

  std::optional<Stream> streamOfQueue(int64_t queue) const {
    return streamOf(queues_[std::size_t(queue)]);
  }

  const std::vector<Queue> &queues_;
  const Program &program_;
  StreamProgram result_;
  std::array<Lane, streamCount> lanes_;
  /// Indexed by token: the last transfer that was started with the token.
  std::vector<Position> transfers_;
};

} // namespace

/// Returns the event that the action at `position` records. If the action does
/// not record an event yet, creates an event for it.
int64_t Builder::eventAfter(const Position &position) {
  const Lane &lane = this->lane(position.stream);
  StreamAction &action =
      result_.actions[lane.actions[std::size_t(position.number - 1)]];
  if (action.event < 0)
    action.event = result_.events++;
  return action.event;
}

/// Adds waits to `action` until the vector clock of its stream is at least
/// Lane::mustKnow in every element.
void Builder::addWaits(StreamAction &action) {
  Lane &own = lane(action.stream);
  std::vector<Position> missing;
  for (std::size_t i = 0; i < streamCount; ++i)
    if (own.mustKnow[i] > own.knows[i] && Stream(i) != action.stream)
      missing.push_back({Stream(i), own.mustKnow[i]});
  auto clockAfter = [&](const Position &position) -> const StreamNumbers & {
    return lane(position.stream).clocks[std::size_t(position.number - 1)];
  };
  // Returns true if the wait for another element of `missing` implies the wait
  // for `position`.
  auto implied = [&](const Position &position) {
    return std::any_of(
        missing.begin(), missing.end(), [&](const Position &other) {
          return other.stream != position.stream &&
                 of(clockAfter(other), position.stream) >= position.number;
        });
  };
  for (const Position &position : missing) {
    if (implied(position))
      continue;
    action.waits.push_back(eventAfter(position));
    const StreamNumbers &after = clockAfter(position);
    for (std::size_t i = 0; i < streamCount; ++i)
      own.knows[i] = std::max(own.knows[i], after[i]);
  }
}

/// Makes the next action of `stream` wait for all actions that have been added
/// to `other` so far, and for everything that the next action of `other` must
/// wait for.
void Builder::requireAll(Stream stream, Stream other) {
  require(stream, {other, issued(other)});
  for (std::size_t i = 0; i < streamCount; ++i)
    require(stream, {Stream(i), lane(other).mustKnow[i]});
}

void Builder::issue(std::size_t index, const abi::SegmentRun &run) {
  const Command &command = program_.commands[index];
  StreamAction action;
  action.command = index;
  action.run = run;
  // Only a queue without commands can lack a stream (see streamOf()).
  action.stream = *streamOfQueue(command.queue);
  action.accesses = bytesOf(command, run);
  // In a group of launches, only the first can have an `after` list, because
  // the engine may run the group as one launch. An `after` list contains no
  // queues of transfers, so that each of its queues has a stream.
  for (int64_t queue : command.after)
    requireAll(action.stream, *streamOfQueue(queue));
  addWaits(action);

  Lane &own = lane(action.stream);
  own.actions.push_back(result_.actions.size());
  of(own.knows, action.stream) = issued(action.stream);
  own.clocks.push_back(own.knows);
  if (startsTransfer(command))
    transfers_[std::size_t(command.token.at(run))] = {action.stream,
                                                      issued(action.stream)};
  result_.actions.push_back(std::move(action));
}

void Builder::visit(std::size_t index, const abi::SegmentRun &run) {
  const Command &command = program_.commands[index];
  if (!command.isHere) {
    // This rank does not execute the command, but later commands of the queue
    // rely on its waits.
    for (int64_t queue : command.after)
      requireAll(*streamOfQueue(command.queue), *streamOfQueue(queue));
    return;
  }
  if (!waitsForTransfer(command))
    return issue(index, run);
  for (int64_t queue : command.heldQueues)
    if (std::optional<Stream> stream = streamOfQueue(queue))
      require(*stream, transfers_[std::size_t(command.token.at(run))]);
}

StreamProgram Builder::build() {
  transfers_.resize(std::size_t(program_.tokens));
  for (CommandWalk walk(program_, /*visitsAll=*/true); walk.next();)
    visit(walk.command(), walk.run());
  return std::move(result_);
}

StreamProgram kiln::runtime::buildStreamProgram(const ProgramFile &file,
                                                const Program &program) {
  return Builder(file.queues, program).build();
}
