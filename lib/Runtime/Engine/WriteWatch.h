//===- WriteWatch.h - Which bytes does a command change? --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the arena with a copy after every command of a run, and collects the
// bytes that changed although no written slot, state or scratch of the command
// holds them. Watches all pages of a small arena; of a large one the pages at
// the edges of all slots, where overruns land, and an even sample of the rest.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H
#define KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H

#include "Arena.h"
#include "CommandTable.h"
#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

class WriteWatch final : public CommandTable::Observer {
public:
  static constexpr int64_t pageBytes = 4096;

  /// `pageBudget`: at most about this many pages are watched.
  WriteWatch(const ProgramFile &file, const Program &program,
             const Arena &arena, int64_t pageBudget);

  /// Takes the copy.
  void begin() override;
  void after(size_t command, int64_t iteration) override;

  int64_t watchedPages() const { return int64_t(pages_.size()); }
  int64_t totalPages() const { return totalPages_; }
  /// The first violation in words; empty when there was none.
  const std::string &violation() const { return violation_; }
  /// One past the highest byte that changed in workspace slots; 0: none.
  int64_t workspaceEnd() const { return workspaceEnd_; }

private:
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> allowedWrites(size_t command, int64_t iteration) const;
  void allowAt(size_t command, int64_t offset,
               std::vector<Range> &allowed) const;
  void comparePage(size_t page, size_t command, int64_t iteration,
                   const std::vector<Range> &allowed);
  std::string describeByte(size_t command, int64_t offset) const;

  const ProgramFile &file_;
  const Program &program_;
  const Arena &arena_;
  std::vector<const Slot *> workspaces_;
  int64_t totalPages_ = 0;
  std::vector<int64_t> pages_; ///< Numbers of the watched pages, ascending.
  std::vector<char> copy_;
  std::string violation_;
  int64_t workspaceEnd_ = 0;
};

} // namespace kiln

#endif // KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H
