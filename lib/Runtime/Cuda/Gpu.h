//===- Gpu.h - GPU of a run -------------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The GPU of this rank, and its primary context. A single rank uses the first
// device of the driver; several ranks on one machine use a device each. The
// user can select devices with CUDA_VISIBLE_DEVICES. The vendor libraries use
// the same context. The context is current in the thread that opened the GPU.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_GPU_H
#define KILN_LIB_RUNTIME_CUDA_GPU_H

#include "Driver.h"

#include <array>
#include <cstdint>
#include <string>

namespace kiln::runtime::cuda {

/// The UUID of a GPU.
using GpuId = std::array<char, 16>;

class Gpu {
public:
  /// Opens the device with the index `localRank`, which is the index of this
  /// rank among the ranks on the machine. If the driver reports only one
  /// device, opens this device, because CUDA_VISIBLE_DEVICES may show a
  /// different device to each process. `driver` must outlive the GPU.
  static Result<Gpu> open(const Driver &driver, int localRank = 0);
  Gpu(Gpu &&other) noexcept;
  Gpu &operator=(Gpu &&) = delete;
  ~Gpu();

  const Driver &driver() const { return *driver_; }
  const std::string &name() const { return name_; }
  /// Returns the compute capability times 10: 90 for 9.0.
  int64_t architecture() const { return architecture_; }
  Result<GpuId> id() const;

  struct Memory {
    int64_t free = 0;
    int64_t total = 0;
  };
  Result<Memory> memory() const;

  /// Allocates device memory. `purpose` describes for the error message how the
  /// memory is used.
  Result<DeviceMemory> allocate(int64_t bytes, const char *purpose) const;
  /// Allocates pinned host memory, which asynchronous copies require.
  Result<PinnedMemory> allocatePinned(int64_t bytes, const char *purpose) const;

private:
  Gpu(const Driver &driver, Device device)
      : driver_(&driver), device_(device) {}
  Status describe();
  Status enter();

  const Driver *driver_;
  Device device_;
  bool retained_ = false;
  std::string name_;
  int64_t architecture_ = 0;
};

/// Formats a compute capability: 90 becomes "9.0".
std::string capabilityText(int64_t architecture);

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_GPU_H
