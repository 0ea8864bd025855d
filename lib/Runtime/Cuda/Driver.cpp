//===- Driver.cpp - CUDA driver access ------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

/// Returns true if `code` reports a fault in a kernel. The context is unusable
/// after such a fault.
static bool isKernelFault(int code) {
  return code == illegalAddress || code == launchTimeout ||
         code == assertFailed ||
         (code >= hardwareStackError && code <= launchFailed);
}

std::string Driver::codeText(int code) const {
  // Initialize `name` and `text`, because the functions of the driver's stub
  // library leave them unchanged.
  const char *name = nullptr, *text = nullptr;
  (void)api_.cuGetErrorName.function(code, &name);
  (void)api_.cuGetErrorString.function(code, &text);
  return (name ? std::string(name) : "error " + std::to_string(code)) +
         (text ? " (" + std::string(text) + ")" : std::string());
}

Status Driver::failure(int code, const char *function) const {
  std::string what = "the CUDA driver's " + std::string(function) +
                     " failed: " + codeText(code);
  if (code == outOfMemory)
    return Status(ExitCode::OverBudget,
                  what + "; end other programs that use this memory, or "
                         "compile with a smaller --batch or more "
                         "--microbatches");
  if (isKernelFault(code))
    return Status::error(what + ": a kernel has faulted");
  return Status::error(what + "; check the GPU with nvidia-smi");
}

Status Driver::start() {
  int code = api_.cuInit.function(0);
  if (code == stubLibrary)
    return Status::error("this executable needs an NVIDIA GPU, and the CUDA "
                         "driver that was found is the toolkit's stub, which "
                         "is only for linking; remove it from LD_LIBRARY_PATH" +
                         std::string(runElsewhere));
  if (code != success)
    return Status::error("this executable needs an NVIDIA GPU, and the CUDA "
                         "driver cannot start: " +
                         codeText(code) + runElsewhere);
  int version = 0;
  Status status = call(api_.cuDriverGetVersion, &version);
  version_ = std::to_string(version / 1000) + "." +
             std::to_string(version % 1000 / 10);
  return status;
}

Result<Driver> Driver::open(const std::vector<std::string> &libraries) {
  Result<Library> library = Library::open(libraries);
  if (!library.ok())
    return Status::error("this executable needs an NVIDIA GPU, and the CUDA "
                         "driver (libcuda.so.1) cannot be loaded: " +
                         library.status().message() + runElsewhere);
  Driver driver;
  const char *missing = nullptr;
  auto find = [&](auto &entry) {
    if (!library->find(entry) && !missing)
      missing = entry.name;
  };
#define KILN_CUDA_FIND(symbol, ...) find(driver.api_.symbol);
  KILN_CUDA_FUNCTIONS(KILN_CUDA_FIND)
#undef KILN_CUDA_FIND
  if (missing)
    return Status::error("the CUDA driver " + library->name() +
                         " is too old: it lacks " + missing +
                         ", which exists since CUDA 11.4; install a newer "
                         "NVIDIA driver" +
                         runElsewhere);
  Status status = driver.start();
  if (!status.ok())
    return status;
  return driver;
}
