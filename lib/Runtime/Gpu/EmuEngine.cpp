//===- EmuEngine.cpp - Execution engine for target cuda-emu ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Gpu/EmuEngine.h"

#include "Arena.h"
#include "Collectives.h"
#include "CommandObserver.h"
#include "CommandWalk.h"
#include "CpuFeatures.h"
#include "EmuExecutor.h"
#include "EmuRandom.h"
#include "FirstTouches.h"
#include "Gemm.h"
#include "OpRepeat.h"
#include "OpTrace.h"
#include "PlanCheck.h"
#include "Roles.h"
#include "StreamOrder.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cassert>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

class EmuEngine final : public Engine, private ProgramRunner {
public:
  EmuEngine(ProgramFile file, const void *const *kernels)
      : file_(std::move(file)), kernels_(kernels) {}

  const Description &description() const override { return file_.description; }
  Status shuffle(uint64_t seed) override {
    seed_ = seed;
    return Status();
  }
  Status join(World &world) override;
  Status start(int threads) override;
  int threads() const override { return team_ ? team_->size() : 0; }
  std::optional<std::string> notice() const override {
    return blasNotice(file_.description.target.blas);
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
  std::optional<CopyCounts> copies(size_t program) const override;
  std::optional<SumCounts> sums(size_t program) const override {
    return sums_.empty() ? std::nullopt : sums_[program];
  }
  std::optional<SectorCounts> sectors(size_t program) const override {
    return sectors_.empty() ? std::nullopt : sectors_[program];
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
  Status mapArenas();
  Status addPrograms();
  Status runInOrder(size_t program, CommandObserver *observer,
                    SerialTransfers::When when) override;

  ProgramFile file_;
  const void *const *kernels_;
  uint64_t seed_ = 0;
  uint64_t runs_ = 0;
  World *world_ = nullptr; ///< Null if there is one rank.
  Arenas arenas_;
  std::optional<ThreadTeam> team_;
  std::optional<EmuDevice> device_;
  std::optional<EmuExecutor> executor_;
  // The following vectors are indexed like Description::programs.
  std::vector<EmuProgram> programs_;
  /// The memory traffic of the last run of each program.
  std::vector<std::optional<SectorCounts>> sectors_;
  /// For the last run of each program, the bytes sent to other ranks and the
  /// time that collectives took.
  std::vector<std::optional<SumCounts>> sums_;
};

/// The actions of a run that have not been executed yet, in one queue per
/// stream.
class StreamQueues {
public:
  explicit StreamQueues(const StreamProgram &streams)
      : streams_(streams), recorded_(std::size_t(streams.events)) {
    for (std::size_t i = 0; i < streams.actions.size(); ++i)
      queues_[std::size_t(streams.actions[i].stream)].push_back(i);
  }

  /// Returns the actions that can be executed next. Such an action is the first
  /// in the queue of its stream, and all events that it waits for have been
  /// recorded.
  const std::vector<std::size_t> &ready();
  /// Removes an executed action from its queue and records its event.
  void finish(std::size_t action);

private:
  const StreamProgram &streams_;
  std::vector<bool> recorded_; ///< Indexed by event.
  std::array<std::vector<std::size_t>, streamCount> queues_;
  std::array<std::size_t, streamCount> heads_ = {};
  std::vector<std::size_t> ready_;
};

/// Runs the commands of a program in the order of the description. `when`
/// selects whether a transfer is executed when the program starts it, or when
/// the program waits for it.
class OrderedRun {
public:
  OrderedRun(const EmuProgram &program, EmuExecutor &executor,
             CommandObserver *observer, SerialTransfers::When when)
      : program_(program), executor_(executor), observer_(observer),
        when_(when) {}
  Status run();

private:
  Status visit(std::size_t command, const abi::SegmentRun &run);
  Status finishTransfer(int64_t token);

  const EmuProgram &program_;
  EmuExecutor &executor_;
  CommandObserver *observer_;
  SerialTransfers::When when_;
  std::size_t next_ = 0; ///< Index of the next action.
  /// Indices, in StreamProgram::actions, of the transfers that have been
  /// started but not executed.
  std::vector<std::size_t> pending_;
};

} // namespace

const std::vector<std::size_t> &StreamQueues::ready() {
  ready_.clear();
  for (std::size_t i = 0; i < streamCount; ++i) {
    if (heads_[i] == queues_[i].size())
      continue;
    std::size_t head = queues_[i][heads_[i]];
    const std::vector<int64_t> &waits = streams_.actions[head].waits;
    if (std::all_of(waits.begin(), waits.end(), [&](int64_t event) {
          return recorded_[std::size_t(event)];
        }))
      ready_.push_back(head);
  }
  return ready_;
}

void StreamQueues::finish(std::size_t index) {
  const StreamAction &action = streams_.actions[index];
  ++heads_[std::size_t(action.stream)];
  if (action.event >= 0)
    recorded_[std::size_t(action.event)] = true;
}

Status OrderedRun::finishTransfer(int64_t token) {
  const std::vector<StreamAction> &actions = program_.streams.actions;
  const std::vector<Command> &commands = program_.program.commands;
  auto awaited =
      std::find_if(pending_.begin(), pending_.end(), [&](std::size_t action) {
        return commands[actions[action].command].token.at(
                   actions[action].run) == token;
      });
  if (awaited == pending_.end())
    return Status();
  // Before the awaited transfer, execute all earlier transfers of the same
  // stream.
  std::vector<std::size_t> rest;
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    if (it > awaited || actions[*it].stream != actions[*awaited].stream) {
      rest.push_back(*it);
      continue;
    }
    Status status = executor_.execute(program_, *it);
    if (!status.ok())
      return status;
  }
  pending_ = std::move(rest);
  return Status();
}

Status OrderedRun::visit(std::size_t index, const abi::SegmentRun &run) {
  const Command &command = program_.program.commands[index];
  if (waitsForTransfer(command))
    return finishTransfer(command.token.at(run));
  std::size_t action = next_++;
  assert(program_.streams.actions[action].command == index &&
         "actions are in the order of the commands");
  if (!startsTransfer(command) || when_ == SerialTransfers::When::Start)
    return executor_.execute(program_, action);
  pending_.push_back(action);
  return Status();
}

Status OrderedRun::run() {
  if (observer_)
    observer_->begin();
  for (CommandWalk walk(program_.program); walk.next();) {
    std::size_t command = walk.command();
    if (observer_)
      observer_->before(command, walk.run());
    Status status = visit(command, walk.run());
    if (!status.ok())
      return status;
    if (observer_)
      observer_->after(command, walk.run());
  }
  return Status();
}

Status EmuEngine::mapArenas() {
  Status status = arenas_.of(ArenaKind::Device).map(file_.arenaBytes);
  if (status.ok())
    status = device_->addMemory(arenas_.of(ArenaKind::Device).data(),
                                file_.arenaBytes);
  if (status.ok() && file_.hostArenaBytes > 0) {
    status = arenas_.of(ArenaKind::Host).map(file_.hostArenaBytes);
    if (status.ok())
      status = device_->addMemory(arenas_.of(ArenaKind::Host).data(),
                                  file_.hostArenaBytes);
  }
  return status;
}

Status EmuEngine::addPrograms() {
  programs_.reserve(file_.programs.size());
  for (std::size_t i = 0; i < file_.programs.size(); ++i) {
    const Program &program = file_.programs[i];
    const ProgramInfo &info = file_.description.programs[i];
    BufferNames names(file_, program);
    StreamProgram streams = buildStreamProgram(file_, program);
    Status status = checkStreamOrder(streams, names);
    if (!status.ok())
      return Status(status.code(), "cuda-emu: program " + inQuotes(info.name) +
                                       ": " + status.message());
    auto touches = firstTouches(file_, program, streams, names);
    programs_.push_back({program, info, std::move(names), std::move(streams),
                         std::move(touches)});
  }
  sectors_.resize(programs_.size());
  sums_.resize(programs_.size());
  return Status();
}

Status EmuEngine::join(World &world) {
  if (world.size() == 1)
    return Status();
  Status status = joinWorld(file_, world);
  if (!status.ok())
    return status;
  world_ = &world;
  return Status();
}

Status EmuEngine::start(int threads) {
  const Description &description = file_.description;
  Status status = checkCpuFeatures(description.target, readCpuInfo());
  if (!status.ok())
    return status;
  // Give each rank its own seed, so that the ranks execute their actions in
  // different orders.
  if (world_)
    seed_ = splitmix64(seed_ ^ splitmix64(uint64_t(world_->rank())));
  else
    selectCommands(file_, 0);
  device_.emplace(seed_);
  status = mapArenas();
  if (status.ok())
    status = addPrograms();
  if (!status.ok())
    return status;
  // One thread is the default, because only matmuls use more than one.
  team_.emplace(threads == 0 ? 1 : threads);
  if (!team_->status().ok())
    return team_->status();
  prepareBlas(*team_);
  if (world_)
    reserveCollectives(file_, *world_);
  executor_.emplace(file_, arenas_, *device_, *team_, kernels_, world_);
  return Status();
}

Status EmuEngine::run(size_t index) {
  DenormalsFlushed flushed;
  const EmuProgram &program = programs_[index];
  emu::Random random(seed_ ^ splitmix64(runs_++));
  StreamQueues queues(program.streams);
  int64_t sentBefore = sentBytes(world_);
  Status status = executor_->begin(program);
  while (status.ok()) {
    // An action waits only for events that earlier actions record. Therefore at
    // least one action is ready until all actions have been executed.
    const std::vector<std::size_t> &ready = queues.ready();
    if (ready.empty()) {
      status = executor_->end(program);
      break;
    }
    std::size_t action = ready[random.below(ready.size())];
    status = executor_->executeGroup(program, action);
    queues.finish(action);
  }
  sectors_[index] = executor_->sectors();
  if (program.info.communicates)
    sums_[index] =
        SumCounts{sentBytes(world_) - sentBefore, executor_->waitedSeconds()};
  return status;
}

Status EmuEngine::runInOrder(size_t index, CommandObserver *observer,
                             SerialTransfers::When when) {
  DenormalsFlushed flushed;
  Status status = executor_->begin(programs_[index]);
  if (!status.ok())
    return status;
  status = OrderedRun(programs_[index], *executor_, observer, when).run();
  return status.ok() ? executor_->end(programs_[index]) : status;
}

MemoryFacts EmuEngine::memory() const {
  MemoryFacts facts;
  facts.arenaBytes = file_.arenaBytes;
  facts.hostArenaBytes = file_.hostArenaBytes;
  facts.touchedArenaBytes = arenas_.of(ArenaKind::Device).residentBytes() +
                            arenas_.of(ArenaKind::Host).residentBytes();
  facts.commScratchBytes = world_ ? world_->scratchBytes() : 0;
  return facts;
}

/// Sums the sizes of the copies in the stream program. The sums are the same
/// for every run of the program.
std::optional<CopyCounts> EmuEngine::copies(size_t index) const {
  const Program &program = file_.programs[index];
  if (programs_.empty() || program.tokens == 0)
    return std::nullopt;
  CopyCounts counts;
  for (const StreamAction &action : programs_[index].streams.actions) {
    int64_t bytes = program.commands[action.command].size;
    if (action.stream == Stream::CopyOut)
      counts.outBytes += bytes;
    else if (action.stream == Stream::CopyIn)
      counts.inBytes += bytes;
  }
  return counts;
}

Status EmuEngine::checkPlan(const std::function<Status(size_t)> &prepare,
                            std::vector<MemoryCheckLine> &lines) {
  PlanCheck check(file_, arenas_, *this, prepare, lines);
  Status status = check.run();
  if (!status.ok())
    return status;
  for (const ProgramInfo &info : file_.description.programs)
    lines.push_back({info.name + ": races, accesses out of bounds, reads of "
                                 "uninitialised bytes",
                     "none", "none", true});
  return Status();
}

Result<std::unique_ptr<Engine>> kiln::runtime::createEmuEngine(
    std::string_view json, const void *const *kernels, uint64_t kernelCount) {
  Result<ProgramFile> file = parseProgramFile(json, int64_t(kernelCount));
  if (!file.ok())
    return file.status();
  if (file->description.target.kind != TargetKind::CudaEmu)
    return Status::error("the program description is not for cuda-emu, but "
                         "this executable was linked for cuda-emu");
  if (Status status = requireKnownAxes(file->description); !status.ok())
    return status;
  std::unique_ptr<Engine> engine =
      std::make_unique<EmuEngine>(std::move(*file), kernels);
  return Result<std::unique_ptr<Engine>>(std::move(engine));
}
