//===- DriverChecks.cpp - Checks that replace training -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of TrainingDriver.h that implements --check-memory, --check-ops and
// --check-trace.
//
//===----------------------------------------------------------------------===//

#include "MemoryCheck.h"
#include "TrainingDriver.h"
#include "kiln/Support/Process.h"
#include "kiln/Support/Rng.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Returns a source of pseudo-random tokens, for checks that run without data.
static SequenceSource syntheticSource(int64_t vocabulary) {
  SequenceSource source;
  source.read = [vocabulary](int64_t index, int64_t length, int32_t *tokens,
                             int32_t *targets) {
    for (int64_t i = 0; i < length; ++i) {
      auto token = [&](int64_t position) {
        return int32_t(splitmix64(uint64_t(index * length + position)) %
                       uint64_t(vocabulary));
      };
      tokens[i] = token(i);
      targets[i] = token(i + 1);
    }
    return Status();
  };
  return source;
}

/// Calls `body` with hooks that write the inputs of any program. The tokens are
/// taken from the data or, without data, are pseudo-random.
Status
Driver::withHooks(const std::function<Status(const MemoryCheckHooks &)> &body) {
  std::vector<ProgramInputs> inputs;
  for (size_t i = 0; i < description_.programs.size(); ++i) {
    if (description_.programs[i].name == "sync") {
      inputs.emplace_back(); // The program has no inputs.
      continue;
    }
    Result<ProgramInputs> bound =
        ProgramInputs::bind(engine_, i, ranks_.rank());
    if (!bound.ok())
      return bound.status();
    inputs.push_back(std::move(*bound));
  }
  SequenceSource source = files_.data
                              ? sourceOf(*files_.data, files_.inputs)
                              : syntheticSource(description_.model.vocabSize);
  Schedule schedule(options_.schedule, std::max<int64_t>(options_.steps, 1),
                    description_.globalBatch());
  MemoryCheckHooks hooks;
  hooks.restore = [&] { return initialiseWeights(); };
  hooks.load = [&](size_t program, int64_t step) -> Status {
    ProgramInputs &target = inputs[program];
    Status loaded = checkStop();
    if (loaded.ok())
      loaded = target
                   .writeBatch(source,
                               step * description_.globalBatch() +
                                   ranks_.dataIndex() * target.batch(),
                               target.batch(), progress_.seed, step,
                               ranks_.dataIndex() * target.batch())
                   .status();
    // Check that no rank has failed, because a program that sums over ranks
    // must run on all of them.
    if (Result<Ballot> all = ranks_.vote("--check-memory", loaded); !all.ok())
      return all.status();
    target.writeUpdate(schedule.rate(0), step + 1, options_.gradClip,
                       options_.lossScale.initial);
    target.writePosition(target.length() - 1);
    return Status();
  };
  return body(hooks);
}

Status Driver::traceOps() {
  return withHooks([&](const MemoryCheckHooks &hooks) {
    auto prepare = [&](size_t program) {
      Status restored = hooks.restore();
      return restored.ok() ? hooks.load(program, 0) : restored;
    };
    return engine_.traceOps(prepare, options_.checkOps);
  });
}

/// Prints the lines of a check. Returns `status` if it is an error. Otherwise
/// returns an error if a line reports a failed check.
static Status report(const char *check, const Status &status,
                     const std::vector<MemoryCheckLine> &lines,
                     bool prints = true) {
  Status printed = prints ? printResult(memoryCheckTable(lines)) : Status();
  if (!status.ok() || !printed.ok())
    return status.ok() ? printed : status;
  auto failed = std::count_if(lines.begin(), lines.end(),
                              [](auto &line) { return !line.ok; });
  if (failed == 0)
    return Status();
  return Status::error(std::string(check) + ": " + std::to_string(failed) +
                       " of " + std::to_string(lines.size()) +
                       " checks failed; please report this as a kiln bug");
}

Status Driver::repeatOps() {
  std::vector<MemoryCheckLine> lines;
  Status status = engine_.repeatOps(options_.checkTrace, lines);
  return report("--check-trace", status, lines);
}

Status Driver::checkMemoryUse() {
  std::vector<MemoryCheckLine> lines;
  Status status = withHooks([&](const MemoryCheckHooks &hooks) {
    return checkMemory(engine_, hooks, lines);
  });
  return report("--check-memory", status, lines, ranks_.isFirst());
}

} // namespace kiln::runtime
