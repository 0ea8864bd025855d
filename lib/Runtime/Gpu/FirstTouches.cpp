//===- FirstTouches.cpp - First accesses of slot lifetimes ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FirstTouches.h"

#include "CommandWalk.h"

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

/// The current lifetime of a slot.
struct Life {
  /// True if each loop iteration begins a new lifetime of the slot.
  bool isRepeated = false;
  /// True if the lifetime begins during the run. False for inputs and states,
  /// which are initialised before the run.
  bool startsWithin = false;
  int64_t number = 0; ///< The loop iteration of the current lifetime, or 0.
  SpanSet touched;    ///< The bytes accessed so far in the current lifetime.
};

class FirstTouches {
public:
  FirstTouches(const ProgramFile &file, const Program &program,
               const BufferNames &names);
  std::vector<ByteRange> visit(const StreamAction &action);

private:
  void findRepeated();
  Life &lifeAt(std::size_t slot, int64_t iteration);
  std::vector<Span> untouched(const StreamAction &action, std::size_t slot,
                              Span part);

  const Program &program_;
  const BufferNames &names_;
  std::vector<Life> lives_; ///< Indexed by slot.
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
    : program_(program), names_(names), lives_(program.slots.size()) {
  for (std::size_t i = 0; i < program.slots.size(); ++i) {
    const Slot &slot = program.slots[i];
    lives_[i].startsWithin = slot.slotClass != SlotClass::Input &&
                             slot.offset >= file.stateBytesOf(slot.arena);
    if (!lives_[i].startsWithin)
      lives_[i].touched.add({slot.offset, slot.offset + slot.bytes});
  }
  findRepeated();
}

void FirstTouches::findRepeated() {
  for (const ProgramLoop &loop : loopsOf(program_.commands))
    for (std::size_t slot = 0; slot < lives_.size(); ++slot)
      if (lives_[slot].startsWithin &&
          program_.slots[slot].first > int64_t(loop.begin) &&
          program_.slots[slot].last < int64_t(loop.end))
        lives_[slot].isRepeated = true;
}

Life &FirstTouches::lifeAt(std::size_t slot, int64_t iteration) {
  Life &life = lives_[slot];
  if (life.isRepeated && life.number != iteration) {
    life.number = iteration;
    life.touched.clear();
  }
  return life;
}

/// Returns the subranges of `part` that have been accessed neither through this
/// slot nor through another live slot with the same offsets. Two live slots
/// have common offsets if a result is stored in the memory of an operand.
std::vector<Span> FirstTouches::untouched(const StreamAction &action,
                                          std::size_t slot, Span part) {
  std::vector<Span> spans =
      lifeAt(slot, action.iteration).touched.missing(part);
  for (std::size_t other : names_.living(action.command)) {
    if (spans.empty())
      break;
    if (program_.slots[other].arena != program_.slots[slot].arena)
      continue;
    std::vector<Span> rest;
    for (const Span &span : spans) {
      std::vector<Span> missing =
          lifeAt(other, action.iteration).touched.missing(span);
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
      Span part = {std::max(access.begin, slot.offset),
                   std::min(access.end, slot.offset + slot.bytes)};
      if (slot.arena != access.arena || part.begin >= part.end)
        continue;
      touched.emplace_back(index, part);
      if (lives_[index].startsWithin)
        for (const Span &span : untouched(action, index, part))
          first.push_back({slot.arena, span.begin, span.end});
    }
  }
  // Record the accesses only after all of them have been visited, because an
  // operand and a result of one action may be in the same slot.
  for (auto &[index, part] : touched)
    lifeAt(index, action.iteration).touched.add(part);
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
