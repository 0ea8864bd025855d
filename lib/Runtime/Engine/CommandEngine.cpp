//===- CommandEngine.cpp - Engine of a compiled executable ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/CommandEngine.h"

#include "AllocationCounter.h"
#include "Arena.h"
#include "Collectives.h"
#include "CommandTable.h"
#include "CpuFeatures.h"
#include "Gemm.h"
#include "OpRepeat.h"
#include "OpTrace.h"
#include "PlanCheck.h"
#include "Processors.h"
#include "RankProcessors.h"
#include "Roles.h"
#include "ThreadTeam.h"
#include "TransferEngine.h"
#include "TransferStress.h"
#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <malloc.h>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

class CommandEngine final : public Engine, private ProgramRunner {
public:
  CommandEngine(ProgramFile file, const void *const *kernels)
      : file_(std::move(file)), kernels_(kernels) {}

  const Description &description() const override { return file_.description; }
  Status stressCopies(uint64_t seed) override {
    stressSeed_ = seed;
    return Status();
  }
  Status join(World &world) override;
  Status start(int threads) override;
  int threads() const override { return team_ ? team_->size() : 0; }
  std::optional<std::string> notice() const override {
    return blasNotice(file_.description.target.blas);
  }
  std::optional<std::string> rankNotice() const override {
    return processorNotice(processors_, threads());
  }
  std::string libraryName() const override { return blasName(); }

  char *stateData(size_t state) override {
    return arenas_.at(file_.statePlaces[state]);
  }
  char *inputData(size_t program, size_t input) override {
    return arenas_.at({file_.programs[program].inputOffsets[input]});
  }
  char *outputData(size_t program, size_t output) override {
    return arenas_.at({file_.programs[program].outputOffsets[output]});
  }

  Status run(size_t program) override;
  Status runTraced(size_t program, std::vector<TraceEvent> &events) override;
  Status
  runObserved(size_t program,
              const std::function<void(const OpResult &)> &observe) override {
    return observeOps(file_, arenas_, *this, program, observe);
  }
  void forEachPart(
      int64_t count,
      const std::function<void(int64_t begin, int64_t end)> &body) override {
    team_->forEachPart(
        count, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  }
  MemoryFacts memory() const override;
  std::optional<CopyCounts> copies(size_t program) const override {
    return copyCounts_.empty() ? std::nullopt : copyCounts_[program];
  }
  std::optional<SumCounts> sums(size_t program) const override {
    return sumCounts_.empty() ? std::nullopt : sumCounts_[program];
  }
  std::optional<AllocationCounts> allocations() const override {
    return allocationCounts();
  }
  Status checkPlan(const std::function<Status(size_t)> &prepare,
                   std::vector<MemoryCheckLine> &lines) override;
  Status traceOps(const std::function<Status(size_t)> &prepare,
                  const std::string &path) override {
    return kiln::runtime::traceOps(file_, arenas_, *this, prepare, path);
  }
  Status repeatOps(const std::string &path,
                   std::vector<MemoryCheckLine> &lines) override {
    return kiln::runtime::repeatOps(file_, arenas_, *this, path, lines);
  }

private:
  Status runInOrder(size_t program, CommandObserver *observer,
                    SerialTransfers::When when) override;
  /// Returns the object that executes the transfers in all runs except those of
  /// runInOrder(), or null if no program has transfers.
  Transfers *transfers();
  /// Stores the transfer counts of the last run of `program`.
  void countTransfers(size_t program);
  Status startTransfers();

  ProgramFile file_;
  const void *const *kernels_;
  Arenas arenas_;
  std::optional<ThreadTeam> team_;
  std::optional<uint64_t> stressSeed_;
  /// The connections to the other ranks, or null if there is only one rank.
  World *world_ = nullptr;
  RankProcessors processors_;
  /// At most one of transferEngine_ and stressTransfers_ is set. Neither is set
  /// if no program has transfers.
  std::unique_ptr<TransferEngine> transferEngine_;
  std::optional<StressTransfers> stressTransfers_;
  // The following vectors are indexed like Description::programs.
  std::vector<CommandTable> tables_;
  std::vector<std::optional<CopyCounts>> copyCounts_;
  std::vector<std::optional<SumCounts>> sumCounts_;
};

/// Records a trace event for every execution of a command.
class TraceObserver final : public CommandObserver {
public:
  TraceObserver(const Program &program, std::vector<TraceEvent> &events)
      : program_(program), events_(events), start_(monotonicNanoseconds()) {}

  void before(size_t command, const abi::SegmentRun &run) override {
    before_ = microseconds(monotonicNanoseconds());
  }
  void after(size_t index, const abi::SegmentRun &run) override;
  /// Adds a trace event for every transfer of a completed run.
  void addTransfers(const TimedTransfers &transfers);

private:
  double microseconds(int64_t time) const {
    return double(time - start_) * 1e-3;
  }
  /// Returns true if the memory of a slot is in use at a command. If the slot
  /// is a ring of several instances, all of them count as in use during all
  /// micro-batches.
  bool isOccupied(const Slot &slot, size_t command) const {
    return slot.ring > 0 ? program_.microbatches.contains(int64_t(command))
                         : program_.lifetimeOf(slot).contains(int64_t(command));
  }

  const Program &program_;
  std::vector<TraceEvent> &events_;
  int64_t start_;
  double before_ = 0;
};

} // namespace

void TraceObserver::after(size_t index, const abi::SegmentRun &run) {
  const Command &command = program_.commands[index];
  TraceEvent event;
  event.name = command.name;
  event.category = commandKindName(command);
  event.startUs = before_;
  event.durationUs = microseconds(monotonicNanoseconds()) - before_;
  event.flops = command.flops;
  event.bytes = command.bytes;
  for (const Slot &slot : program_.slots) {
    if (slot.arena != ArenaKind::Device || !isOccupied(slot, index))
      continue;
    int64_t bytes =
        slot.ring > 0 ? slot.bytes * program_.microbatches.slots : slot.bytes;
    const char *name = slotClassName(slot.slotClass);
    auto entry = std::find_if(event.liveBytes.begin(), event.liveBytes.end(),
                              [&](auto &pair) { return pair.first == name; });
    if (entry == event.liveBytes.end())
      event.liveBytes.emplace_back(name, bytes);
    else
      entry->second += bytes;
  }
  events_.push_back(std::move(event));
}

static TraceEvent::Track trackOf(TransferKind kind) {
  switch (kind) {
  case TransferKind::CopyOut:
    return TraceEvent::Track::CopiesOut;
  case TransferKind::CopyIn:
    return TraceEvent::Track::CopiesIn;
  case TransferKind::Collective:
    break;
  }
  return TraceEvent::Track::Sums;
}

void TraceObserver::addTransfers(const TimedTransfers &transfers) {
  for (const TimedTransfers::Entry &entry : transfers.entries()) {
    const Command &command = program_.commands[entry.command];
    TraceEvent event;
    event.name = command.name;
    event.category = entry.kind == TransferKind::Collective
                         ? nameOf(command.collective)
                         : "copy";
    event.track = trackOf(entry.kind);
    event.startUs = microseconds(entry.timing.begin);
    event.durationUs = microseconds(entry.timing.end) - event.startUs;
    event.bytes = command.size;
    events_.push_back(std::move(event));
  }
}

Status CommandEngine::join(World &world) {
  if (world.size() == 1)
    return Status();
  if (Status status = joinWorld(file_, world); !status.ok())
    return status;
  world_ = &world;
  Result<RankProcessors> processors = shareProcessors(world);
  if (!processors.ok())
    return processors.status();
  processors_ = *processors;
  if (std::optional<cpu_set_t> places = processorsOfPlaces())
    world.restrictTo(*places);
  return Status();
}

/// Returns true if a program has commands of this kind.
static bool hasCommand(const Program &program, Command::Kind kind) {
  return std::any_of(
      program.commands.begin(), program.commands.end(),
      [=](const Command &command) { return command.kind == kind; });
}

/// Reserves the scratch memory of collectives, and creates the object that
/// executes the transfers if a program has any.
Status CommandEngine::startTransfers() {
  int64_t tokens = 0;
  bool hasCopies = false;
  for (const Program &program : file_.programs) {
    tokens = std::max(tokens, program.tokens);
    hasCopies |= hasCommand(program, Command::Kind::CopyStart);
  }
  copyCounts_.resize(file_.programs.size());
  sumCounts_.resize(file_.programs.size());
  if (world_)
    reserveCollectives(file_, *world_);
  if (tokens == 0)
    return Status();
  if (stressSeed_) {
    stressTransfers_.emplace(*stressSeed_, tokens, world_);
    return Status();
  }
  transferEngine_ = std::make_unique<TransferEngine>(file_.description.link,
                                                     tokens, hasCopies, world_);
  return transferEngine_->status();
}

Status CommandEngine::start(int threads) {
  const Description &description = file_.description;
  Status status = checkCpuFeatures(description.target, readCpuInfo());
  if (!status.ok())
    return status;
  if (!world_)
    selectCommands(file_, 0);
  if (threads == 0)
    threads = std::min(description.build.maxThreads,
                       world_ ? processors_.share : availableProcessors());
  status = arenas_.of(ArenaKind::Device).map(file_.arenaBytes);
  if (status.ok() && file_.hostArenaBytes > 0)
    status = arenas_.of(ArenaKind::Host).map(file_.hostArenaBytes);
  if (!status.ok())
    return status;
  team_.emplace(threads);
  if (!team_->status().ok())
    return team_->status();
  prepareBlas(*team_);
  tables_.reserve(file_.programs.size());
  for (const Program &program : file_.programs)
    tables_.emplace_back(program, arenas_, *team_, kernels_,
                         file_.description.mesh, world_ ? world_->rank() : 0);
  return startTransfers();
}

Status CommandEngine::run(size_t program) {
  DenormalsFlushed flushed;
  tables_[program].run(nullptr, transfers());
  countTransfers(program);
  return Status();
}

Status CommandEngine::runInOrder(size_t program, CommandObserver *observer,
                                 SerialTransfers::When when) {
  DenormalsFlushed flushed;
  SerialTransfers transfers(when, world_);
  tables_[program].run(observer, &transfers);
  return Status();
}

Transfers *CommandEngine::transfers() {
  return stressTransfers_ ? static_cast<Transfers *>(&*stressTransfers_)
                          : transferEngine_.get();
}

void CommandEngine::countTransfers(size_t index) {
  const Program &program = file_.programs[index];
  if (program.tokens == 0)
    return;
  if (hasCommand(program, Command::Kind::CopyStart))
    copyCounts_[index] = transfers()->counts();
  if (file_.description.programs[index].communicates)
    sumCounts_[index] = transfers()->sums();
}

Status CommandEngine::runTraced(size_t program,
                                std::vector<TraceEvent> &events) {
  DenormalsFlushed flushed;
  TraceObserver observer(file_.programs[program], events);
  if (transferEngine_) {
    TimedTransfers timed(*transferEngine_);
    tables_[program].run(&observer, &timed);
    observer.addTransfers(timed);
  } else {
    tables_[program].run(&observer, transfers());
  }
  countTransfers(program);
  return Status();
}

MemoryFacts CommandEngine::memory() const {
  MemoryFacts facts;
  facts.arenaBytes = file_.arenaBytes;
  facts.hostArenaBytes = file_.hostArenaBytes;
  facts.touchedArenaBytes = arenas_.of(ArenaKind::Device).residentBytes() +
                            arenas_.of(ArenaKind::Host).residentBytes();
  facts.commScratchBytes = world_ ? world_->scratchBytes() : 0;
  facts.libraryBytes =
      residentMappedBytes({arenas_.of(ArenaKind::Device).data(),
                           arenas_.of(ArenaKind::Host).data()});
  return facts;
}

Status CommandEngine::checkPlan(const std::function<Status(size_t)> &prepare,
                                std::vector<MemoryCheckLine> &lines) {
  PlanCheck check(file_, arenas_, *this, prepare, lines);
  return check.run();
}

Result<std::unique_ptr<Engine>> createCommandEngine(std::string_view json,
                                                    const void *const *kernels,
                                                    uint64_t kernelCount) {
  Result<ProgramFile> file = parseProgramFile(json, int64_t(kernelCount));
  if (!file.ok())
    return file.status();
  if (file->description.target.kind != TargetKind::Cpu)
    return Status::error("the program description is for a GPU, but this "
                         "executable was linked for the CPU");
  if (Status status = requireKnownAxes(file->description); !status.ok())
    return status;
  // The parsed JSON, which has already been freed, needed many times the memory
  // of its text. Return this memory to the system.
  malloc_trim(0);
  std::unique_ptr<Engine> engine =
      std::make_unique<CommandEngine>(std::move(*file), kernels);
  return Result<std::unique_ptr<Engine>>(std::move(engine));
}

} // namespace kiln::runtime
