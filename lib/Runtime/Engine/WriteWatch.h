//===- WriteWatch.h - Detection of unplanned writes -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the arenas with a copy after every command of a run, and reports
// bytes that changed outside the command's results and scratch memory. All
// pages of small arenas are watched. In large arenas, the watched pages are
// those at the boundaries of slots, where overruns occur, and a uniform sample
// of the rest. Asynchronous copies must be executed at their starts.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H
#define KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H

#include "Arena.h"
#include "CommandObserver.h"
#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace kiln::runtime {

class WriteWatch final : public CommandObserver {
public:
  static constexpr int64_t pageBytes = 4096;

  /// Watches at most about `pageBudget` pages.
  WriteWatch(const ProgramFile &file, const Program &program,
             const Arenas &arenas, int64_t pageBudget);

  /// Copies the watched pages.
  void begin() override;
  void after(size_t command, int64_t iteration) override;

  int64_t watchedPages() const { return int64_t(pages_.size()); }
  int64_t totalPages() const { return totalPages_; }
  /// Returns a description of the first violation, or an empty string.
  const std::string &violation() const { return violation_; }
  /// Returns the end of the highest byte that changed in a workspace slot, or
  /// 0.
  int64_t workspaceEnd() const { return workspaceEnd_; }

private:
  struct Range {
    ArenaKind arena;
    int64_t begin, end;
  };
  struct Page {
    ArenaKind arena;
    int64_t number;
    int64_t begin() const { return number * pageBytes; }
    bool operator<(const Page &other) const {
      return std::tie(arena, number) < std::tie(other.arena, other.number);
    }
    bool operator==(const Page &other) const {
      return arena == other.arena && number == other.number;
    }
  };
  const char *dataOf(const Page &page) const {
    return arenas_.at({page.begin(), page.arena});
  }
  std::vector<Range> allowedWrites(size_t command, int64_t iteration) const;
  void allowAt(size_t command, const Place &place,
               std::vector<Range> &allowed) const;
  void comparePage(size_t page, size_t command, int64_t iteration,
                   const std::vector<Range> &allowed);
  std::string describeByte(size_t command, const Place &place) const;

  const ProgramFile &file_;
  const Program &program_;
  const Arenas &arenas_;
  std::vector<const Slot *> workspaces_; ///< All in the device arena.
  int64_t totalPages_ = 0;
  std::vector<Page> pages_; ///< The watched pages in ascending order.
  std::vector<char> copy_;
  std::string violation_;
  int64_t workspaceEnd_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H
