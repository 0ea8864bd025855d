//===- CudaEngine.cpp - Execution engine for NVIDIA GPUs ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Cuda/CudaEngine.h"

#include "ActionTimer.h"
#include "Collectives.h"
#include "CpuFeatures.h"
#include "CudaProgram.h"
#include "CudaSetup.h"
#include "LocalRank.h"
#include "OpTrace.h"
#include "RankCollectives.h"
#include "RankProcessors.h"
#include "Roles.h"
#include "StreamOrder.h"
#include "WatchedRun.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cassert>
#include <new>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

/// --check-memory makes `checkedRuns` runs of each program. The free memory of
/// the GPU may change in runs 1 to `firstRuns`, and must not change in the
/// remaining runs.
static constexpr int64_t checkedRuns = 20, firstRuns = 2;

namespace {

class CudaEngine final : public Engine, private ProgramRunner {
public:
  CudaEngine(ProgramFile file, const void *const *kernels,
             const GpuImages &images, Libraries libraries,
             std::string algorithmFile)
      : file_(std::move(file)),
        setup_(file_, kernels, images, std::move(libraries),
               std::move(algorithmFile)) {}
  ~CudaEngine() override { setup_.waitForAll(); }

  const Description &description() const override { return file_.description; }
  Status syncOps() override {
    syncOps_ = true;
    return Status();
  }
  Status keepAlgorithms(const std::string &path) override {
    setup_.keepAlgorithms(path);
    return Status();
  }
  Status join(World &world) override;
  Status start(int threads) override;
  int threads() const override { return setup_.threads(); }
  std::optional<std::string> notice() const override { return setup_.notice(); }
  std::optional<std::string> rankNotice() const override {
    return processors_ ? processorNotice(*processors_, threads())
                       : std::nullopt;
  }
  std::string libraryName() const override { return setup_.libraryName(); }

  char *stateData(size_t state) override {
    const Place &place = file_.statePlaces[state];
    return place.arena == ArenaKind::Host ? resources().hostArena + place.offset
                                          : nullptr;
  }
  Status accessState(size_t state, HostAccess access,
                     const std::function<Status(char *)> &body) override;
  char *inputData(size_t program, size_t input) override {
    return programs_[program].inputData(input);
  }
  char *outputData(size_t program, size_t output) override {
    return programs_[program].outputData(output);
  }
  Status readGradient(size_t program, size_t output,
                      const std::function<Status(const char *)> &body) override;

  Status run(size_t program) override;
  Status runTraced(size_t program, std::vector<TraceEvent> &events) override;
  Status
  runObserved(size_t program,
              const std::function<void(const OpResult &)> &observe) override;
  const char *observedState(size_t state) override;
  const char *observedOutput(size_t program, size_t output) override;
  void forEachPart(
      int64_t count,
      const std::function<void(int64_t begin, int64_t end)> &body) override {
    resources().team->forEachPart(
        count, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  }
  MemoryFacts memory() const override;
  std::optional<CopyCounts> copies(size_t program) const override;
  std::optional<SumCounts> sums(size_t program) const override;
  Status checkPlan(const std::function<Status(size_t)> &prepare,
                   std::vector<MemoryCheckLine> &lines) override;
  Status traceOps(const std::function<Status(size_t)> &prepare,
                  const std::string &path) override;

private:
  const CudaResources &resources() const { return setup_.resources(); }
  Status checkMemoryOfRuns(size_t program,
                           const std::function<Status(size_t)> &prepare,
                           std::vector<MemoryCheckLine> &lines);
  Status accessDevice(int64_t offset, int64_t bytes, HostAccess access,
                      const std::function<Status(char *)> &body);
  Status startAlone(int threads);
  Status runOnce(size_t program);
  /// Maps host copies of the arenas on first use. Pages become resident when
  /// data is copied into them.
  Result<const Arenas *> hostCopies();
  Status runInOrder(size_t program, CommandObserver *observer,
                    SerialTransfers::When when) override;
  Status inProgram(const Status &status, size_t program,
                   const char *advice = "") const;

  ProgramFile file_;
  bool syncOps_ = false;
  World *world_ = nullptr; ///< Null if there is one rank.
  std::optional<RankProcessors> processors_;
  CudaSetup setup_;
  std::vector<CudaProgram> programs_;
  std::unique_ptr<Arenas> copies_;
};

/// After every action, waits until the stream of the action has completed its
/// work.
class SyncedActions final : public ActionObserver {
public:
  SyncedActions(const CudaProgram &program, const CudaResources &resources)
      : program_(program), resources_(resources) {}
  Status after(std::size_t action) override {
    return waitForStream(
        resources_,
        resources_.stream(program_.streams().actions[action].stream));
  }

private:
  const CudaProgram &program_;
  const CudaResources &resources_;
};

} // namespace

Status CudaEngine::join(World &world) {
  if (world.size() == 1)
    return Status();
  Status status = joinWorld(file_, world);
  if (!status.ok())
    return status;
  Result<int> localRank = findLocalRank(world);
  if (!localRank.ok())
    return localRank.status();
  Result<RankProcessors> processors = shareProcessors(world);
  if (!processors.ok())
    return processors.status();
  processors_ = *processors;
  setup_.setRank(world.rank(), *localRank, processors_->share);
  world_ = &world;
  return Status();
}

Status CudaEngine::startAlone(int threads) {
  Status status = checkCpuFeatures(file_.description.target, readCpuInfo());
  if (!status.ok())
    return status;
  if (!world_)
    selectCommands(file_, 0);
  programs_.reserve(file_.programs.size());
  for (std::size_t i = 0; i < file_.programs.size(); ++i)
    programs_.emplace_back(file_, i);
  return setup_.start(programs_, threads);
}

Status CudaEngine::start(int threads) {
  Status status = startAlone(threads);
  return world_ ? setup_.connectRanks(status, *world_) : status;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

Status CudaEngine::inProgram(const Status &status, size_t program,
                             const char *advice) const {
  if (status.ok())
    return status;
  return Status(status.code(), status.message() + "; in program " +
                                   inQuotes(programs_[program].info().name) +
                                   advice);
}

/// Launches the program's graph if it was captured. Otherwise queues the
/// actions one by one, and then captures them unless --sync-ops is set.
Status CudaEngine::runOnce(size_t index) {
  CudaProgram &program = programs_[index];
  if (program.isCaptured())
    return inProgram(program.launchGraph(), index);
  SyncedActions synced(program, resources());
  Status status = program.queue(&synced);
  if (!status.ok() || syncOps_)
    return status;
  status = inProgram(program.finish(), index);
  return status.ok() ? inProgram(program.capture(), index) : status;
}

Status CudaEngine::run(size_t index) {
  const CudaProgram &program = programs_[index];
  bool asGraph = program.isCaptured();
  Status status = inProgram(program.copyInputs(), index);
  if (status.ok())
    status = runOnce(index);
  if (status.ok())
    status = inProgram(program.copyOutputs(), index);
  if (!status.ok())
    return status;
  return inProgram(program.finish(), index,
                   asGraph ? ", whose commands ran as one graph; run again "
                             "with --sync-ops to name the command that failed"
                           : "");
}

Status CudaEngine::runTraced(size_t index, std::vector<TraceEvent> &events) {
  CudaProgram &program = programs_[index];
  ActionTimer timer(program, resources());
  Status status = program.copyInputs();
  if (status.ok())
    status = timer.start();
  if (status.ok())
    status = program.queue(&timer);
  if (status.ok())
    status = program.copyOutputs();
  if (status.ok())
    status = program.finish();
  if (status.ok())
    status = timer.addBars(events);
  return inProgram(status, index);
}

Status CudaEngine::accessDevice(int64_t offset, int64_t bytes,
                                HostAccess access,
                                const std::function<Status(char *)> &body) {
  auto size = std::size_t(bytes);
  std::unique_ptr<char[]> copy(new (std::nothrow) char[size + 1]);
  if (!copy)
    return Status(ExitCode::OverBudget,
                  "cannot allocate " + std::to_string(bytes) +
                      " bytes of host memory for the copy of a GPU tensor; "
                      "free some memory");
  DevicePointer place = resources().arena + DevicePointer(offset);
  // Copy on the compute stream, so that the copy begins after all kernels that
  // are already queued on this stream.
  StreamHandle stream = resources().stream(Stream::Compute);
  const Driver &driver = resources().gpu->driver();
  const DriverApi &api = driver.api();
  auto finish = [&](const Status &queued) {
    return queued.ok() ? driver.call(api.cuStreamSynchronize, stream) : queued;
  };
  Status status;
  if (access != HostAccess::Write && size > 0)
    status = finish(driver.call(api.cuMemcpyDtoHAsync_v2,
                                static_cast<void *>(copy.get()), place, size,
                                stream));
  if (status.ok())
    status = body(copy.get());
  if (status.ok() && access != HostAccess::Read && size > 0)
    status = finish(driver.call(api.cuMemcpyHtoDAsync_v2, place,
                                static_cast<const void *>(copy.get()), size,
                                stream));
  return status;
}

Status CudaEngine::accessState(size_t state, HostAccess access,
                               const std::function<Status(char *)> &body) {
  if (char *data = stateData(state))
    return body(data);
  return accessDevice(file_.statePlaces[state].offset,
                      file_.description.states[state].bytes(), access, body);
}

Status
CudaEngine::readGradient(size_t program, size_t output,
                         const std::function<Status(const char *)> &body) {
  return accessDevice(file_.programs[program].outputOffsets[output],
                      programs_[program].info().outputs[output].bytes(),
                      HostAccess::Read, body);
}

//===----------------------------------------------------------------------===//
// Observed runs
//===----------------------------------------------------------------------===//

Result<const Arenas *> CudaEngine::hostCopies() {
  if (!copies_) {
    auto arenas = std::make_unique<Arenas>();
    Status status = arenas->of(ArenaKind::Device).map(file_.arenaBytes);
    if (status.ok() && file_.hostArenaBytes > 0)
      status = arenas->of(ArenaKind::Host).map(file_.hostArenaBytes);
    if (!status.ok())
      return status;
    copies_ = std::move(arenas);
  }
  return static_cast<const Arenas *>(copies_.get());
}

const char *CudaEngine::observedState(size_t state) {
  Result<const Arenas *> arenas = hostCopies();
  return arenas.ok() ? (*arenas)->at(file_.statePlaces[state]) : nullptr;
}

const char *CudaEngine::observedOutput(size_t program, size_t output) {
  Result<const Arenas *> arenas = hostCopies();
  return arenas.ok()
             ? (*arenas)->at({file_.programs[program].outputOffsets[output]})
             : nullptr;
}

/// Runs a program with a WatchedRun observer. Every action, including the start
/// of an asynchronous copy, completes before the next action begins. The
/// parameter of type When, which selects when asynchronous copies are executed,
/// therefore has no effect.
Status CudaEngine::runInOrder(size_t index, CommandObserver *observer,
                              SerialTransfers::When) {
  const CudaProgram &program = programs_[index];
  assert(observer && copies_ && "runs are in order only to be watched");
  observer->begin();
  WatchedRun watched(program, resources(), *copies_, *observer);
  Status status = inProgram(program.copyInputs(), index);
  if (status.ok())
    status = program.queue(&watched);
  if (status.ok())
    status = inProgram(program.copyOutputs(), index);
  return status.ok() ? inProgram(program.finish(), index) : status;
}

Status
CudaEngine::runObserved(size_t index,
                        const std::function<void(const OpResult &)> &observe) {
  Result<const Arenas *> arenas = hostCopies();
  if (!arenas.ok())
    return arenas.status();
  return observeOps(file_, **arenas, *this, index, observe);
}

Status CudaEngine::traceOps(const std::function<Status(size_t)> &prepare,
                            const std::string &path) {
  Result<const Arenas *> arenas = hostCopies();
  if (!arenas.ok())
    return arenas.status();
  // A trace begins with the contents of the arenas, including inputs.
  auto prepareCopies = [&](size_t program) {
    Status status = prepare(program);
    if (status.ok())
      status = programs_[program].copyInputs();
    if (status.ok())
      status = copyToHost(resources(), **arenas, {0}, file_.arenaBytes);
    if (status.ok())
      status = copyToHost(resources(), **arenas, {0, ArenaKind::Host},
                          file_.hostArenaBytes);
    return status;
  };
  return kiln::runtime::traceOps(file_, **arenas, *this, prepareCopies, path);
}

//===----------------------------------------------------------------------===//
// Memory checks and counts
//===----------------------------------------------------------------------===//

MemoryFacts CudaEngine::memory() const {
  MemoryFacts facts;
  facts.arenaBytes = file_.arenaBytes;
  facts.hostArenaBytes = file_.hostArenaBytes;
  if (resources().arena)
    facts.touchedArenaBytes = file_.arenaBytes + file_.hostArenaBytes;
  return facts;
}

/// Returns the numbers of bytes that one run of a program copies to and from
/// the host arena. These numbers are the same for every run.
std::optional<CopyCounts> CudaEngine::copies(size_t index) const {
  if (programs_.empty() || file_.programs[index].tokens == 0)
    return std::nullopt;
  CopyCounts counts;
  for (const StreamAction &action : programs_[index].streams().actions) {
    int64_t bytes = file_.programs[index].commands[action.command].size;
    if (action.stream == Stream::CopyOut)
      counts.outBytes += bytes;
    else if (action.stream == Stream::CopyIn)
      counts.inBytes += bytes;
  }
  return counts;
}

/// Returns the bytes that NCCL sends if it uses rings. The time that a run
/// waits for sums is not known, because no thread of the host waits for them.
std::optional<SumCounts> CudaEngine::sums(size_t index) const {
  if (!world_ || programs_.empty() || !programs_[index].info().communicates)
    return std::nullopt;
  SumCounts counts;
  counts.sentBytes = programs_[index].sentBytes(world_->rank());
  counts.isComputed = true;
  return counts;
}

/// Checks that runs after the first ones, which load kernels and capture the
/// graph, do not change the free memory of the GPU.
Status
CudaEngine::checkMemoryOfRuns(size_t index,
                              const std::function<Status(size_t)> &prepare,
                              std::vector<MemoryCheckLine> &lines) {
  int64_t lowest = 0, highest = 0;
  for (int64_t i = 1; i <= checkedRuns; ++i) {
    Status status = prepare(index);
    if (status.ok())
      status = run(index);
    if (!status.ok())
      return status;
    Result<Gpu::Memory> memory = resources().gpu->memory();
    if (!memory.ok())
      return memory.status();
    lowest = i <= firstRuns ? memory->free : std::min(lowest, memory->free);
    highest = i <= firstRuns ? memory->free : std::max(highest, memory->free);
  }
  lines.push_back({file_.description.programs[index].name +
                       ": free memory of the GPU over runs " +
                       std::to_string(firstRuns) + " to " +
                       std::to_string(checkedRuns) + " changes by",
                   "0", std::to_string(highest - lowest), highest == lowest});
  return Status();
}

Status CudaEngine::checkPlan(const std::function<Status(size_t)> &prepare,
                             std::vector<MemoryCheckLine> &lines) {
  for (const CudaProgram &program : programs_) {
    Status order = checkStreamOrder(program.streams(), program.names());
    lines.push_back({program.info().name + ": events order all accesses", "yes",
                     order.ok() ? "yes" : order.message(), order.ok()});
  }
  for (size_t i = 0; i < programs_.size(); ++i) {
    Status status = checkMemoryOfRuns(i, prepare, lines);
    if (!status.ok())
      return status;
  }
  return setup_.checkMemory(lines);
}

Result<std::unique_ptr<Engine>> kiln::runtime::cuda::createCudaEngine(
    std::string_view json, const void *const *kernels, uint64_t kernelCount,
    const GpuImages &images, const Libraries &libraries,
    const std::string &algorithmFile) {
  Result<ProgramFile> file = parseProgramFile(json, int64_t(kernelCount));
  if (!file.ok())
    return file.status();
  if (file->description.target.kind != TargetKind::Cuda)
    return Status::error("the program description is not for a GPU, but this "
                         "executable was linked for a GPU");
  if (Status status = requireKnownAxes(file->description); !status.ok())
    return status;
  std::unique_ptr<Engine> engine = std::make_unique<CudaEngine>(
      std::move(*file), kernels, images, libraries, algorithmFile);
  return Result<std::unique_ptr<Engine>>(std::move(engine));
}
