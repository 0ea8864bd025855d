//===- DeviceFacts.h - Constants of NVIDIA GPUs -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constants shared by the kernel emitters and the lowerings.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_DEVICEFACTS_H
#define KILN_LIB_TARGET_GPU_DEVICEFACTS_H

#include <cstdint>

namespace kiln::gpu {

/// Threads per warp.
constexpr int64_t kWarp = 32;
/// Address spaces of NVPTX pointers.
constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;
/// Bytes of static shared memory that every kernel may use.
constexpr int64_t kSharedBytes = 48 * 1024;
/// Maximum bytes of shared memory that a kernel may request on every GPU since
/// sm_80. This is the limit of sm_86, sm_89 and sm_120; data-center GPUs have
/// 163 or 227 KiB.
constexpr int64_t kMostSharedBytes = 99 * 1024;
/// Maximum bytes of one memory access of a thread. Such an access must be
/// aligned to its size.
constexpr int64_t kWidestAccess = 16;

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_DEVICEFACTS_H
