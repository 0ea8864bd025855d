//===- FirstTouches.cpp - First accesses of slot lifetimes ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FirstTouches.h"

#include <algorithm>
#include <iterator>
#include <map>

using namespace kiln::runtime;
using namespace kiln;

namespace {

/// The range of offsets [begin, end).
struct Span {
  int64_t begin, end;
};

class SpanSet {
public:
  void clear() { spans_.clear(); }
  void add(Span span);
  /// Returns the subranges of `span` that are not in the set.
  std::vector<Span> missing(Span span) const;

private:
  /// Maps the begin of each span in the set to the end of the span. The spans
  /// neither overlap nor adjoin.
  std::map<int64_t, int64_t> spans_;
};

/// The current lifetime of an instance of a slot (a planned buffer). Some slots
/// have several instances, which micro-batches use in turn.
struct Life {
  int64_t microbatch = 0;
  SpanSet touched; ///< The bytes accessed so far in the current lifetime.
};

class FirstTouches {
public:
  FirstTouches(const ProgramFile &file, const Program &program,
               const BufferNames &names);
  std::vector<ByteRange> visit(const StreamAction &action);

private:
  SpanSet &touchedBy(std::size_t slot, const abi::SegmentRun &run);
  std::vector<Span> untouched(const StreamAction &action, std::size_t slot,
                              Span part);

  const Program &program_;
  const BufferNames &names_;
  /// Indexed by slot: true if the lifetimes of the slot begin during the run.
  /// False for inputs and states, which are initialised before the run.
  std::vector<bool> startsWithin_;
  /// The key is a slot and the index of one of its instances, which
  /// micro-batches use in turn. The index is 0 if the slot has one instance.
  std::map<std::pair<std::size_t, int64_t>, Life> lives_;
};

} // namespace

void SpanSet::add(Span span) {
  auto next = spans_.upper_bound(span.begin);
  if (next != spans_.begin() && std::prev(next)->second >= span.begin)
    --next;
  while (next != spans_.end() && next->first <= span.end) {
    span.begin = std::min(span.begin, next->first);
    span.end = std::max(span.end, next->second);
    next = spans_.erase(next);
  }
  spans_.emplace_hint(next, span.begin, span.end);
}

std::vector<Span> SpanSet::missing(Span span) const {
  std::vector<Span> found;
  auto next = spans_.upper_bound(span.begin);
  if (next != spans_.begin() && std::prev(next)->second > span.begin)
    --next;
  int64_t begin = span.begin;
  for (; next != spans_.end() && next->first < span.end; ++next) {
    if (begin < next->first)
      found.push_back({begin, next->first});
    begin = next->second;
  }
  if (begin < span.end)
    found.push_back({begin, span.end});
  return found;
}

FirstTouches::FirstTouches(const ProgramFile &file, const Program &program,
                           const BufferNames &names)
    : program_(program), names_(names) {
  for (const Slot &slot : program.slots)
    startsWithin_.push_back(slot.slotClass != SlotClass::Input &&
                            slot.offset >= file.stateBytesOf(slot.arena));
}

/// Returns the bytes that have been accessed in the current lifetime of a slot.
/// All bytes of inputs and states count as accessed. `run` selects the instance
/// of the slot and, if each micro-batch has its own lifetime, the lifetime.
SpanSet &FirstTouches::touchedBy(std::size_t index,
                                 const abi::SegmentRun &run) {
  const Slot &slot = program_.slots[index];
  auto [place, isNew] =
      lives_.try_emplace({index, slot.ring > 0 ? run.slot : 0});
  Life &life = place->second;
  if (!startsWithin_[index]) {
    if (isNew)
      life.touched.add({slot.offset, slot.offset + slot.bytes});
    return life.touched;
  }
  if (program_.livesPerMicrobatch(slot) && life.microbatch != run.microbatch) {
    life.microbatch = run.microbatch;
    life.touched.clear();
  }
  return life.touched;
}

/// Returns the subranges of `part` that have been accessed neither through this
/// slot nor through another live slot with the same offsets. Two live slots
/// have common offsets if a result is stored in the memory of an operand.
std::vector<Span> FirstTouches::untouched(const StreamAction &action,
                                          std::size_t slot, Span part) {
  std::vector<Span> spans = touchedBy(slot, action.run).missing(part);
  for (std::size_t other : names_.living(action.command)) {
    if (spans.empty())
      break;
    if (program_.slots[other].arena != program_.slots[slot].arena)
      continue;
    std::vector<Span> rest;
    for (const Span &span : spans) {
      std::vector<Span> missing = touchedBy(other, action.run).missing(span);
      rest.insert(rest.end(), missing.begin(), missing.end());
    }
    spans = std::move(rest);
  }
  return spans;
}

std::vector<ByteRange> FirstTouches::visit(const StreamAction &action) {
  std::vector<ByteRange> first;
  std::vector<std::pair<std::size_t, Span>> touched;
  for (const ByteAccess &access : action.accesses) {
    for (std::size_t index : names_.living(action.command)) {
      const Slot &slot = program_.slots[index];
      int64_t begin = slot.at(action.run).offset;
      Span part = {std::max(access.begin, begin),
                   std::min(access.end, begin + slot.bytes)};
      if (slot.arena != access.arena || part.begin >= part.end)
        continue;
      touched.emplace_back(index, part);
      if (startsWithin_[index])
        for (const Span &span : untouched(action, index, part))
          first.push_back({slot.arena, span.begin, span.end});
    }
  }
  // Record the accesses only after all of them have been visited, because an
  // operand and a result of one action may be in the same slot.
  for (auto &[index, part] : touched)
    touchedBy(index, action.run).add(part);
  return first;
}

std::vector<std::vector<ByteRange>>
kiln::runtime::firstTouches(const ProgramFile &file, const Program &program,
                            const StreamProgram &streams,
                            const BufferNames &names) {
  FirstTouches touches(file, program, names);
  std::vector<std::vector<ByteRange>> result;
  for (const StreamAction &action : streams.actions)
    result.push_back(touches.visit(action));
  return result;
}
