//===- Driver.h - CUDA driver access ----------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls the CUDA driver and converts its error codes to messages. The results
// of all calls are checked, except in destructors, where a failure has no
// consequence.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_DRIVER_H
#define KILN_LIB_RUNTIME_CUDA_DRIVER_H

#include "DriverApi.h"
#include "kiln/Support/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace kiln::runtime::cuda {

/// The end of the error message if an executable finds no suitable GPU.
inline constexpr const char *runElsewhere =
    "; compile with --target=cpu or --target=cuda-emu to run here";

class Driver {
public:
  /// Loads the first of `libraries` that exists and initializes the driver.
  static Result<Driver> open(const std::vector<std::string> &libraries);

  const DriverApi &api() const { return api_; }

  /// Calls a function of the driver. Converts an error code to a Status.
  template <typename... Parameters, typename... Arguments>
  Status call(const Entry<int(Parameters...)> &entry,
              Arguments... arguments) const {
    int code = entry.function(arguments...);
    return code == success ? Status() : failure(code, entry.name);
  }

  /// Returns the error for the error code `code` of a call of `function`.
  Status failure(int code, const char *function) const;
  /// Returns the name and description of a code, such as "CUDA_ERROR_NO_DEVICE
  /// (no CUDA-capable device is detected)".
  std::string codeText(int code) const;

  /// Returns the newest CUDA version that the driver supports, such as "13.0".
  const std::string &version() const { return version_; }

private:
  Driver() = default;
  Status start();

  DriverApi api_;
  std::string version_;
};

/// Owns a handle. The destructor destroys the handle.
template <typename Handle> class Owned {
public:
  Owned() = default;
  Owned(Handle handle, const Entry<int(Handle)> &destroy)
      : handle_(handle), destroy_(destroy.function) {}
  Owned(Owned &&other) noexcept
      : handle_(std::exchange(other.handle_, Handle())),
        destroy_(other.destroy_) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~Owned() {
    if (handle_)
      (void)destroy_(handle_);
  }

  Handle get() const { return handle_; }
  /// Returns the handle, which this object then no longer owns.
  Handle release() { return std::exchange(handle_, Handle()); }
  explicit operator bool() const { return bool(handle_); }

private:
  Handle handle_ = Handle();
  int (*destroy_)(Handle) = nullptr;
};

using Event = Owned<EventHandle>;
using Graph = Owned<GraphHandle>;
using GraphExec = Owned<GraphExecHandle>;
using LoadedModule = Owned<Module>;
using QueueStream = Owned<StreamHandle>;
using DeviceMemory = Owned<DevicePointer>;
using PinnedMemory = Owned<void *>;

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_DRIVER_H
