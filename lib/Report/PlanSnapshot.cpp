//===- PlanSnapshot.cpp - PyTorch snapshot of a memory plan -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PyTorch's memory viewer replays `device_traces` forwards for its timeline,
// and backwards from `segments` for its allocator state. Both replays must give
// the same allocations at every time. The trace therefore starts with an empty
// arena, allocates the states before all other buffers, and ends with only the
// states allocated. The class of a buffer is written as a stack frame and not
// as the `category` of an event: released viewers fail on events with
// categories if no category is named 'unknown', and kiln has no class of this
// name.
//
//===----------------------------------------------------------------------===//

#include "kiln/Report/PlanReport.h"

#include "PlanFigures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kiln;
using namespace kiln::report;
using llvm::json::Array;
using llvm::json::Object;

/// Base address of the arena in the snapshot; nonzero, because 0 is not a valid
/// address.
static constexpr int64_t kBase = 1LL << 32;

static Array framesOf(const PlanFigures &plan, const PlanBuffer &buffer) {
  auto frame = [](const llvm::Twine &file, int64_t line, llvm::StringRef name) {
    return Object{{"filename", file.str()}, {"line", line}, {"name", name}};
  };
  Array frames;
  frames.push_back(
      frame(bufferClasses[buffer.slotClass].key, buffer.first, buffer.name));
  if (!buffer.why.empty())
    frames.push_back(frame("why", buffer.first, buffer.why));
  if (llvm::StringRef command = plan.commandName(buffer.first);
      !buffer.isState && !command.empty())
    frames.push_back(frame("@" + plan.program, buffer.first, command));
  return frames;
}

static Object event(llvm::StringRef action, int64_t offset, int64_t size,
                    Array frames) {
  return Object{{"action", action},
                {"addr", kBase + offset},
                {"size", size},
                {"stream", 0},
                {"frames", std::move(frames)}};
}

static Array writeTrace(const PlanFigures &plan) {
  std::vector<const PlanBuffer *> starts, ends;
  Array trace;
  trace.push_back(event("segment_alloc", 0, plan.arena, Array()));
  for (const PlanBuffer &buffer : plan.buffers) {
    if (buffer.bytes <= 0)
      continue;
    if (!buffer.isState) {
      starts.push_back(&buffer);
      ends.push_back(&buffer);
      continue;
    }
    trace.push_back(
        event("alloc", buffer.offset, buffer.size(), framesOf(plan, buffer)));
  }
  llvm::sort(starts, [](const PlanBuffer *a, const PlanBuffer *b) {
    return std::pair(a->first, a) < std::pair(b->first, b);
  });
  llvm::sort(ends, [](const PlanBuffer *a, const PlanBuffer *b) {
    return std::pair(a->last, a) < std::pair(b->last, b);
  });
  size_t ended = 0;
  auto endBefore = [&](std::optional<int64_t> command) {
    for (; ended < ends.size() && (!command || ends[ended]->last < *command);
         ++ended)
      for (const char *action : {"free_requested", "free_completed"})
        trace.push_back(event(action, ends[ended]->offset, ends[ended]->size(),
                              framesOf(plan, *ends[ended])));
  };
  for (const PlanBuffer *buffer : starts) {
    endBefore(buffer->first);
    trace.push_back(event("alloc", buffer->offset, buffer->size(),
                          framesOf(plan, *buffer)));
  }
  endBefore(std::nullopt);
  return trace;
}

/// Returns the blocks of the arena between steps: states, gaps and the
/// remainder.
static Array writeBlocks(const PlanFigures &plan, int64_t &active) {
  std::vector<const PlanBuffer *> states;
  for (const PlanBuffer &buffer : plan.buffers)
    if (buffer.isState && buffer.bytes > 0)
      states.push_back(&buffer);
  llvm::sort(states, [](const PlanBuffer *a, const PlanBuffer *b) {
    return std::pair(a->offset, a) < std::pair(b->offset, b);
  });
  Array blocks;
  int64_t end = 0;
  auto push = [&](int64_t offset, int64_t size, int64_t requested, bool isLive,
                  Array frames) {
    blocks.push_back(Object{{"address", kBase + offset},
                            {"size", size},
                            {"requested_size", requested},
                            {"state", isLive ? "active_allocated" : "inactive"},
                            {"frames", std::move(frames)}});
  };
  for (const PlanBuffer *state : states) {
    if (state->offset > end)
      push(end, state->offset - end, 0, false, Array());
    push(state->offset, state->size(), state->bytes, true,
         framesOf(plan, *state));
    end = state->offset + state->size();
    active += state->size();
  }
  if (end < plan.arena)
    push(end, plan.arena - end, 0, false, Array());
  return blocks;
}

std::string kiln::planSnapshot(const Object &object) {
  PlanFigures plan(object);
  int64_t active = 0;
  Array blocks = writeBlocks(plan, active);
  Object segment{{"device", 0},
                 {"address", kBase},
                 {"total_size", plan.arena},
                 {"stream", 0},
                 {"segment_type", "large"},
                 {"allocated_size", active},
                 {"active_size", active},
                 {"requested_size", active},
                 {"frames", Array()},
                 {"blocks", std::move(blocks)}};
  Object snapshot{{"segments", Array{std::move(segment)}},
                  {"device_traces", Array{writeTrace(plan)}}};
  return llvm::formatv("{0}\n", llvm::json::Value(std::move(snapshot)));
}
