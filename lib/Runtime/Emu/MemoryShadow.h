//===- MemoryShadow.h - Shadow of a memory range ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stores which bytes of a memory range are initialised, and which threads
// accessed the bytes in the current generation. A generation is a launch for
// global memory, and a block for shared memory. Accesses are recorded per cell
// of 4 bytes. The first access to fewer than 4 bytes of a cell splits the cell
// into bytes, so that accesses to adjacent elements of 1 or 2 bytes are not
// reported as races.
//
// A cell with an older generation number counts as not accessed. Therefore
// starting a new generation takes constant time. Pages of the tables that are
// never accessed use no memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_MEMORYSHADOW_H
#define KILN_LIB_RUNTIME_EMU_MEMORYSHADOW_H

#include "AccessHistory.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

namespace kiln::runtime::emu {

/// An earlier access with which a new access races. `other` is empty if there
/// is no race.
struct Race {
  Accessor other;
  bool otherWrote = false;
  /// The offset, from the start of the memory range, of the first accessed byte
  /// for which the race was found.
  int64_t offset = 0;
};

class MemoryShadow {
public:
  /// Creates the shadow of [begin, begin + bytes). `begin` must be a multiple
  /// of 4.
  MemoryShadow(const char *begin, int64_t bytes);

  /// Returns false if the tables could not be allocated.
  bool ok() const { return cells_ && initialised_; }

  const char *begin() const { return begin_; }
  int64_t bytes() const { return bytes_; }
  bool contains(const void *address, int64_t bytes) const {
    uint64_t offset = reinterpret_cast<uintptr_t>(address) - uintptr_t(begin_);
    return offset <= uint64_t(bytes_) &&
           uint64_t(bytes) <= uint64_t(bytes_) - offset;
  }

  // The byte ranges passed to the following functions must be within the
  // shadowed memory.

  void setInitialised(int64_t offset, int64_t bytes, bool value);
  void copyInitialised(int64_t to, const MemoryShadow &source, int64_t from,
                       int64_t bytes);
  /// Returns the offset of the first uninitialised byte, or -1 if there is
  /// none.
  int64_t findUninitialised(int64_t offset, int64_t bytes) const;

  /// Discards all recorded accesses.
  void newGeneration();
  /// Records an access. If it races with an earlier access, returns the race.
  Race access(int64_t offset, int64_t bytes, Accessor now, bool isWrite);

private:
  struct Cell {
    AccessHistory history;
    uint32_t generation;
    /// If each byte of the cell has its own history: 1 + the index of these
    /// histories in splits_. Otherwise 0.
    uint32_t split;
  };
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };

  Race accessBytes(Cell &cell, int64_t offset, int64_t bytes, Accessor now,
                   bool isWrite);

  const char *begin_;
  int64_t bytes_;
  /// Starts at 1, because zeroed cells have generation 0.
  uint32_t generation_ = 1;
  std::unique_ptr<Cell[], Free> cells_;
  /// For each byte of the range, 1 if it is initialised, otherwise 0.
  std::unique_ptr<uint8_t[], Free> initialised_;
  std::vector<std::array<AccessHistory, 4>> splits_;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_MEMORYSHADOW_H
