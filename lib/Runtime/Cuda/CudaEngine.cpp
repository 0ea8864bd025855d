//===- CudaEngine.cpp - Engine of an executable for a GPU -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Cuda/CudaEngine.h"

#include "ActionTimer.h"
#include "CpuFeatures.h"
#include "CudaProgram.h"
#include "Images.h"
#include "OpTrace.h"
#include "StreamOrder.h"
#include "WatchedRun.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Runtime/Files/Messages.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <sched.h>

using namespace kiln;
using namespace kiln::cuda;

/// By which the driver gives out memory.
static constexpr int64_t allocationGranularity = int64_t(2) << 20;

/// Runs of --check-memory, of which the first ones may still allocate.
static constexpr int64_t checkedRuns = 20, firstRuns = 2;

namespace {

class CudaEngine final : public Engine, private ProgramRunner {
public:
  CudaEngine(ProgramFile file, const void *const *kernels,
             const GpuImages &images, Libraries libraries,
             std::string algorithmFile)
      : file_(std::move(file)), images_(images),
        libraries_(std::move(libraries)),
        algorithmFile_(std::move(algorithmFile)) {
    resources_.kernels = kernels;
  }
  ~CudaEngine() override;

  const Description &description() const override { return file_.description; }
  Status syncOps() override {
    syncOps_ = true;
    return Status();
  }
  Status keepAlgorithms(const std::string &path) override {
    algorithmFile_ = path;
    return Status();
  }
  Status start(int threads) override;
  int threads() const override { return team_ ? team_->size() : 0; }
  std::optional<std::string> notice() const override { return notice_; }
  std::string libraryName() const override;

  char *stateData(size_t state) override {
    const Place &place = file_.statePlaces[state];
    return place.arena == ArenaKind::Host ? resources_.hostArena + place.offset
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
    team_->forEachPart(
        count, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  }
  MemoryFacts memory() const override;
  std::optional<CopyCounts> copies(size_t program) const override;
  Status checkPlan(const std::function<Status(size_t)> &prepare,
                   std::vector<MemoryCheckLine> &lines) override;
  Status traceOps(const std::function<Status(size_t)> &prepare,
                  const std::string &path) override;

private:
  /// What a part of the start took of the device's memory.
  struct MemoryUse {
    const char *what;
    int64_t bytes;
  };

  Status openDevice();
  Status takeMemory();
  Status checkFreeMemory(const Gpu::Memory &memory) const;
  Status makeStreams();
  Status findFunctions();
  Status preparePrograms();
  Status beginSearch();
  void endSearch();
  Status openAttention();
  void note(const std::string &text);
  /// Adds what the free memory has fallen by since the last call.
  Status countMemory(const char *what);
  Status checkMemoryOfRuns(size_t program,
                           const std::function<Status(size_t)> &prepare,
                           std::vector<MemoryCheckLine> &lines);
  Status accessDevice(int64_t offset, int64_t bytes, HostAccess access,
                      const std::function<Status(char *)> &body);
  Status runOnce(size_t program);
  /// Memory of the host for copies of the arenas; only what is copied is taken.
  Result<const Arenas *> hostCopies();
  Status runInOrder(size_t program, CommandObserver *observer,
                    SerialCopier::When copies) override;
  Status inProgram(const Status &status, size_t program,
                   const char *advice = "") const;

  ProgramFile file_;
  GpuImages images_;
  Libraries libraries_;
  std::string algorithmFile_; ///< Empty: the library chooses.
  std::optional<std::string> notice_;
  bool syncOps_ = false;
  std::optional<ThreadTeam> team_;
  // Given back from the last one to the first one.
  std::optional<Driver> driver_;
  std::optional<Gpu> gpu_;
  LoadedModule module_;
  std::optional<Products> products_;
  std::optional<AlgorithmSearch> search_; ///< While the engine starts.
  std::optional<AttentionLibrary> attention_;
  DeviceMemory arena_;
  PinnedMemory hostArena_, staging_;
  CudaResources resources_;
  std::vector<CudaProgram> programs_;
  std::unique_ptr<Arenas> copies_;
  int64_t freeBytes_ = 0;
  std::vector<MemoryUse> memoryUses_;
};

/// Waits for every action.
class SyncedActions final : public ActionObserver {
public:
  SyncedActions(const CudaProgram &program, const CudaResources &resources)
      : program_(program), resources_(resources) {}
  Status after(std::size_t action) override {
    const Driver &driver = resources_.gpu->driver();
    return driver.call(
        driver.api().cuStreamSynchronize,
        resources_.stream(program_.streams().actions[action].stream));
  }

private:
  const CudaProgram &program_;
  const CudaResources &resources_;
};

} // namespace

CudaEngine::~CudaEngine() {
  // Nothing that is still under way may lose its memory.
  if (gpu_)
    (void)driver_->api().cuCtxSynchronize.function();
}

std::string CudaEngine::libraryName() const {
  if (!gpu_)
    return "";
  std::string name = products_ ? products_->name() : "";
  if (products_ && !algorithmFile_.empty())
    name += " (algorithms " + products_->hash() + ")";
  if (std::string attention = attention_ ? attention_->name() : "";
      !attention.empty())
    name += (name.empty() ? "" : ", ") + attention;
  return name + (name.empty() ? "" : " on ") + gpu_->name();
}

//===----------------------------------------------------------------------===//
// Start
//===----------------------------------------------------------------------===//

static int availableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return std::max(CPU_COUNT(&set), 1);
}

Status CudaEngine::countMemory(const char *what) {
  Result<Gpu::Memory> memory = gpu_->memory();
  if (!memory.ok())
    return memory.status();
  memoryUses_.push_back({what, freeBytes_ - memory->free});
  freeBytes_ = memory->free;
  return Status();
}

/// The device with the kernels and the library, which take memory too.
Status CudaEngine::openDevice() {
  Result<Driver> driver = Driver::open(libraries_.driver);
  if (!driver.ok())
    return driver.status();
  driver_.emplace(std::move(*driver));
  Result<Gpu> gpu = Gpu::open(*driver_);
  if (!gpu.ok())
    return gpu.status();
  gpu_.emplace(std::move(*gpu));
  resources_.gpu = &*gpu_;
  Result<Gpu::Memory> memory = gpu_->memory();
  if (!memory.ok())
    return memory.status();
  memoryUses_.push_back(
      {"context, and other programs", memory->total - memory->free});
  freeBytes_ = memory->free;

  Result<LoadedModule> module = loadImage(*gpu_, images_);
  if (!module.ok())
    return module.status();
  module_ = std::move(*module);
  Status status = countMemory("kernels");
  bool usesProducts = std::any_of(
      programs_.begin(), programs_.end(),
      [](const CudaProgram &program) { return program.usesProducts(); });
  if (!status.ok() || !usesProducts)
    return status;
  Result<Products> products = Products::open(libraries_.products);
  if (!products.ok())
    return products.status();
  products_.emplace(std::move(*products));
  resources_.products = &*products_;
  return countMemory("handle of cuBLASLt");
}

static int64_t roundedUp(int64_t bytes) {
  return (bytes + allocationGranularity - 1) / allocationGranularity *
         allocationGranularity;
}

Status CudaEngine::checkFreeMemory(const Gpu::Memory &memory) const {
  int64_t needed = roundedUp(file_.arenaBytes);
  if (needed <= memory.free)
    return Status();
  return Status(
      ExitCode::OverBudget,
      "the plan needs " + std::to_string(needed) + " bytes of GPU memory (" +
          std::to_string(file_.arenaBytes) + " for the arena), but only " +
          std::to_string(memory.free) + " of " + std::to_string(memory.total) +
          " are free on " + inQuotes(gpu_->name()) +
          "; end other programs that use the GPU, or compile with a "
          "smaller --batch, more --microbatches, or "
          "--memory-budget=" +
          std::to_string(memory.free));
}

Status CudaEngine::takeMemory() {
  Result<Gpu::Memory> memory = gpu_->memory();
  if (!memory.ok())
    return memory.status();
  Status status = checkFreeMemory(*memory);
  if (!status.ok())
    return status;
  Result<DeviceMemory> arena = gpu_->allocate(file_.arenaBytes, "the arena");
  if (!arena.ok())
    return arena.status();
  arena_ = std::move(*arena);
  resources_.arena = arena_.get();
  status = countMemory("arena");
  if (status.ok() && file_.hostArenaBytes > 0) {
    Result<PinnedMemory> host =
        gpu_->allocatePinned(file_.hostArenaBytes, "the host arena");
    if (!host.ok())
      return host.status();
    hostArena_ = std::move(*host);
    resources_.hostArena = static_cast<char *>(hostArena_.get());
  }
  return status;
}

Status CudaEngine::makeStreams() {
  const Driver &driver = *driver_;
  std::size_t events = 0;
  for (const CudaProgram &program : programs_)
    events = std::max(events, program.events());
  for (std::size_t i = 0; i < streamCount; ++i) {
    bool used = Stream(i) == Stream::Compute ||
                std::any_of(programs_.begin(), programs_.end(),
                            [&](const CudaProgram &program) {
                              return program.uses(Stream(i));
                            });
    if (!used)
      continue;
    StreamHandle handle = nullptr;
    Status status =
        driver.call(driver.api().cuStreamCreate, &handle, streamNonBlocking);
    if (!status.ok())
      return status;
    resources_.streams[i] = {handle, driver.api().cuStreamDestroy_v2};
  }
  for (std::size_t i = 0; i < events; ++i) {
    EventHandle handle = nullptr;
    Status status =
        driver.call(driver.api().cuEventCreate, &handle, eventDisableTiming);
    if (!status.ok())
      return status;
    resources_.events.emplace_back(handle, driver.api().cuEventDestroy_v2);
  }
  return Status();
}

/// The kernels that are launched on the device, by their names in the table.
Status CudaEngine::findFunctions() {
  for (const Program &program : file_.programs) {
    for (const Command &command : program.commands) {
      if (!isDeviceLaunch(command))
        continue;
      auto index = std::size_t(command.kernel);
      resources_.functions.resize(
          std::max(resources_.functions.size(), index + 1));
      Function &function = resources_.functions[index];
      if (function)
        continue;
      auto name = static_cast<const char *>(resources_.kernels[index]);
      Status status = driver_->call(driver_->api().cuModuleGetFunction,
                                    &function, module_.get(), name);
      if (!status.ok())
        return Status(status.code(),
                      "kernel " + inQuotes(name) + " of launch " +
                          inQuotes(command.name) + ": " + status.message());
    }
  }
  return Status();
}

Status CudaEngine::preparePrograms() {
  int64_t bytes = 0;
  for (const CudaProgram &program : programs_)
    bytes += program.stagingBytes();
  Result<PinnedMemory> staging =
      gpu_->allocatePinned(bytes, "inputs and outputs");
  if (!staging.ok())
    return staging.status();
  staging_ = std::move(*staging);
  auto place = static_cast<char *>(staging_.get());
  for (CudaProgram &program : programs_) {
    Status status = program.prepare(resources_, place);
    if (!status.ok())
      return status;
    place += program.stagingBytes();
  }
  return Status();
}

Status CudaEngine::beginSearch() {
  if (algorithmFile_.empty() || !products_)
    return Status();
  Result<AlgorithmFile> file = AlgorithmFile::open(
      algorithmFile_,
      gpu_->name() + ", CUDA " + driver_->version() + ", " + products_->name());
  if (!file.ok())
    return file.status();
  Result<AlgorithmSearch> search = AlgorithmSearch::begin(
      *driver_, resources_.stream(Stream::Compute), std::move(*file));
  if (!search.ok())
    return search.status();
  search_.emplace(std::move(*search));
  resources_.search = &*search_;
  return Status();
}

void CudaEngine::endSearch() {
  if (!search_)
    return;
  Status status = search_->save();
  if (!status.ok())
    note("the fastest algorithms of matrix products are not kept, so that "
         "every start searches for them: " +
         status.message());
  resources_.search = nullptr;
  search_.reset();
}

/// All that is said at the start is one line.
void CudaEngine::note(const std::string &text) {
  notice_ = notice_ ? *notice_ + "; " + text : text;
}

Status CudaEngine::openAttention() {
  bool isAsked = std::any_of(
      programs_.begin(), programs_.end(),
      [](const CudaProgram &program) { return program.mayUseAttention(); });
  if (!isAsked)
    return Status();
  attention_.emplace(*driver_, libraries_.attention,
                     resources_.stream(Stream::Compute));
  resources_.attention = &*attention_;
  return countMemory("handle of cuDNN");
}

Status CudaEngine::start(int threads) {
  const Description &description = file_.description;
  Status status = checkCpuFeatures(description.target, readCpuInfo());
  if (!status.ok())
    return status;
  programs_.reserve(file_.programs.size());
  for (std::size_t i = 0; i < file_.programs.size(); ++i)
    programs_.emplace_back(file_, i);
  status = openDevice();
  if (status.ok())
    status = takeMemory();
  if (status.ok())
    status = makeStreams();
  if (status.ok())
    status = findFunctions();
  if (!status.ok())
    return status;
  if (threads == 0)
    threads = std::min(description.build.maxThreads, availableProcessors());
  team_.emplace(threads);
  resources_.team = &*team_;
  status = openAttention();
  if (status.ok())
    status = beginSearch();
  if (status.ok())
    status = preparePrograms();
  if (!status.ok())
    return status;
  endSearch();
  if (std::optional<std::string> text =
          attention_ ? attention_->notice() : std::nullopt)
    note(*text);
  return countMemory("streams, and choices of the libraries");
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

/// One by one, as a graph, or the first time one by one and then recorded.
Status CudaEngine::runOnce(size_t index) {
  CudaProgram &program = programs_[index];
  if (program.isCaptured())
    return inProgram(program.launchGraph(), index);
  SyncedActions synced(program, resources_);
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
                   asGraph ? ", whose commands ran as one graph: run again "
                             "with --sync-ops to learn which one it was"
                           : "");
}

Status CudaEngine::runTraced(size_t index, std::vector<TraceEvent> &events) {
  CudaProgram &program = programs_[index];
  ActionTimer timer(program, resources_);
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
                  "cannot take " + std::to_string(bytes) +
                      " bytes of host memory for the copy of a tensor of the "
                      "GPU; free some memory");
  DevicePointer place = arena_.get() + DevicePointer(offset);
  // On the stream of the kernels: copies on another one could be overtaken.
  StreamHandle stream = resources_.stream(Stream::Compute);
  const DriverApi &api = driver_->api();
  auto finish = [&](const Status &queued) {
    return queued.ok() ? driver_->call(api.cuStreamSynchronize, stream)
                       : queued;
  };
  Status status;
  if (access != HostAccess::Write && size > 0)
    status = finish(driver_->call(api.cuMemcpyDtoHAsync_v2,
                                  static_cast<void *>(copy.get()), place, size,
                                  stream));
  if (status.ok())
    status = body(copy.get());
  if (status.ok() && access != HostAccess::Read && size > 0)
    status = finish(driver_->call(api.cuMemcpyHtoDAsync_v2, place,
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
// Watched runs
//===----------------------------------------------------------------------===//

Result<const Arenas *> CudaEngine::hostCopies() {
  if (!copies_) {
    auto arenas = std::make_unique<Arenas>();
    Status status = arenas->device.map(file_.arenaBytes);
    if (status.ok() && file_.hostArenaBytes > 0)
      status = arenas->host.map(file_.hostArenaBytes);
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

/// Every action ends before the next begins, copies at their starts as well.
Status CudaEngine::runInOrder(size_t index, CommandObserver *observer,
                              SerialCopier::When) {
  const CudaProgram &program = programs_[index];
  assert(observer && copies_ && "runs are in order only to be watched");
  observer->begin();
  WatchedRun watched(program, resources_, *copies_, *observer);
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
  // A trace begins with the arenas, inputs in their places.
  auto prepareCopies = [&](size_t program) {
    Status status = prepare(program);
    if (status.ok())
      status = programs_[program].copyInputs();
    if (status.ok())
      status = copyToHost(resources_, **arenas, {0}, file_.arenaBytes);
    if (status.ok())
      status = copyToHost(resources_, **arenas, {0, ArenaKind::Host},
                          file_.hostArenaBytes);
    return status;
  };
  return kiln::traceOps(file_, **arenas, *this, prepareCopies, path);
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

MemoryFacts CudaEngine::memory() const {
  MemoryFacts facts;
  facts.arenaBytes = file_.arenaBytes;
  facts.hostArenaBytes = file_.hostArenaBytes;
  if (arena_)
    facts.touchedArenaBytes = file_.arenaBytes + file_.hostArenaBytes;
  return facts;
}

/// Every run copies the same.
std::optional<CopyCounts> CudaEngine::copies(size_t index) const {
  if (programs_.empty() || file_.programs[index].copies == 0)
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

/// The first runs load kernels and make the graph; later ones take nothing.
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
    Result<Gpu::Memory> memory = gpu_->memory();
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
  Status status = countMemory("graphs, and kernels at their first launch");
  if (!status.ok())
    return status;
  for (const MemoryUse &use : memoryUses_) {
    bool isArena = use.what == std::string_view("arena");
    int64_t expected = roundedUp(file_.arenaBytes);
    // A little may fit into what the driver already had.
    bool ok = use.bytes == expected ||
              (use.bytes == 0 && expected == allocationGranularity);
    lines.push_back(
        {"free memory of the GPU taken by: " + std::string(use.what),
         isArena ? std::to_string(expected) : "", std::to_string(use.bytes),
         !isArena || ok});
  }
  return Status();
}

Result<std::unique_ptr<Engine>>
kiln::cuda::createCudaEngine(std::string_view json, const void *const *kernels,
                             uint64_t kernelCount, const GpuImages &images,
                             const Libraries &libraries,
                             const std::string &algorithmFile) {
  Result<ProgramFile> file = parseProgramFile(json, int64_t(kernelCount));
  if (!file.ok())
    return file.status();
  if (file->description.target.kind != TargetKind::Cuda)
    return Status::error("the program description is not for a GPU, but this "
                         "executable was linked for one");
  std::unique_ptr<Engine> engine = std::make_unique<CudaEngine>(
      std::move(*file), kernels, images, libraries, algorithmFile);
  return Result<std::unique_ptr<Engine>>(std::move(engine));
}
