//===- ArgumentTable.h - Which memory a launch may touch --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ranges of a launch's arguments, which may overlap, sorted so that the one
// that holds an access is found in a few steps.
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
  /// `shadow`: of the memory that [begin, end) lies in.
  void add(const char *begin, const char *end, MemoryShadow *shadow) {
    ranges_.push_back({begin, end, end, shadow});
  }
  /// After the last add().
  void sort();

  /// The shadow of an argument that holds [begin, begin + bytes), or null.
  MemoryShadow *find(const char *begin, int64_t bytes) const;

private:
  struct Range {
    const char *begin, *end;
    const char *lastEnd; ///< Of the ranges up to this one.
    MemoryShadow *shadow;
  };
  std::vector<Range> ranges_;
};

/// What a launch, or a member of one, may read and write.
struct Bounds {
  ArgumentTable readable, writable;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_ARGUMENTTABLE_H
