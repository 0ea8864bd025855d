//===- DriverApi.h - Declarations of the CUDA driver API --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions and constants of libcuda.so.1 that executables use, declared
// from NVIDIA's documentation, so that kiln can be built without a CUDA
// toolkit. The driver exports some functions in several versions, which differ
// in a suffix such as _v2. The names below include the suffix. All functions
// are available in CUDA 11.4 and later.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_DRIVERAPI_H
#define KILN_LIB_RUNTIME_CUDA_DRIVERAPI_H

#include "Library.h"

#include <cstddef>
#include <cstdint>

namespace kiln::runtime::cuda {

// Opaque objects of the driver.
using Context = struct ContextObject *;
using Module = struct ModuleObject *;
using Function = struct FunctionObject *;
using StreamHandle = struct StreamObject *;
using EventHandle = struct EventObject *;
using GraphHandle = struct GraphObject *;
using GraphExecHandle = struct GraphExecObject *;
using Device = int;
using DevicePointer = uint64_t;
using HostFunction = void (*)(void *data);

/// The values of CUresult for which the runtime has a special case.
enum Code : int {
  success = 0,
  outOfMemory = 2,
  stubLibrary = 34,
  noDevice = 100,
  invalidImage = 200,
  noBinaryForGpu = 209,
  invalidPtx = 218,
  unsupportedPtxVersion = 222,
  notReady = 600,
  illegalAddress = 700,
  launchTimeout = 702,
  assertFailed = 710,
  hardwareStackError = 714,
  launchFailed = 719,
};

// CUdevice_attribute.
inline constexpr int computeCapabilityMajor = 75;
inline constexpr int computeCapabilityMinor = 76;
// CUjit_option.
inline constexpr int jitErrorLogBuffer = 5;
inline constexpr int jitErrorLogBufferBytes = 6;
// Flags of streams, events and captures.
inline constexpr unsigned streamNonBlocking = 1;
inline constexpr unsigned eventDefault = 0;
inline constexpr unsigned eventDisableTiming = 2;
inline constexpr int captureThreadLocal = 1;

/// CUfunction_attribute: the maximum size of dynamic shared memory per block.
inline constexpr int mostDynamicShared = 8;

#define KILN_CUDA_FUNCTIONS(FUNCTION)                                          \
  FUNCTION(cuGetErrorName, int(int, const char **))                            \
  FUNCTION(cuGetErrorString, int(int, const char **))                          \
  FUNCTION(cuInit, int(unsigned))                                              \
  FUNCTION(cuDriverGetVersion, int(int *))                                     \
  FUNCTION(cuDeviceGetCount, int(int *))                                       \
  FUNCTION(cuDeviceGet, int(Device *, int))                                    \
  FUNCTION(cuDeviceGetName, int(char *, int, Device))                          \
  FUNCTION(cuDeviceGetUuid_v2, int(char *, Device))                            \
  FUNCTION(cuDeviceGetAttribute, int(int *, int, Device))                      \
  FUNCTION(cuDevicePrimaryCtxRetain, int(Context *, Device))                   \
  FUNCTION(cuDevicePrimaryCtxRelease_v2, int(Device))                          \
  FUNCTION(cuCtxSetCurrent, int(Context))                                      \
  FUNCTION(cuCtxSynchronize, int())                                            \
  FUNCTION(cuModuleLoadDataEx,                                                 \
           int(Module *, const void *, unsigned, int *, void **))              \
  FUNCTION(cuModuleUnload, int(Module))                                        \
  FUNCTION(cuModuleGetFunction, int(Function *, Module, const char *))         \
  FUNCTION(cuFuncSetAttribute, int(Function, int, int))                        \
  FUNCTION(cuMemGetInfo_v2, int(std::size_t *, std::size_t *))                 \
  FUNCTION(cuMemAlloc_v2, int(DevicePointer *, std::size_t))                   \
  FUNCTION(cuMemFree_v2, int(DevicePointer))                                   \
  FUNCTION(cuMemHostAlloc, int(void **, std::size_t, unsigned))                \
  FUNCTION(cuMemFreeHost, int(void *))                                         \
  FUNCTION(cuMemcpyHtoDAsync_v2,                                               \
           int(DevicePointer, const void *, std::size_t, StreamHandle))        \
  FUNCTION(cuMemcpyDtoHAsync_v2,                                               \
           int(void *, DevicePointer, std::size_t, StreamHandle))              \
  FUNCTION(cuMemcpyDtoDAsync_v2,                                               \
           int(DevicePointer, DevicePointer, std::size_t, StreamHandle))       \
  FUNCTION(cuMemsetD8Async,                                                    \
           int(DevicePointer, unsigned char, std::size_t, StreamHandle))       \
  FUNCTION(cuStreamCreate, int(StreamHandle *, unsigned))                      \
  FUNCTION(cuStreamDestroy_v2, int(StreamHandle))                              \
  FUNCTION(cuStreamSynchronize, int(StreamHandle))                             \
  FUNCTION(cuStreamQuery, int(StreamHandle))                                   \
  FUNCTION(cuStreamWaitEvent, int(StreamHandle, EventHandle, unsigned))        \
  FUNCTION(cuStreamBeginCapture_v2, int(StreamHandle, int))                    \
  FUNCTION(cuStreamEndCapture, int(StreamHandle, GraphHandle *))               \
  FUNCTION(cuEventCreate, int(EventHandle *, unsigned))                        \
  FUNCTION(cuEventDestroy_v2, int(EventHandle))                                \
  FUNCTION(cuEventRecord, int(EventHandle, StreamHandle))                      \
  FUNCTION(cuEventElapsedTime, int(float *, EventHandle, EventHandle))         \
  FUNCTION(cuLaunchKernel,                                                     \
           int(Function, unsigned, unsigned, unsigned, unsigned, unsigned,     \
               unsigned, unsigned, StreamHandle, void **, void **))            \
  FUNCTION(cuLaunchHostFunc, int(StreamHandle, HostFunction, void *))          \
  FUNCTION(cuGraphInstantiateWithFlags,                                        \
           int(GraphExecHandle *, GraphHandle, unsigned long long))            \
  FUNCTION(cuGraphUpload, int(GraphExecHandle, StreamHandle))                  \
  FUNCTION(cuGraphLaunch, int(GraphExecHandle, StreamHandle))                  \
  FUNCTION(cuGraphExecDestroy, int(GraphExecHandle))                           \
  FUNCTION(cuGraphDestroy, int(GraphHandle))

struct DriverApi {
#define KILN_CUDA_ENTRY(symbol, ...) Entry<__VA_ARGS__> symbol{#symbol};
  KILN_CUDA_FUNCTIONS(KILN_CUDA_ENTRY)
#undef KILN_CUDA_ENTRY
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_DRIVERAPI_H
