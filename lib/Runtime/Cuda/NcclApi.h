//===- NcclApi.h - Declarations of the NCCL API -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions and constants of libnccl.so.2 that collectives over ranks need,
// declared from NVIDIA's documentation, so that kiln can be built without NCCL.
// All functions are available in NCCL 2.13 and later.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_NCCLAPI_H
#define KILN_LIB_RUNTIME_CUDA_NCCLAPI_H

#include "DriverApi.h"

namespace kiln::runtime::cuda {

/// ncclComm_t.
using CommHandle = struct CommObject *;

/// ncclUniqueId.
struct NcclId {
  char bytes[128];
};

// ncclResult_t.
inline constexpr int ncclOk = 0;
inline constexpr int ncclOngoing = 7;
// ncclRedOp_t.
inline constexpr int ncclAdd = 0;
// ncclDataType_t.
inline constexpr int ncclTypeI8 = 0;
inline constexpr int ncclTypeF16 = 6;
inline constexpr int ncclTypeF32 = 7;
inline constexpr int ncclTypeF64 = 8;
inline constexpr int ncclTypeBF16 = 9;

#define KILN_NCCL_FUNCTIONS(FUNCTION)                                          \
  FUNCTION(ncclGetVersion, int(int *))                                         \
  FUNCTION(ncclGetErrorString, const char *(int))                              \
  FUNCTION(ncclGetLastError, const char *(CommHandle))                         \
  FUNCTION(ncclGetUniqueId, int(NcclId *))                                     \
  FUNCTION(ncclCommInitRank, int(CommHandle *, int, NcclId, int))              \
  FUNCTION(ncclCommDestroy, int(CommHandle))                                   \
  FUNCTION(ncclCommGetAsyncError, int(CommHandle, int *))                      \
  FUNCTION(ncclGroupStart, int())                                              \
  FUNCTION(ncclGroupEnd, int())                                                \
  FUNCTION(ncclAllReduce, int(DevicePointer, DevicePointer, std::size_t, int,  \
                              int, CommHandle, StreamHandle))                  \
  FUNCTION(ncclReduceScatter, int(DevicePointer, DevicePointer, std::size_t,   \
                                  int, int, CommHandle, StreamHandle))         \
  FUNCTION(ncclAllGather, int(DevicePointer, DevicePointer, std::size_t, int,  \
                              CommHandle, StreamHandle))                       \
  FUNCTION(ncclReduce, int(DevicePointer, DevicePointer, std::size_t, int,     \
                           int, int, CommHandle, StreamHandle))                \
  FUNCTION(ncclBroadcast, int(DevicePointer, DevicePointer, std::size_t, int,  \
                              int, CommHandle, StreamHandle))

struct NcclApi {
#define KILN_NCCL_ENTRY(symbol, ...) Entry<__VA_ARGS__> symbol{#symbol};
  KILN_NCCL_FUNCTIONS(KILN_NCCL_ENTRY)
#undef KILN_NCCL_ENTRY
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_NCCLAPI_H
