//===- WriteWatch.cpp - Which bytes does a command change? ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteWatch.h"

#include "kiln/Runtime/Files/Messages.h"

#include <algorithm>
#include <cstring>

namespace kiln {

WriteWatch::WriteWatch(const ProgramFile &file, const Program &program,
                       const Arena &arena, int64_t pageBudget)
    : file_(file), program_(program), arena_(arena),
      totalPages_((arena.bytes() + Arena::marginBytes) / pageBytes) {
  for (const Slot &slot : program.slots)
    if (slot.slotClass == SlotClass::Workspace)
      workspaces_.push_back(&slot);
  if (totalPages_ <= pageBudget) {
    pages_.resize(size_t(totalPages_));
    for (int64_t page = 0; page < totalPages_; ++page)
      pages_[size_t(page)] = page;
    return;
  }
  for (const Slot &slot : program.slots) {
    pages_.push_back(std::max<int64_t>(slot.offset - 1, 0) / pageBytes);
    pages_.push_back((slot.offset + slot.bytes) / pageBytes);
  }
  int64_t stride = (totalPages_ + pageBudget - 1) / pageBudget;
  for (int64_t page = 0; page < totalPages_; page += stride)
    pages_.push_back(page);
  std::sort(pages_.begin(), pages_.end());
  pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
}

void WriteWatch::begin() {
  copy_.resize(pages_.size() * size_t(pageBytes));
  for (size_t i = 0; i < pages_.size(); ++i)
    std::memcpy(copy_.data() + i * size_t(pageBytes),
                arena_.data() + pages_[i] * pageBytes, size_t(pageBytes));
}

/// Allows the slots that are live at `command`, and the states, around a byte
/// that the command is given to write to.
void WriteWatch::allowAt(size_t command, int64_t offset,
                         std::vector<Range> &allowed) const {
  for (const Slot &slot : program_.slots)
    if (slot.first <= int64_t(command) && int64_t(command) <= slot.last &&
        slot.offset <= offset && offset < slot.offset + slot.bytes)
      allowed.push_back({slot.offset, slot.offset + slot.bytes});
  if (offset >= file_.stateBytes)
    return;
  for (size_t i = 0; i < file_.stateOffsets.size(); ++i) {
    int64_t begin = file_.stateOffsets[i];
    int64_t end = begin + file_.description.states[i].bytes();
    if (begin <= offset && offset < end)
      allowed.push_back({begin, end});
  }
}

std::vector<WriteWatch::Range>
WriteWatch::allowedWrites(size_t index, int64_t iteration) const {
  const Command &command = program_.commands[index];
  std::vector<Range> allowed;
  auto allow = [&](const Ref &ref) {
    allowAt(index, ref.offset + ref.stride * iteration, allowed);
  };
  for (const LaunchItem &item : command.items)
    for (int64_t argument : item.writes)
      allow(item.args[size_t(argument)]);
  if (command.scratch.bytesPerThread > 0)
    allowed.push_back(
        {command.scratch.offset,
         command.scratch.offset + command.scratch.bytesPerThread *
                                      file_.description.build.maxThreads});
  if (command.kind == Command::Kind::Gemm)
    allow(command.c.ref);
  if (command.kind == Command::Kind::Fill ||
      command.kind == Command::Kind::Copy)
    allow(command.to);
  std::sort(allowed.begin(), allowed.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  return allowed;
}

std::string WriteWatch::describeByte(size_t command, int64_t offset) const {
  std::string text = "byte " + std::to_string(offset);
  for (size_t i = 0; i < file_.stateOffsets.size(); ++i)
    if (file_.stateOffsets[i] <= offset &&
        offset < file_.stateOffsets[i] + file_.description.states[i].bytes())
      return text + " of state " + inQuotes(file_.description.states[i].name);
  for (const Slot &slot : program_.slots)
    if (slot.first <= int64_t(command) && int64_t(command) <= slot.last &&
        slot.offset <= offset && offset < slot.offset + slot.bytes)
      return text + " of live slot " + inQuotes(slot.name);
  return text + ", in no live slot";
}

void WriteWatch::comparePage(size_t page, size_t command, int64_t iteration,
                             const std::vector<Range> &allowed) {
  int64_t begin = pages_[page] * pageBytes;
  char *before = copy_.data() + page * size_t(pageBytes);
  const char *now = arena_.data() + begin;
  if (std::memcmp(before, now, size_t(pageBytes)) == 0)
    return;
  auto range = allowed.begin();
  int64_t allowedEnd = 0; // Of all ranges that begin at or before the byte.
  for (int64_t i = 0; i < pageBytes; ++i) {
    int64_t offset = begin + i;
    for (; range != allowed.end() && range->begin <= offset; ++range)
      allowedEnd = std::max(allowedEnd, range->end);
    if (before[i] == now[i] || offset < allowedEnd)
      continue;
    if (violation_.empty())
      violation_ = "command " + std::to_string(command) + " " +
                   inQuotes(program_.commands[command].name) + " changed " +
                   describeByte(command, offset);
    break;
  }
  for (const Slot *slot : workspaces_) {
    if (int64_t(command) < slot->first || int64_t(command) > slot->last)
      continue;
    int64_t low = std::max(slot->offset, begin);
    for (int64_t offset =
             std::min(slot->offset + slot->bytes, begin + pageBytes);
         offset > low && offset > workspaceEnd_; --offset)
      if (before[offset - 1 - begin] != now[offset - 1 - begin])
        workspaceEnd_ = offset;
  }
  std::memcpy(before, now, size_t(pageBytes));
}

void WriteWatch::after(size_t command, int64_t iteration) {
  if (program_.commands[command].kind == Command::Kind::LoopEnd)
    return;
  std::vector<Range> allowed = allowedWrites(command, iteration);
  for (size_t page = 0; page < pages_.size(); ++page)
    comparePage(page, command, iteration, allowed);
}

} // namespace kiln
