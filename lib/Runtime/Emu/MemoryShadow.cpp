//===- MemoryShadow.cpp - Shadow of a memory range ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryShadow.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace kiln::runtime::emu;

static constexpr int64_t cellBytes = 4;
static constexpr uint8_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                     1, 1, 1, 1, 1, 1, 1, 1};

// calloc maps zero pages lazily, so that pages without an access use no memory.
// The generation of a cell is the number, from 1, of the launch or block that
// accessed the cell last. A zeroed cell therefore counts as not accessed.
MemoryShadow::MemoryShadow(const char *begin, int64_t bytes)
    : begin_(begin), bytes_(bytes),
      cells_(static_cast<Cell *>(
          std::calloc(size_t(bytes) / cellBytes + 1, sizeof(Cell)))),
      initialised_(static_cast<uint8_t *>(std::calloc(size_t(bytes) + 1, 1))) {
  assert(uintptr_t(begin) % cellBytes == 0 && "cells are aligned");
}

// Nearly all accesses have 4 or 16 bytes. For a constant number of bytes, the
// compiler replaces memset and memcmp by one or two instructions.

void MemoryShadow::setInitialised(int64_t offset, int64_t bytes, bool value) {
  uint8_t *begin = &initialised_[offset];
  if (bytes == 4)
    std::memset(begin, value, 4);
  else if (bytes == 16)
    std::memset(begin, value, 16);
  else
    std::memset(begin, value, bytes);
}

void MemoryShadow::copyInitialised(int64_t to, const MemoryShadow &source,
                                   int64_t from, int64_t bytes) {
  std::memmove(&initialised_[to], &source.initialised_[from], bytes);
}

int64_t MemoryShadow::findUninitialised(int64_t offset, int64_t bytes) const {
  const uint8_t *begin = &initialised_[offset];
  if ((bytes == 4 && std::memcmp(begin, ones, 4) == 0) ||
      (bytes == 16 && std::memcmp(begin, ones, 16) == 0))
    return -1;
  const void *found = std::memchr(begin, 0, bytes);
  return found ? offset + (static_cast<const uint8_t *>(found) - begin) : -1;
}

void MemoryShadow::newGeneration() {
  splits_.clear();
  if (++generation_ != 0)
    return;
  std::memset(static_cast<void *>(cells_.get()), 0,
              (bytes_ / cellBytes + 1) * sizeof(Cell));
  generation_ = 1;
}

Race MemoryShadow::access(int64_t offset, int64_t bytes, Accessor now,
                          bool isWrite) {
  int64_t end = offset + bytes;
  for (int64_t index = offset / cellBytes; index * cellBytes < end; ++index) {
    Cell &cell = cells_[index];
    if (cell.generation != generation_) {
      cell.history = AccessHistory();
      cell.generation = generation_;
      cell.split = 0;
    }
    int64_t first = std::max(offset, index * cellBytes);
    int64_t last = std::min(end, (index + 1) * cellBytes);
    if (cell.split || last - first != cellBytes) {
      Race race = accessBytes(cell, first, last - first, now, isWrite);
      if (race.other)
        return race;
      continue;
    }
    bool otherWrote;
    if (Accessor other = cell.history.add(now, isWrite, otherWrote))
      return {other, otherWrote, first};
  }
  return {};
}

Race MemoryShadow::accessBytes(Cell &cell, int64_t offset, int64_t bytes,
                               Accessor now, bool isWrite) {
  if (!cell.split) {
    const AccessHistory &whole = cell.history;
    splits_.push_back({whole, whole, whole, whole});
    cell.split = uint32_t(splits_.size());
  }
  std::array<AccessHistory, 4> &histories = splits_[cell.split - 1];
  for (int64_t i = offset; i < offset + bytes; ++i) {
    bool otherWrote;
    AccessHistory &history = histories[i % cellBytes];
    if (Accessor other = history.add(now, isWrite, otherWrote))
      return {other, otherWrote, i};
  }
  return {};
}
