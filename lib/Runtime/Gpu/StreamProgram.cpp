//===- StreamProgram.cpp - A program on the streams of a GPU --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Actions of a stream are numbered from 1. What a stream knows is, per stream,
// how many of its first actions are over when the next action begins: a vector
// clock.
//
//===----------------------------------------------------------------------===//

#include "StreamProgram.h"

#include "CommandWalk.h"

#include <algorithm>

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
  }
  return "unknown";
}

/// Chooses the stream by the memory that a command works in. Only kernels of
/// the host reach both arenas: they read scalars on the device.
static Stream streamOf(const Command &command) {
  if (startsCopy(command))
    return copyDirection(command) == CopyDirection::Out ? Stream::CopyOut
                                                        : Stream::CopyIn;
  if (command.call)
    return isDeviceLaunch(command) ? Stream::Compute : Stream::Host;
  std::vector<MemoryAccess> accesses = accessesOf(command);
  bool isOnHost = std::any_of(accesses.begin(), accesses.end(),
                              [](const MemoryAccess &access) {
                                return access.ref.arena == ArenaKind::Host;
                              });
  return isOnHost ? Stream::Host : Stream::Compute;
}

/// The bytes of a command in an iteration, but for accesses of no bytes.
static std::vector<ByteAccess> bytesOf(const Command &command,
                                       int64_t iteration) {
  std::vector<ByteAccess> accesses;
  for (const MemoryAccess &access : accessesOf(command)) {
    Place place = access.ref.at(iteration);
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
  explicit Builder(const Program &program) : program_(program) {}
  StreamProgram build();

private:
  /// An action of a stream, by its number.
  struct Position {
    Stream stream;
    int64_t number;
  };
  /// What kernels of the host read on the device.
  struct Scalar {
    ByteRange range;
    int64_t writer = 0; ///< The last one on compute.
    int64_t reader = 0; ///< The last one on the host.
  };
  struct Lane {
    std::vector<std::size_t> actions;  ///< Action i + 1 of the stream.
    std::vector<StreamNumbers> clocks; ///< What is known behind each.
    StreamNumbers knows = {};
    StreamNumbers mustKnow = {}; ///< Before its next action.
  };

  void visit(std::size_t command, int64_t iteration);
  void issue(std::size_t command, int64_t iteration);
  void requireAll(Stream stream, Stream other);
  void findScalar(std::size_t command, int64_t iteration);
  void orderScalars(const StreamAction &action, int64_t number);
  template <typename Visitor> void forEachCommand(Visitor &&visit);
  void addWaits(StreamAction &action);
  int64_t eventBehind(const Position &position);
  Lane &lane(Stream stream) { return lanes_[std::size_t(stream)]; }
  int64_t issued(Stream stream) { return int64_t(lane(stream).actions.size()); }
  void require(Stream stream, const Position &position) {
    int64_t &number = of(lane(stream).mustKnow, position.stream);
    number = std::max(number, position.number);
  }

  const Program &program_;
  StreamProgram result_;
  std::array<Lane, streamCount> lanes_;
  std::vector<Position> copies_; ///< By token: the last one started with it.
  std::vector<Scalar> scalars_;
};

} // namespace

/// The event that is recorded behind an action.
int64_t Builder::eventBehind(const Position &position) {
  const Lane &lane = this->lane(position.stream);
  StreamAction &action =
      result_.actions[lane.actions[std::size_t(position.number - 1)]];
  if (action.event < 0)
    action.event = result_.events++;
  return action.event;
}

/// Lets the action wait for what its stream must know and does not.
void Builder::addWaits(StreamAction &action) {
  Lane &own = lane(action.stream);
  std::vector<Position> missing;
  for (std::size_t i = 0; i < streamCount; ++i)
    if (own.mustKnow[i] > own.knows[i] && Stream(i) != action.stream)
      missing.push_back({Stream(i), own.mustKnow[i]});
  auto clockBehind = [&](const Position &position) -> const StreamNumbers & {
    return lane(position.stream).clocks[std::size_t(position.number - 1)];
  };
  // One of them may know of another one.
  auto implied = [&](const Position &position) {
    return std::any_of(
        missing.begin(), missing.end(), [&](const Position &other) {
          return other.stream != position.stream &&
                 of(clockBehind(other), position.stream) >= position.number;
        });
  };
  for (const Position &position : missing) {
    if (implied(position))
      continue;
    action.waits.push_back(eventBehind(position));
    const StreamNumbers &behind = clockBehind(position);
    for (std::size_t i = 0; i < streamCount; ++i)
      own.knows[i] = std::max(own.knows[i], behind[i]);
  }
}

/// Lets a stream wait for what another one has been given so far, actions and
/// waits that its next action would be the first behind.
void Builder::requireAll(Stream stream, Stream other) {
  require(stream, {other, issued(other)});
  for (std::size_t i = 0; i < streamCount; ++i)
    require(stream, {Stream(i), lane(other).mustKnow[i]});
}

/// Between compute and the kernels of the host that read its scalars. `number`:
/// of the action on its stream.
void Builder::orderScalars(const StreamAction &action, int64_t number) {
  if (action.stream != Stream::Host && action.stream != Stream::Compute)
    return;
  for (const ByteAccess &access : action.accesses) {
    for (Scalar &scalar : scalars_) {
      if (!access.overlaps(scalar.range))
        continue;
      if (action.stream == Stream::Host) {
        require(Stream::Host, {Stream::Compute, scalar.writer});
        scalar.reader = number;
      } else if (access.writes) {
        require(Stream::Compute, {Stream::Host, scalar.reader});
        scalar.writer = number;
      }
    }
  }
}

void Builder::findScalar(std::size_t index, int64_t iteration) {
  const Command &command = program_.commands[index];
  if (streamOf(command) != Stream::Host)
    return;
  for (const ByteAccess &access : bytesOf(command, iteration)) {
    auto same = [&](const Scalar &scalar) {
      return scalar.range.begin == access.begin &&
             scalar.range.end == access.end;
    };
    if (access.arena == ArenaKind::Device &&
        std::none_of(scalars_.begin(), scalars_.end(), same))
      scalars_.push_back({access});
  }
}

void Builder::issue(std::size_t index, int64_t iteration) {
  const Command &command = program_.commands[index];
  StreamAction action;
  action.command = index;
  action.iteration = iteration;
  action.stream = streamOf(command);
  action.accesses = bytesOf(command, iteration);
  orderScalars(action, issued(action.stream) + 1);
  // Its first member may run the whole group, so that it waits for what any of
  // them must wait for.
  for (int64_t i = 1; i < command.group; ++i) {
    StreamAction member;
    member.accesses =
        bytesOf(program_.commands[index + std::size_t(i)], iteration);
    orderScalars(member, issued(action.stream) + 1 + i);
  }
  if (startsCopy(command))
    for (Stream other : {Stream::Compute, Stream::Host})
      requireAll(action.stream, other);
  addWaits(action);

  Lane &own = lane(action.stream);
  own.actions.push_back(result_.actions.size());
  of(own.knows, action.stream) = issued(action.stream);
  own.clocks.push_back(own.knows);
  if (startsCopy(command))
    copies_[std::size_t(command.token)] = {action.stream,
                                           issued(action.stream)};
  result_.actions.push_back(std::move(action));
}

void Builder::visit(std::size_t index, int64_t iteration) {
  const Command &command = program_.commands[index];
  if (!waitsForCopy(command))
    return issue(index, iteration);
  for (Stream stream : {Stream::Compute, Stream::Host})
    require(stream, copies_[std::size_t(command.token)]);
}

/// Calls visit(command, iteration) in the order of a run.
template <typename Visitor> void Builder::forEachCommand(Visitor &&visit) {
  for (CommandWalk walk(program_.commands); walk.next();)
    if (!endsLoop(program_.commands[walk.command()]))
      visit(walk.command(), walk.iteration());
}

StreamProgram Builder::build() {
  copies_.resize(std::size_t(program_.copies));
  forEachCommand([this](std::size_t command, int64_t iteration) {
    findScalar(command, iteration);
  });
  forEachCommand([this](std::size_t command, int64_t iteration) {
    visit(command, iteration);
  });
  return std::move(result_);
}

StreamProgram kiln::runtime::buildStreamProgram(const Program &program) {
  return Builder(program).build();
}
