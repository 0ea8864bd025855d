//===- StreamOrder.cpp - Verification of events between streams -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamOrder.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <map>
#include <optional>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

constexpr int64_t nobody = -1;

/// For one range of bytes: on each stream, the last action that read it and the
/// last action that wrote it. `nobody` means that there is none.
struct Touches {
  StreamNumbers reader, writer;
  Touches() {
    reader.fill(nobody);
    writer.fill(nobody);
  }
};

/// Maps the bytes of an arena to their last accesses. The element with key k
/// covers the bytes from k to the key of the next element.
class TouchMap {
public:
  TouchMap() { touches_.emplace(INT64_MIN, Touches()); }

  /// Splits the ranges that contain `begin` or `end`, so that [begin, end)
  /// consists of whole ranges. Then calls visit(b, touches) for each of them,
  /// where b is the first byte of the range.
  template <typename Visitor>
  void forEach(int64_t begin, int64_t end, Visitor &&visit) {
    auto first = split(begin), last = split(end);
    for (; first != last; ++first)
      visit(first->first, first->second);
  }

private:
  using Map = std::map<int64_t, Touches>;
  Map::iterator split(int64_t at) {
    auto next = touches_.upper_bound(at);
    auto found = std::prev(next);
    if (found->first == at)
      return found;
    return touches_.emplace_hint(next, at, found->second);
  }
  Map touches_;
};

class OrderCheck {
public:
  OrderCheck(const StreamProgram &streams, const BufferNames &names)
      : streams_(streams), names_(names),
        recorders_(std::size_t(streams.events), nobody) {}
  Status run();

private:
  Status begin(std::size_t action);
  Status access(std::size_t action, const ByteAccess &access);
  bool isOver(int64_t earlier, const StreamNumbers &clock) const;
  Status missingEvent(std::size_t earlier, std::size_t later,
                      const Place &place) const;
  std::string describe(std::size_t action) const;
  /// Describes the access of an action to a byte, such as "reads 'x'".
  std::string deed(std::size_t action, const Place &place) const;

  const StreamProgram &streams_;
  const BufferNames &names_;
  /// For each event, the action that records it.
  std::vector<int64_t> recorders_;
  // `clocks_` and `numbers_` are indexed by action.
  std::vector<StreamNumbers> clocks_; ///< Vector clock at the action's start.
  /// The number of the action on its stream, starting at 1.
  std::vector<int64_t> numbers_;
  /// The vector clock of each stream after its last action so far.
  std::array<StreamNumbers, streamCount> known_ = {};
  TouchMap touches_[2]; ///< Indexed by ArenaKind.
};

} // namespace

/// Computes the vector clock of an action: for each stream, the number of its
/// actions that have completed when this action begins.
Status OrderCheck::begin(std::size_t index) {
  const StreamAction &action = streams_.actions[index];
  StreamNumbers &known = known_[std::size_t(action.stream)];
  for (int64_t event : action.waits) {
    int64_t recorder = recorders_[std::size_t(event)];
    if (recorder == nobody)
      return Status::error(describe(index) + " waits for event " +
                           std::to_string(event) +
                           ", which no earlier action records");
    const StreamAction &other = streams_.actions[std::size_t(recorder)];
    for (std::size_t i = 0; i < streamCount; ++i)
      known[i] = std::max(known[i], clocks_[std::size_t(recorder)][i]);
    int64_t &number = of(known, other.stream);
    number = std::max(number, numbers_[std::size_t(recorder)]);
  }
  clocks_.push_back(known);
  numbers_.push_back(++of(known, action.stream));
  if (action.event >= 0)
    recorders_[std::size_t(action.event)] = int64_t(index);
  return Status();
}

/// Returns true if `earlier` is `nobody`, or if it has completed according to
/// `clock`.
bool OrderCheck::isOver(int64_t earlier, const StreamNumbers &clock) const {
  return earlier == nobody ||
         numbers_[std::size_t(earlier)] <=
             of(clock, streams_.actions[std::size_t(earlier)].stream);
}

Status OrderCheck::access(std::size_t index, const ByteAccess &access) {
  const StreamAction &action = streams_.actions[index];
  const StreamNumbers &clock = clocks_[index];
  // An earlier action that conflicts with this action, and the first byte that
  // both access.
  std::optional<std::pair<std::size_t, int64_t>> found;
  touches_[std::size_t(access.arena)].forEach(
      access.begin, access.end, [&](int64_t begin, Touches &touches) {
        for (std::size_t i = 0; i < streamCount && !found; ++i) {
          if (Stream(i) == action.stream)
            continue;
          if (!isOver(touches.writer[i], clock))
            found = {std::size_t(touches.writer[i]), begin};
          else if (access.writes && !isOver(touches.reader[i], clock))
            found = {std::size_t(touches.reader[i]), begin};
        }
        of(access.writes ? touches.writer : touches.reader, action.stream) =
            int64_t(index);
      });
  if (found)
    return missingEvent(found->first, index, {found->second, access.arena});
  return Status();
}

std::string OrderCheck::describe(std::size_t index) const {
  const StreamAction &action = streams_.actions[index];
  return names_.title(action.command, action.run) + " on the " +
         streamName(action.stream) + " stream";
}

std::string OrderCheck::deed(std::size_t index, const Place &place) const {
  const StreamAction &action = streams_.actions[index];
  ByteRange byte = {place.arena, place.offset, place.offset + 1};
  bool writes = std::any_of(action.accesses.begin(), action.accesses.end(),
                            [&](const ByteAccess &access) {
                              return access.writes && access.overlaps(byte);
                            });
  return std::string(writes ? "writes " : "reads ") +
         inQuotes(names_.nameAt(action.command, action.run, place, writes));
}

Status OrderCheck::missingEvent(std::size_t earlier, std::size_t later,
                                const Place &place) const {
  const char *recording = streamName(streams_.actions[earlier].stream);
  const char *waiting = streamName(streams_.actions[later].stream);
  return Status::error(
      "missing event: " + describe(earlier) + " " + deed(earlier, place) +
      ", and " + describe(later) + " " + deed(later, place) +
      ", but no event orders these two accesses to byte " +
      std::to_string(place.offset) + " of the " +
      (place.arena == ArenaKind::Host ? "host" : "device") + " arena: stream " +
      waiting + " must wait, before commands[" +
      std::to_string(streams_.actions[later].command) +
      "], for an event that stream " + recording + " records after commands[" +
      std::to_string(streams_.actions[earlier].command) + "]");
}

Status OrderCheck::run() {
  for (std::size_t i = 0; i < streams_.actions.size(); ++i) {
    Status status = begin(i);
    for (const ByteAccess &access : streams_.actions[i].accesses) {
      if (!status.ok())
        return status;
      status = this->access(i, access);
    }
    if (!status.ok())
      return status;
  }
  return Status();
}

Status kiln::runtime::checkStreamOrder(const StreamProgram &streams,
                                       const BufferNames &names) {
  return OrderCheck(streams, names).run();
}
