//===- Gpu.cpp - GPU of a run ---------------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu.h"

#include <cstring>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

std::string kiln::runtime::cuda::capabilityText(int64_t architecture) {
  return std::to_string(architecture / 10) + "." +
         std::to_string(architecture % 10);
}

Gpu::Gpu(Gpu &&other) noexcept
    : driver_(other.driver_), device_(other.device_),
      retained_(std::exchange(other.retained_, false)),
      name_(std::move(other.name_)), architecture_(other.architecture_) {}

Gpu::~Gpu() {
  if (retained_)
    (void)driver_->api().cuDevicePrimaryCtxRelease_v2.function(device_);
}

Status Gpu::describe() {
  const DriverApi &api = driver_->api();
  char name[256] = "";
  Status status =
      driver_->call(api.cuDeviceGetName, name, int(sizeof(name)), device_);
  name_.assign(name, ::strnlen(name, sizeof(name)));
  int major = 0, minor = 0;
  if (status.ok())
    status = driver_->call(api.cuDeviceGetAttribute, &major,
                           computeCapabilityMajor, device_);
  if (status.ok())
    status = driver_->call(api.cuDeviceGetAttribute, &minor,
                           computeCapabilityMinor, device_);
  architecture_ = 10 * major + minor;
  return status;
}

Status Gpu::enter() {
  Context context = nullptr;
  Status status =
      driver_->call(driver_->api().cuDevicePrimaryCtxRetain, &context, device_);
  retained_ = status.ok();
  return retained_ ? driver_->call(driver_->api().cuCtxSetCurrent, context)
                   : status;
}

Result<Gpu> Gpu::open(const Driver &driver, int localRank) {
  int count = 0;
  Status status = driver.call(driver.api().cuDeviceGetCount, &count);
  if (status.ok() && count == 0)
    status =
        Status::error("this executable needs an NVIDIA GPU, but the CUDA "
                      "driver reports none (is CUDA_VISIBLE_DEVICES set?)" +
                      std::string(runElsewhere));
  if (status.ok() && count > 1 && localRank >= count)
    status = Status(ExitCode::Usage,
                    "this rank has the number " + std::to_string(localRank) +
                        " on its machine, but the CUDA driver reports only " +
                        std::to_string(count) + " GPUs (0 to " +
                        std::to_string(count - 1) +
                        "): start at most as many ranks on a machine as it "
                        "has GPUs, or check CUDA_VISIBLE_DEVICES");
  Device device = 0;
  if (status.ok())
    status = driver.call(driver.api().cuDeviceGet, &device,
                         count == 1 ? 0 : localRank);
  if (!status.ok())
    return status;
  Gpu gpu(driver, device);
  status = gpu.describe();
  if (status.ok())
    status = gpu.enter();
  if (!status.ok())
    return status;
  return gpu;
}

Result<GpuId> Gpu::id() const {
  GpuId id = {};
  Status status =
      driver_->call(driver_->api().cuDeviceGetUuid_v2, id.data(), device_);
  if (!status.ok())
    return status;
  return id;
}

Result<Gpu::Memory> Gpu::memory() const {
  std::size_t free = 0, total = 0;
  Status status = driver_->call(driver_->api().cuMemGetInfo_v2, &free, &total);
  if (!status.ok())
    return status;
  return Memory{int64_t(free), int64_t(total)};
}

static Status withPurpose(const Status &status, int64_t bytes,
                          const char *purpose) {
  return Status(status.code(), "cannot allocate " + std::to_string(bytes) +
                                   " bytes for " + purpose + ": " +
                                   status.message());
}

Result<DeviceMemory> Gpu::allocate(int64_t bytes, const char *purpose) const {
  DevicePointer pointer = 0;
  // Allocate at least one byte, because the driver rejects an allocation of
  // zero bytes.
  Status status = driver_->call(driver_->api().cuMemAlloc_v2, &pointer,
                                std::size_t(bytes > 0 ? bytes : 1));
  if (!status.ok())
    return withPurpose(status, bytes, purpose);
  return DeviceMemory(pointer, driver_->api().cuMemFree_v2);
}

Result<PinnedMemory> Gpu::allocatePinned(int64_t bytes,
                                         const char *purpose) const {
  void *pointer = nullptr;
  Status status = driver_->call(driver_->api().cuMemHostAlloc, &pointer,
                                std::size_t(bytes > 0 ? bytes : 1), 0u);
  if (!status.ok())
    return withPurpose(status, bytes, purpose);
  return PinnedMemory(pointer, driver_->api().cuMemFreeHost);
}
