//===- MemoryCheck.cpp - Checks of --check-memory -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryCheck.h"

#include "ProcessMemory.h"

#include <algorithm>

namespace kiln::runtime {

/// Number of steps that are run per program. Allocations in the first of these
/// steps are allowed.
static constexpr int64_t checkedSteps = 4;

/// Upper bound on the memory that belongs neither to the arenas nor to the
/// vendor library, but to thread stacks, the C library, the description, the
/// log and memory pools.
static constexpr int64_t explainedBytes = int64_t(64) << 20;

static Status checkAllocations(Engine &engine, const MemoryCheckHooks &hooks,
                               size_t program,
                               std::vector<MemoryCheckLine> &lines) {
  uint64_t calls = 0, mapCalls = 0;
  int64_t heap = 0;
  bool heapMoved = false;
  for (int64_t step = 0; step < checkedSteps; ++step) {
    Status status = hooks.load(program, step);
    if (!status.ok())
      return status;
    std::optional<AllocationCounts> before = engine.allocations();
    status = engine.run(program);
    std::optional<AllocationCounts> after = engine.allocations();
    if (!status.ok())
      return status;
    if (!before || !after)
      return Status();
    if (step == 0) {
      heap = after->liveBytes;
      continue;
    }
    calls += after->calls - before->calls;
    mapCalls += after->mapCalls - before->mapCalls;
    heapMoved |= after->liveBytes != heap;
  }
  std::string name = engine.description().programs[program].name + ": ";
  lines.push_back({name + "allocator calls in a step", "0",
                   std::to_string(calls), calls == 0});
  lines.push_back({name + "mappings made in a step", "0",
                   std::to_string(mapCalls), mapCalls == 0});
  lines.push_back({name + "live heap after every step", "equal",
                   heapMoved ? "different" : "equal", !heapMoved});
  return Status();
}

static void checkResident(Engine &engine, std::vector<MemoryCheckLine> &lines) {
  ProcessMemory process = readProcessMemory();
  MemoryFacts facts = engine.memory();
  std::optional<AllocationCounts> counts = engine.allocations();
  if (process.anonymous == 0 || !counts)
    return;
  // Linux reports the peak of all resident memory, but not the peak of
  // anonymous memory. The file-backed memory (code) is constant. Therefore
  // subtract it from the resident peak.
  int64_t files = process.resident - process.anonymous;
  int64_t anonymous = process.peakResident - files;
  int64_t rest = anonymous - facts.touchedArenaBytes - facts.libraryBytes;
  auto line = [&](const char *check, int64_t bytes) {
    lines.push_back({check, "", std::to_string(bytes), true});
  };
  line("anonymous peak resident bytes", anonymous);
  line("  touched arena", facts.touchedArenaBytes);
  line("  library", facts.libraryBytes);
  line("  live heap (part of the rest)", counts->liveBytes);
  if (facts.commScratchBytes > 0)
    line("  sums over ranks (part of the rest)", facts.commScratchBytes);
  lines.push_back({"  rest", "at most " + std::to_string(explainedBytes),
                   std::to_string(rest), rest <= explainedBytes});
}

Status checkMemory(Engine &engine, const MemoryCheckHooks &hooks,
                   std::vector<MemoryCheckLine> &lines) {
  Status status = hooks.restore();
  size_t programs = engine.description().programs.size();
  for (size_t program = 0; program < programs && status.ok(); ++program)
    status = checkAllocations(engine, hooks, program, lines);
  if (!status.ok())
    return status;
  // Measure the resident memory before checkPlan(), which copies states.
  checkResident(engine, lines);
  return engine.checkPlan(
      [&](size_t program) {
        Status restored = hooks.restore();
        return restored.ok() ? hooks.load(program, 0) : restored;
      },
      lines);
}

std::string memoryCheckTable(const std::vector<MemoryCheckLine> &lines) {
  size_t checkWidth = 0, expectedWidth = 0;
  for (const MemoryCheckLine &line : lines) {
    checkWidth = std::max(checkWidth, line.check.size());
    expectedWidth = std::max(expectedWidth, line.expected.size());
  }
  auto padded = [](std::string text, size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  };
  std::string table;
  for (const MemoryCheckLine &line : lines)
    table += std::string(line.ok ? "ok    " : "FAIL  ") +
             padded(line.check, checkWidth) + "  " +
             padded(line.expected, expectedWidth) + "  " + line.found + "\n";
  return table;
}

} // namespace kiln::runtime
