//===- ArgumentTable.h - Address ranges of a launch's arguments -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The address ranges of a launch's arguments, which may overlap. They are
// sorted by their first addresses, so that a binary search finds the range that
// contains an access.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_ARGUMENTTABLE_H
#define KILN_LIB_RUNTIME_EMU_ARGUMENTTABLE_H

#include "MemoryShadow.h"

#include <vector>

namespace kiln::runtime::emu {

class ArgumentTable {
public:
  void clear() { ranges_.clear(); }
  /// Adds the range [begin, end). `shadow` is the shadow of the memory in which
  /// the range is allocated.
  void add(const char *begin, const char *end, MemoryShadow *shadow) {
    ranges_.push_back({begin, end, end, shadow});
  }
  /// Sorts the ranges. Must be called after the last add() and before find().
  void sort();

  /// If the range of an argument contains [begin, begin + bytes), returns the
  /// shadow of the memory of that argument. Otherwise returns null.
  MemoryShadow *find(const char *begin, int64_t bytes) const;

private:
  struct Range {
    const char *begin, *end;
    /// The maximum `end` of this range and of all ranges before it.
    const char *lastEnd;
    MemoryShadow *shadow;
  };
  std::vector<Range> ranges_;
};

/// The memory that a launch, or one of the launches of a group, may read and
/// write.
struct Bounds {
  ArgumentTable readable, writable;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_ARGUMENTTABLE_H
