//===- Measurements.cpp - Measurement of a GPU's peak rates ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Measurements.h"

#include "AlgorithmSearch.h"
#include "BlasLt.h"
#include "GpuClock.h"
#include "kiln/Abi/GemmWorkspace.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Rng.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace kiln::abi;
using namespace kiln::runtime::cuda;
using namespace kiln::runtime::rates;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;
using Json = nlohmann::json;

/// The largest workspace that a plan assigns to a gemm.
static constexpr int64_t workspaceBytes = int64_t(32) << 20;

/// The size of the pattern of random numbers in bytes. Larger buffers repeat
/// the pattern.
static constexpr int64_t patternBytes = int64_t(16) << 20;

namespace {

class Measurements {
public:
  Measurements(const Request &request,
               const std::function<void(const Json &)> &print)
      : request_(request), print_(print) {}
  Status run();

private:
  Status open();
  Result<DeviceMemory> randomMemory(int64_t bytes, ElementType type);
  Status makePattern(ElementType type);
  Status measureCopies();
  Status measureLink();
  Status measureBothDirections(DevicePointer device, char *out, char *in);
  Status measureGemm(const MeasuredGemm &shape);
  Result<QueueStream> makeStream() const;
  void rate(const char *name, int64_t bytes, double seconds, Json more = {});
  const DriverApi &api() const { return driver_->api(); }

  const Request &request_;
  const std::function<void(const Json &)> &print_;
  std::optional<Driver> driver_;
  std::optional<Gpu> gpu_;
  QueueStream stream_, other_;
  std::optional<GpuClock> clock_;
  std::optional<BlasLt> blasLt_;
  std::optional<AlgorithmSearch> search_;
  DeviceMemory workspace_;
  PinnedMemory pattern_;
};

} // namespace

Result<QueueStream> Measurements::makeStream() const {
  StreamHandle handle = nullptr;
  Status status =
      driver_->call(api().cuStreamCreate, &handle, streamNonBlocking);
  if (!status.ok())
    return status;
  return QueueStream(handle, api().cuStreamDestroy_v2);
}

Status Measurements::open() {
  Libraries libraries;
  Result<Driver> driver = Driver::open(libraries.driver);
  if (!driver.ok())
    return driver.status();
  driver_.emplace(std::move(*driver));
  Result<Gpu> gpu = Gpu::open(*driver_);
  if (!gpu.ok())
    return gpu.status();
  gpu_.emplace(std::move(*gpu));
  for (QueueStream *stream : {&stream_, &other_}) {
    Result<QueueStream> made = makeStream();
    if (!made.ok())
      return made.status();
    *stream = std::move(*made);
  }
  Result<GpuClock> clock = GpuClock::create(*driver_, stream_.get());
  if (!clock.ok())
    return clock.status();
  clock_.emplace(std::move(*clock));
  Json device = {{"gpu", gpu_->name()},
                 {"capability", capabilityText(gpu_->architecture())},
                 {"driver", driver_->version()}};
  Result<Gpu::Memory> memory = gpu_->memory();
  if (!memory.ok())
    return memory.status();
  device["total_bytes"] = memory->total;
  device["free_bytes"] = memory->free;
  if (!request_.products.empty()) {
    Result<BlasLt> products = BlasLt::open(libraries.products);
    if (!products.ok())
      return products.status();
    blasLt_.emplace(std::move(*products));
    // Use the algorithm file that executables compiled by kilnc use by default.
    Result<AlgorithmFile> file = AlgorithmFile::open(
        defaultAlgorithmFile(),
        gpu_->name() + ", CUDA " + driver_->version() + ", " + blasLt_->name());
    if (!file.ok())
      return file.status();
    Result<AlgorithmSearch> search =
        AlgorithmSearch::begin(*driver_, stream_.get(), std::move(*file));
    if (!search.ok())
      return search.status();
    search_.emplace(std::move(*search));
    Result<DeviceMemory> workspace =
        gpu_->allocate(workspaceBytes, "the workspace of matmuls");
    if (!workspace.ok())
      return workspace.status();
    workspace_ = std::move(*workspace);
    device["library"] = blasLt_->name();
  }
  print_(device);
  return Status();
}

/// Fills `pattern_`, memory of the host from which randomMemory() copies, with
/// uniform random numbers in [-1, 1), rounded to `type`.
Status Measurements::makePattern(ElementType type) {
  if (!pattern_) {
    Result<PinnedMemory> pinned =
        gpu_->allocatePinned(patternBytes, "random numbers");
    if (!pinned.ok())
      return pinned.status();
    pattern_ = std::move(*pinned);
  }
  auto *bytes = static_cast<char *>(pattern_.get());
  int64_t width = bitsOf(type) / 8;
  for (int64_t i = 0; i < patternBytes / width; ++i) {
    float value =
        float(int64_t(splitmix64(uint64_t(i)) >> 40) - (int64_t(1) << 23)) *
        0x1p-23f;
    convertElements(ElementType::F32, &value, type, bytes + i * width, 1);
  }
  return Status();
}

Result<DeviceMemory> Measurements::randomMemory(int64_t bytes,
                                                ElementType type) {
  Result<DeviceMemory> memory = gpu_->allocate(bytes, "a measurement");
  Status status = memory.ok() ? makePattern(type) : memory.status();
  for (int64_t done = 0; done < bytes && status.ok(); done += patternBytes)
    status = driver_->call(
        api().cuMemcpyHtoDAsync_v2, memory->get() + DevicePointer(done),
        static_cast<const void *>(pattern_.get()),
        std::size_t(std::min(patternBytes, bytes - done)), stream_.get());
  if (status.ok())
    status = driver_->call(api().cuStreamSynchronize, stream_.get());
  if (!status.ok())
    return status;
  return memory;
}

void Measurements::rate(const char *name, int64_t bytes, double seconds,
                        Json more) {
  Json line = {{"rate", name},
               {"bytes", bytes},
               {"seconds", seconds},
               {"gb_per_second", double(bytes) / seconds * 1e-9}};
  if (!more.is_null())
    line.update(more);
  print_(line);
}

/// Measures device-to-device copies. The buffers are larger than the caches of
/// the device.
Status Measurements::measureCopies() {
  if (request_.copyBytes == 0)
    return Status();
  int64_t bytes = request_.copyBytes;
  Result<DeviceMemory> from = randomMemory(bytes, ElementType::F32);
  Result<DeviceMemory> to = randomMemory(bytes, ElementType::F32);
  if (!from.ok() || !to.ok())
    return from.ok() ? to.status() : from.status();
  Result<double> seconds = clock_->secondsOf(
      [&] {
        return driver_->call(api().cuMemcpyDtoDAsync_v2, to->get(), from->get(),
                             std::size_t(bytes), stream_.get());
      },
      request_.samples);
  if (!seconds.ok())
    return seconds.status();
  rate("copy", 2 * bytes, *seconds);
  seconds = clock_->secondsOf(
      [&] {
        return driver_->call(api().cuMemsetD8Async, to->get(),
                             static_cast<unsigned char>(1), std::size_t(bytes),
                             stream_.get());
      },
      request_.samples);
  if (!seconds.ok())
    return seconds.status();
  rate("fill", bytes, *seconds);
  return Status();
}

/// Measures concurrent copies in both directions on two streams with the host's
/// clock.
Status Measurements::measureBothDirections(DevicePointer device, char *out,
                                           char *in) {
  using Clock = std::chrono::steady_clock;
  auto bytes = std::size_t(request_.linkBytes);
  std::vector<double> seconds;
  for (int64_t i = 0; i <= request_.samples; ++i) {
    Clock::time_point begin = Clock::now();
    Status status =
        driver_->call(api().cuMemcpyDtoHAsync_v2, static_cast<void *>(out),
                      device, bytes, stream_.get());
    if (status.ok())
      status = driver_->call(
          api().cuMemcpyHtoDAsync_v2, device + DevicePointer(bytes),
          static_cast<const void *>(in), bytes, other_.get());
    for (StreamHandle stream : {stream_.get(), other_.get()})
      if (status.ok())
        status = driver_->call(api().cuStreamSynchronize, stream);
    if (!status.ok())
      return status;
    if (i > 0)
      seconds.push_back(
          std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  rate("link, both", 2 * request_.linkBytes, seconds[seconds.size() / 2]);
  return Status();
}

Status Measurements::measureLink() {
  if (request_.linkBytes == 0)
    return Status();
  int64_t bytes = request_.linkBytes;
  Result<DeviceMemory> device = randomMemory(2 * bytes, ElementType::F32);
  Result<PinnedMemory> host = gpu_->allocatePinned(2 * bytes, "a measurement");
  if (!device.ok() || !host.ok())
    return device.ok() ? host.status() : device.status();
  auto *out = static_cast<char *>(host->get()), *in = out + bytes;
  std::memset(in, 1, std::size_t(bytes));
  Result<double> seconds = clock_->secondsOf(
      [&] {
        return driver_->call(api().cuMemcpyDtoHAsync_v2,
                             static_cast<void *>(out), device->get(),
                             std::size_t(bytes), stream_.get());
      },
      request_.samples);
  if (!seconds.ok())
    return seconds.status();
  rate("link, out", bytes, *seconds);
  seconds = clock_->secondsOf(
      [&] {
        return driver_->call(api().cuMemcpyHtoDAsync_v2, device->get(),
                             static_cast<const void *>(in), std::size_t(bytes),
                             stream_.get());
      },
      request_.samples);
  if (!seconds.ok())
    return seconds.status();
  rate("link, in", bytes, *seconds);
  return measureBothDirections(device->get(), out, in);
}

Status Measurements::measureGemm(const MeasuredGemm &shape) {
  int64_t width = bitsOf(shape.type) / 8;
  Command command;
  command.kind = Command::Kind::Gemm;
  command.type = command.resultType = shape.type;
  command.workspace.bytes = gemmWorkspaceBytes(
      {shape.m, shape.n, shape.k, /*batch=*/1, /*gridM=*/1, /*gridN=*/1});
  command.m = shape.m;
  command.n = shape.n;
  command.k = shape.k;
  command.a.trans = shape.transA;
  command.a.ld = shape.transA ? shape.m : shape.k;
  command.b.trans = shape.transB;
  command.b.ld = shape.transB ? shape.k : shape.n;
  command.c.ld = shape.n;
  Result<DeviceMemory> a = randomMemory(shape.m * shape.k * width, shape.type);
  Result<DeviceMemory> b = randomMemory(shape.k * shape.n * width, shape.type);
  Result<DeviceMemory> c = randomMemory(shape.m * shape.n * width, shape.type);
  for (const Result<DeviceMemory> *memory : {&a, &b, &c})
    if (!memory->ok())
      return memory->status();
  MatmulPlaces places = {a->get(), b->get(), c->get(), workspace_.get()};
  Result<std::size_t> choice =
      blasLt_->choose(command, places, &*search_, stream_.get());
  if (!choice.ok())
    return choice.status();
  Result<double> seconds = clock_->secondsOf(
      [&] {
        return blasLt_->run(*choice, places, /*accumulate=*/false,
                            stream_.get());
      },
      request_.samples);
  if (!seconds.ok())
    return seconds.status();
  double flops = 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  print_({{"rate", "product"},
          {"product", shape.text},
          {"seconds", *seconds},
          {"tflop_per_second", flops / *seconds * 1e-12}});
  return Status();
}

Status Measurements::run() {
  Status status = open();
  if (status.ok())
    status = measureCopies();
  if (status.ok())
    status = measureLink();
  for (const MeasuredGemm &shape : request_.products)
    if (status.ok())
      status = measureGemm(shape);
  // If the algorithms cannot be saved, the next run searches again.
  if (status.ok() && search_)
    (void)search_->save();
  return status;
}

Status
kiln::runtime::rates::measure(const Request &request,
                              const std::function<void(const Json &)> &print) {
  return Measurements(request, print).run();
}
