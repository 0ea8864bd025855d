//===- MemoryShadow.h - What is known about a range of memory ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which bytes of a range are initialised, and who touched them in the current
// generation (a launch; for shared memory a block). Accesses are remembered per
// cell of 4 bytes. The first access to part of a cell splits it into its bytes,
// so that neighbours of 2 bytes or 1 do not appear to race.
//
// A cell that carries the number of an older generation counts as untouched, so
// a new generation costs nothing. Pages of the tables that are never used cost
// no memory.
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

/// An earlier access that a new one races with, if `other` is somebody.
struct Race {
  Accessor other;
  bool otherWrote = false;
  int64_t offset = 0; ///< Of the cell or byte.
};

class MemoryShadow {
public:
  /// `begin` is a multiple of 4.
  MemoryShadow(const char *begin, int64_t bytes);

  /// Whether there was memory for the tables.
  bool ok() const { return cells_ && initialised_; }

  const char *begin() const { return begin_; }
  int64_t bytes() const { return bytes_; }
  bool contains(const void *address, int64_t bytes) const {
    uint64_t offset = reinterpret_cast<uintptr_t>(address) - uintptr_t(begin_);
    return offset <= uint64_t(bytes_) &&
           uint64_t(bytes) <= uint64_t(bytes_) - offset;
  }

  /// All below take ranges that are contained.
  void setInitialised(int64_t offset, int64_t bytes, bool value);
  void copyInitialised(int64_t to, const MemoryShadow &source, int64_t from,
                       int64_t bytes);
  /// The offset of the first uninitialised byte, or -1.
  int64_t findUninitialised(int64_t offset, int64_t bytes) const;

  /// Forgets all accesses.
  void newGeneration();
  Race access(int64_t offset, int64_t bytes, Accessor now, bool isWrite);

private:
  struct Cell {
    AccessHistory history;
    uint32_t generation;
    uint32_t split; ///< 0, or one more than the place of its bytes in splits_.
  };
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };

  Race accessBytes(Cell &cell, int64_t offset, int64_t bytes, Accessor now,
                   bool isWrite);

  const char *begin_;
  int64_t bytes_;
  uint32_t generation_ = 1; ///< New cells are of generation 0.
  std::unique_ptr<Cell[], Free> cells_;
  std::unique_ptr<uint8_t[], Free> initialised_; ///< Per byte: 0 or 1.
  std::vector<std::array<AccessHistory, 4>> splits_;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_MEMORYSHADOW_H
