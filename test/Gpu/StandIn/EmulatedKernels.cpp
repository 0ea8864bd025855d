//===- EmulatedKernels.cpp - A driver with emulated kernels ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Together with the fake driver of the unit tests, this file implements a
// libcuda.so.1 that runs executables for --target=cuda without a GPU. With this
// library, the engine (including graphs, streams and host functions) and the
// GPU suite can be tested on real models.
//
// The kernels are those of --target=cuda-emu and run on the emulated device
// with all of its checks except those of bounds and of uninitialised bytes. The
// kernels are loaded from the shared library EXECUTABLE.kernels.so in the
// directory of the executable. This shared library must be linked from the
// output of
//
//     kilnc MODEL [the same flags] --target=cuda-emu --emit=obj
//
// The number of parameters of a kernel is read from the executable's PTX.
// Environment variables set the number of GPUs and other properties of the
// machine; the initializer of isReady, below, reads them. Denormals are
// preserved, as on a GPU.
//
//===----------------------------------------------------------------------===//

#include "FakeState.h"
#include "kiln/Runtime/Emu/EmuDevice.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string_view>

using namespace kiln::runtime;
using namespace kiln;

/// CUDA_ERROR_LAUNCH_FAILED.
static constexpr int launchFailed = 719;

/// Returns the emulated device. Recreates the device if memory has been
/// allocated or freed since the last call.
static EmuDevice &deviceOf(const fakecuda::State &state) {
  static std::vector<const char *> known;
  static std::unique_ptr<EmuDevice> device;
  std::vector<const char *> blocks;
  for (const fakecuda::Allocation &block : state.allocations)
    blocks.push_back(block.memory.get());
  if (device && blocks == known)
    return *device;
  device = std::make_unique<EmuDevice>(/*seed=*/1);
  for (const fakecuda::Allocation &block : state.allocations) {
    Status status = device->addMemory(block.memory.get(), block.bytes);
    if (status.ok())
      status = device->markInitialised(block.memory.get(), block.bytes);
    if (!status.ok())
      fakecuda::violate(status.message());
  }
  known = std::move(blocks);
  return *device;
}

/// Returns the allocation that contains the address `value`, or null if no
/// allocation contains it because the parameter is not a pointer.
static const fakecuda::Allocation *blockOf(const fakecuda::State &state,
                                           uint64_t value) {
  for (const fakecuda::Allocation &block : state.allocations)
    if (block.begin <= value && value < block.begin + uint64_t(block.bytes))
      return &block;
  return nullptr;
}

/// The parameters of a kernel according to its PTX.
struct Signature {
  /// Number of parameters; 0 if the PTX does not contain the kernel.
  std::size_t count = 0;
  /// Number of 8-byte words of the argument table, which has the arguments of a
  /// group of launches; 0 if the kernel has no argument table.
  std::size_t tableWords = 0;
};

static void launchEmulated(EmuKernel kernel, const std::string &name,
                           const Signature &signature,
                           const fakecuda::Launch &launch) {
  fakecuda::State &state = fakecuda::state();
  EmuLaunch call;
  call.kernel = kernel;
  call.name = name;
  const uint64_t *values = launch.parameters;
  // The last parameter is the number of work units.
  std::size_t end = signature.count - 1 +
                    (signature.tableWords ? signature.tableWords - 1 : 0);
  std::size_t i = 0;
  for (; i < end; ++i) {
    const fakecuda::Allocation *block = blockOf(state, values[i]);
    if (!block)
      break;
    char *memory = block->memory.get();
    call.arguments.push_back({memory + (values[i] - block->begin),
                              memory + block->bytes, /*isWritten=*/true, ""});
  }
  // Skip the unused part of the table, which may have space for more launches
  // than the group has.
  for (i = std::max(i, signature.tableWords); i < end; ++i)
    call.immediates.push_back(int64_t(values[i]));
  if (launch.members > 1)
    call.members.assign(launch.members, name);
  call.units = int64_t(values[end]);
  // Choose unitsPerBlock such that the emulated launch has launch.blocks
  // blocks.
  call.unitsPerBlock =
      std::max<int64_t>((call.units + launch.blocks - 1) / launch.blocks, 1);
  call.threads = launch.threads;
  // The size of a kernel's static shared memory is unknown, so use the maximum.
  call.sharedBytes = launch.sharedBytes ? launch.sharedBytes : 48 * 1024;
  Result<EmuCounts> counts = deviceOf(state).launch(call);
  if (counts.ok())
    return;
  std::fprintf(stderr, "stand-in: %s\n", counts.status().message().c_str());
  state.sticky = launchFailed;
}

/// Returns the signature of ".visible .entry NAME(.param ..., .param ...)" in
/// PTX.
static Signature signatureOf(std::string_view ptx, const std::string &name) {
  Signature signature;
  std::size_t begin = ptx.find(".entry " + name + "(");
  if (begin == std::string_view::npos)
    return signature;
  std::string_view list = ptx.substr(begin, ptx.find(')', begin) - begin);
  for (std::size_t at = list.find(".param"); at != std::string_view::npos;
       at = list.find(".param", at + 1))
    ++signature.count;
  // The argument table is declared as ".param .align 8 .b8 NAME_param_0[1120]".
  if (std::size_t size = list.find('['); size != std::string_view::npos)
    signature.tableWords =
        std::size_t(std::atoll(list.data() + size + 1)) / sizeof(uint64_t);
  return signature;
}

static void *kernelLibrary() {
  static void *handle = [] {
    std::error_code ignored;
    std::string path =
        std::filesystem::read_symlink("/proc/self/exe", ignored).string() +
        ".kernels.so";
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      std::fprintf(stderr, "stand-in: %s\n", ::dlerror());
    return library;
  }();
  return handle;
}

static std::optional<fakecuda::Kernel> findEmulated(const std::string &name,
                                                    const void *image) {
  if (!image || !kernelLibrary())
    return std::nullopt;
  Signature signature = signatureOf(static_cast<const char *>(image), name);
  auto kernel =
      reinterpret_cast<EmuKernel>(::dlsym(kernelLibrary(), name.c_str()));
  if (signature.count == 0 || !kernel)
    return std::nullopt;
  return fakecuda::Kernel{signature.count,
                          [=](const fakecuda::Launch &launch) {
                            launchEmulated(kernel, name, signature, launch);
                          },
                          signature.tableWords};
}

/// Returns the value of an environment variable, or `otherwise`.
static int numberOf(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

/// Reports misuse that no function of the driver has returned as an error.
static void reportAtExit() {
  for (const std::string &violation : fakecuda::violations())
    std::fprintf(stderr, "stand-in: %s\n", violation.c_str());
  for (const auto &[kind, count] : fakecuda::live())
    if (kind.rfind("NCCL", 0) == 0)
      std::fprintf(stderr, "stand-in: not released: %s\n", kind.c_str());
}

static const bool isReady = [] {
  fakecuda::Settings settings;
  settings.devices = numberOf("KILN_STAND_IN_GPUS", 1);
  settings.firstDevice = numberOf("KILN_STAND_IN_FIRST_GPU", 0);
  settings.ncclIsSilent = numberOf("KILN_STAND_IN_NCCL_IS_SILENT", 0) != 0;
  settings.onlyPtx = true;
  settings.totalBytes = int64_t(8) << 30;
  fakecuda::reset(settings);
  fakecuda::setKernelFinder(findEmulated);
  std::atexit(reportAtExit);
  return true;
}();
