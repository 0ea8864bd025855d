//===- CudaSetup.cpp - GPU resources of an engine -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaSetup.h"

#include "Processors.h"
#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

/// The granularity of the driver's allocations, in bytes.
static constexpr int64_t allocationGranularity = int64_t(2) << 20;

Status CudaSetup::countMemory(const char *what) {
  Result<Gpu::Memory> memory = gpu_->memory();
  if (!memory.ok())
    return memory.status();
  memoryUses_.push_back({what, freeBytes_ - memory->free});
  freeBytes_ = memory->free;
  return Status();
}

/// Opens the driver and the GPU, and loads the kernels and cuBLASLt.
Status CudaSetup::openDevice(const Programs &programs) {
  Result<Driver> driver = Driver::open(libraries_.driver);
  if (!driver.ok())
    return driver.status();
  driver_.emplace(std::move(*driver));
  Result<Gpu> gpu = Gpu::open(*driver_, localRank_);
  if (!gpu.ok())
    return gpu.status();
  gpu_.emplace(std::move(*gpu));
  resources_.gpu = &*gpu_;
  Result<Gpu::Memory> memory = gpu_->memory();
  if (!memory.ok())
    return memory.status();
  memoryUses_.push_back(
      {"context and other programs", memory->total - memory->free});
  freeBytes_ = memory->free;

  Result<LoadedModule> module = loadImage(*gpu_, images_);
  if (!module.ok())
    return module.status();
  module_ = std::move(*module);
  Status status = countMemory("kernels");
  bool usesBlasLt = std::any_of(
      programs.begin(), programs.end(),
      [](const CudaProgram &program) { return program.usesBlasLt(); });
  if (!status.ok() || !usesBlasLt)
    return status;
  Result<BlasLt> products = BlasLt::open(libraries_.products);
  if (!products.ok())
    return products.status();
  blasLt_.emplace(std::move(*products));
  resources_.products = &*blasLt_;
  return countMemory("cuBLASLt handle");
}

static int64_t roundedUp(int64_t bytes) {
  return (bytes + allocationGranularity - 1) / allocationGranularity *
         allocationGranularity;
}

Status CudaSetup::checkFreeMemory(const Gpu::Memory &memory) const {
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

Status CudaSetup::takeMemory() {
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

Status CudaSetup::makeStreams(const Programs &programs) {
  const Driver &driver = *driver_;
  std::size_t events = 0;
  for (const CudaProgram &program : programs)
    events = std::max(events, program.events());
  for (std::size_t i = 0; i < streamCount; ++i) {
    bool used = Stream(i) == Stream::Compute ||
                std::any_of(programs.begin(), programs.end(),
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

/// Looks up the device kernels by their names in the kernel table, and sets
/// their limits of dynamic shared memory.
Status CudaSetup::findFunctions() {
  // The size of dynamic shared memory in bytes, indexed by kernel.
  std::vector<int64_t> shared;
  for (const Program &program : file_.programs) {
    for (const Command &command : program.commands) {
      if (!isDeviceLaunch(command))
        continue;
      auto index = std::size_t(command.kernel);
      std::size_t count = std::max(resources_.functions.size(), index + 1);
      resources_.functions.resize(count);
      shared.resize(count);
      Function &function = resources_.functions[index];
      int64_t bytes = dynamicSharedBytes(command);
      if (function && bytes <= shared[index])
        continue;
      auto name = static_cast<const char *>(resources_.kernels[index]);
      Status status;
      if (!function)
        status = driver_->call(driver_->api().cuModuleGetFunction, &function,
                               module_.get(), name);
      if (status.ok() && bytes > 0) {
        shared[index] = bytes;
        status = driver_->call(driver_->api().cuFuncSetAttribute, function,
                               mostDynamicShared, int(bytes));
        if (!status.ok())
          status = Status(status.code(), status.message() + " (it needs " +
                                             std::to_string(bytes) +
                                             " bytes of shared memory per "
                                             "block)");
      }
      if (!status.ok())
        return Status(status.code(),
                      "kernel " + inQuotes(name) + " of launch " +
                          inQuotes(command.name) + ": " + status.message());
    }
  }
  return Status();
}

Status CudaSetup::preparePrograms(Programs &programs) {
  int64_t bytes = 0;
  for (const CudaProgram &program : programs)
    bytes += program.stagingBytes();
  Result<PinnedMemory> staging =
      gpu_->allocatePinned(bytes, "inputs and outputs");
  if (!staging.ok())
    return staging.status();
  staging_ = std::move(*staging);
  auto place = static_cast<char *>(staging_.get());
  for (CudaProgram &program : programs) {
    Status status = program.prepare(resources_, place);
    if (!status.ok())
      return status;
    place += program.stagingBytes();
  }
  return Status();
}

Status CudaSetup::beginSearch() {
  if (algorithmFile_.empty() || !blasLt_)
    return Status();
  Result<AlgorithmFile> file = AlgorithmFile::open(
      algorithmFile_,
      gpu_->name() + ", CUDA " + driver_->version() + ", " + blasLt_->name());
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

void CudaSetup::endSearch() {
  if (!search_)
    return;
  Status status = search_->save();
  if (!status.ok())
    note("the fastest matmul algorithms are not saved, so that "
         "every start searches for them again: " +
         status.message());
  resources_.search = nullptr;
  search_.reset();
}

/// Appends `text` to the notice, after "; " if the notice is not empty.
void CudaSetup::note(const std::string &text) {
  notice_ = notice_ ? *notice_ + "; " + text : text;
}

Status CudaSetup::openAttention(const Programs &programs) {
  bool isAsked = std::any_of(
      programs.begin(), programs.end(),
      [](const CudaProgram &program) { return program.mayUseAttention(); });
  if (!isAsked)
    return Status();
  attention_.emplace(*driver_, libraries_.attention,
                     resources_.stream(Stream::Compute));
  resources_.attention = &*attention_;
  return countMemory("cuDNN handle");
}

Status CudaSetup::start(Programs &programs, int threads) {
  Status status = openDevice(programs);
  if (status.ok())
    status = takeMemory();
  if (status.ok())
    status = makeStreams(programs);
  if (status.ok())
    status = findFunctions();
  if (!status.ok())
    return status;
  if (threads == 0)
    threads = std::min(file_.description.build.maxThreads,
                       mostThreads_ ? *mostThreads_ : availableProcessors());
  team_.emplace(threads);
  if (!team_->status().ok())
    return team_->status();
  resources_.team = &*team_;
  status = openAttention(programs);
  if (status.ok())
    status = beginSearch();
  if (status.ok())
    status = preparePrograms(programs);
  if (!status.ok())
    return status;
  endSearch();
  if (std::optional<std::string> text =
          attention_ ? attention_->notice() : std::nullopt)
    note(*text);
  return countMemory("streams and library algorithms");
}

/// Replaces the GEMM algorithms by those of the first rank. Each rank has timed
/// algorithms on its own GPU and may have chosen different ones, but ranks that
/// compute the same values must get the same bits.
Status CudaSetup::shareAlgorithms(World &world) {
  std::vector<Algorithm> own =
      blasLt_ ? blasLt_->algorithms() : std::vector<Algorithm>();
  Result<int64_t> isSame = world.agree("the comparison of GEMM algorithms",
                                       int64_t(own.size()), AgreeBy::Equal);
  if (!isSame.ok())
    return isSame.status();
  if (*isSame == 0)
    return Status::error("the ranks have different numbers of matmuls: start "
                         "the same executable on all ranks");
  if (own.empty())
    return Status();
  std::vector<Algorithm> all(own.size() * std::size_t(world.size()));
  Status status =
      world.gather("the exchange of GEMM algorithms", own.data(),
                   int64_t(own.size() * sizeof(Algorithm)), all.data());
  if (!status.ok())
    return status;
  all.resize(own.size());
  blasLt_->setAlgorithms(all);
  return Status();
}

Status CudaSetup::connectRanks(const Status &started, World &world) {
  std::string device;
  if (started.ok())
    device = gpu_->name() + (blasLt_ ? " with " + blasLt_->name() : "");
  Result<std::unique_ptr<RankGroups>> groups = RankGroups::connect(
      started, file_.description.mesh, world, gpu_ ? &*gpu_ : nullptr, device,
      libraries_.collectives);
  if (!groups.ok())
    return groups.status();
  groups_ = std::move(*groups);
  resources_.groups = groups_.get();
  Status status = shareAlgorithms(world);
  return status.ok() ? countMemory("NCCL communicators") : status;
}

std::string CudaSetup::libraryName() const {
  if (!gpu_)
    return "";
  std::string name = blasLt_ ? blasLt_->name() : "";
  if (blasLt_ && !algorithmFile_.empty())
    name += " (algorithms " + blasLt_->hash() + ")";
  if (std::string attention = attention_ ? attention_->name() : "";
      !attention.empty())
    name += (name.empty() ? "" : ", ") + attention;
  if (groups_)
    name += (name.empty() ? "" : ", ") + groups_->nccl().name();
  return name + (name.empty() ? "" : " on ") + gpu_->name();
}

Status CudaSetup::checkMemory(std::vector<MemoryCheckLine> &lines) {
  Status status =
      countMemory("graphs and kernels loaded at their first launch");
  if (!status.ok())
    return status;
  for (const MemoryUse &use : memoryUses_) {
    bool isArena = use.what == std::string_view("arena");
    int64_t expected = roundedUp(file_.arenaBytes);
    // The driver may allocate a small arena from memory that it has already
    // reserved. In that case the free memory does not decrease. Therefore a
    // decrease of 0 bytes is accepted for an arena of at most
    // `allocationGranularity` bytes.
    bool ok = use.bytes == expected ||
              (use.bytes == 0 && expected == allocationGranularity);
    lines.push_back(
        {"free memory of the GPU taken by: " + std::string(use.what),
         isArena ? std::to_string(expected) : "", std::to_string(use.bytes),
         !isArena || ok});
  }
  return Status();
}

void CudaSetup::waitForAll() const {
  if (gpu_)
    (void)driver_->api().cuCtxSynchronize.function();
}
