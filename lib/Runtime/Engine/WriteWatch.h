//===- WriteWatch.h - Detection of unplanned writes -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the arenas with a copy after every command of a run, and reports
// bytes that changed outside the results and the scratch memory of the command.
// In small arenas, all pages are compared. In large arenas, the pages at the
// boundaries of slots (where overruns occur) and a uniform sample of the
// remaining pages are compared. In small arenas, the kernel reports which pages
// were written, and the other pages are not compared. Asynchronous copies must
// be executed at their starts.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H
#define KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H

#include "Arena.h"
#include "CommandObserver.h"
#include "WrittenPages.h"

#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace kiln::runtime {

class WriteWatch final : public CommandObserver {
public:
  static constexpr int64_t pageBytes = 4096;

  /// Selects at most about `pageBudget` pages for comparison and, in large
  /// arenas, also the pages at the boundaries of slots.
  WriteWatch(const ProgramFile &file, const Program &program,
             const Arenas &arenas, int64_t pageBudget);

  /// Copies the selected pages.
  void begin() override;
  void after(size_t command, const abi::SegmentRun &run) override;

  int64_t watchedPages() const { return int64_t(pages_.size()); }
  int64_t totalPages() const { return totalPages_; }
  /// Returns a description of the first change that a command was not allowed
  /// to make, or an empty string if there is none.
  const std::string &violation() const { return violation_; }
  /// Returns the offset after the highest byte that has changed in a workspace
  /// slot, or 0 if no such byte has changed.
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
  std::vector<Range> allowedWrites(size_t command,
                                   const abi::SegmentRun &run) const;
  void allowAt(size_t command, const abi::SegmentRun &run, const Place &place,
               std::vector<Range> &allowed) const;
  void comparePage(size_t page, size_t command, const abi::SegmentRun &run,
                   const std::vector<Range> &allowed);
  std::string describeByte(size_t command, const abi::SegmentRun &run,
                           const Place &place) const;

  const ProgramFile &file_;
  const Program &program_;
  const Arenas &arenas_;
  /// The workspace slots in the device arena.
  std::vector<const Slot *> workspaces_;
  int64_t totalPages_ = 0;
  std::vector<Page> pages_; ///< The selected pages in ascending order.
  std::vector<char> copy_;
  /// The pages of each arena that commands have written, indexed by ArenaKind.
  /// Empty if only a sample of the pages is compared.
  std::optional<WrittenPages> written_[std::size(arenaKinds)];
  std::string violation_;
  int64_t workspaceEnd_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_WRITEWATCH_H
