//===- CommandEngine.cpp - Engine of a compiled executable ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/CommandEngine.h"

#include "AllocationCounter.h"
#include "Arena.h"
#include "CommandTable.h"
#include "CpuFeatures.h"
#include "Gemm.h"
#include "OpTrace.h"
#include "PlanCheck.h"
#include "ThreadTeam.h"
#include "kiln/Runtime/Engine/Program.h"

#include <algorithm>
#include <chrono>
#include <malloc.h>
#include <sched.h>

namespace kiln {

namespace {

class CommandEngine final : public Engine {
public:
  CommandEngine(ProgramFile file, const void *const *kernels)
      : file_(std::move(file)), kernels_(kernels) {}

  const Description &description() const override { return file_.description; }
  Status start(int threads) override;
  int threads() const override { return team_ ? team_->size() : 0; }
  std::optional<std::string> notice() const override {
    return blasNotice(file_.description.target.blas);
  }
  std::string libraryName() const override { return blasName(); }

  char *stateData(size_t state) override {
    return arena_.data() + file_.stateOffsets[state];
  }
  char *inputData(size_t program, size_t input) override {
    return arena_.data() + file_.programs[program].inputOffsets[input];
  }
  char *outputData(size_t program, size_t output) override {
    return arena_.data() + file_.programs[program].outputOffsets[output];
  }

  Status run(size_t program) override;
  Status runTraced(size_t program, std::vector<TraceEvent> &events) override;
  Status
  runObserved(size_t program,
              const std::function<void(const OpResult &)> &observe) override {
    observeOps(file_.programs[program], arena_, tables_[program], observe);
    return Status();
  }
  void forEachPart(
      int64_t count,
      const std::function<void(int64_t begin, int64_t end)> &body) override {
    team_->forEachPart(
        count, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  }
  MemoryFacts memory() const override;
  std::optional<AllocationCounts> allocations() const override {
    return allocationCounts();
  }
  Status checkPlan(const std::function<Status(size_t)> &prepare,
                   std::vector<MemoryCheckLine> &lines) override;
  Status traceOps(const std::function<Status(size_t)> &prepare,
                  const std::string &path) override {
    return kiln::traceOps(file_, arena_, tables_, prepare, path);
  }

private:
  ProgramFile file_;
  const void *const *kernels_;
  Arena arena_;
  std::optional<ThreadTeam> team_;
  std::vector<CommandTable> tables_; ///< As Description::programs.
};

/// Records a bar for every command.
class TraceObserver final : public CommandTable::Observer {
public:
  TraceObserver(const Program &program, std::vector<TraceEvent> &events)
      : program_(program), events_(events), start_(Clock::now()) {}

  void before(size_t command, int64_t iteration) override {
    before_ = microseconds();
  }
  void after(size_t index, int64_t iteration) override;

private:
  using Clock = std::chrono::steady_clock;
  double microseconds() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_)
        .count();
  }
  const Program &program_;
  std::vector<TraceEvent> &events_;
  Clock::time_point start_;
  double before_ = 0;
};

} // namespace

void TraceObserver::after(size_t index, int64_t iteration) {
  const Command &command = program_.commands[index];
  if (command.kind == Command::Kind::LoopEnd)
    return;
  TraceEvent event;
  event.name = command.name;
  event.category = commandKindName(command.kind);
  event.startUs = before_;
  event.durationUs = microseconds() - before_;
  event.flops = command.flops;
  event.bytes = command.bytes;
  for (const Slot &slot : program_.slots) {
    if (int64_t(index) < slot.first || int64_t(index) > slot.last)
      continue;
    const char *name = slotClassName(slot.slotClass);
    auto entry = std::find_if(event.liveBytes.begin(), event.liveBytes.end(),
                              [&](auto &pair) { return pair.first == name; });
    if (entry == event.liveBytes.end())
      event.liveBytes.emplace_back(name, slot.bytes);
    else
      entry->second += slot.bytes;
  }
  events_.push_back(std::move(event));
}

static int availableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return std::max(CPU_COUNT(&set), 1);
}

Status CommandEngine::start(int threads) {
  const Description &description = file_.description;
  Status status = checkCpuFeatures(description.target, readCpuInfo());
  if (!status.ok())
    return status;
  if (threads == 0)
    threads = std::min(description.build.maxThreads, availableProcessors());
  status = arena_.map(file_.arenaBytes);
  if (!status.ok())
    return status;
  team_.emplace(threads);
  prepareBlas(*team_);
  tables_.reserve(file_.programs.size());
  for (const Program &program : file_.programs)
    tables_.emplace_back(program, arena_.data(), *team_, kernels_);
  return Status();
}

Status CommandEngine::run(size_t program) {
  DenormalsFlushed flushed;
  tables_[program].run(nullptr);
  return Status();
}

Status CommandEngine::runTraced(size_t program,
                                std::vector<TraceEvent> &events) {
  DenormalsFlushed flushed;
  TraceObserver observer(file_.programs[program], events);
  tables_[program].run(&observer);
  return Status();
}

MemoryFacts CommandEngine::memory() const {
  MemoryFacts facts;
  facts.arenaBytes = file_.arenaBytes;
  facts.touchedArenaBytes = arena_.data() ? arena_.residentBytes() : 0;
  facts.libraryBytes = residentMappedBytes(arena_.data());
  return facts;
}

Status CommandEngine::checkPlan(const std::function<Status(size_t)> &prepare,
                                std::vector<MemoryCheckLine> &lines) {
  PlanCheck check(file_, arena_, tables_, prepare, lines);
  return check.run();
}

Result<std::unique_ptr<Engine>> createCommandEngine(std::string_view json,
                                                    const void *const *kernels,
                                                    uint64_t kernelCount) {
  Result<ProgramFile> file = parseProgramFile(json, int64_t(kernelCount));
  if (!file.ok())
    return file.status();
  // The parsed JSON was many times the size of its text; give its pages back.
  malloc_trim(0);
  std::unique_ptr<Engine> engine =
      std::make_unique<CommandEngine>(std::move(*file), kernels);
  return Result<std::unique_ptr<Engine>>(std::move(engine));
}

} // namespace kiln
