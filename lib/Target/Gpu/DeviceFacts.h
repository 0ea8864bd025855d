//===- DeviceFacts.h - What every GPU has -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers that those who write kernels and those who lower them must agree on.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_DEVICEFACTS_H
#define KILN_LIB_TARGET_GPU_DEVICEFACTS_H

#include <cstdint>

namespace kiln::gpu {

/// Threads of a warp.
constexpr int64_t kWarp = 32;
/// Address spaces of pointers, as NVPTX numbers them.
constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;
/// Of shared memory, that every kernel may have without asking for more.
constexpr int64_t kSharedBytes = 48 * 1024;
/// That a kernel may ask for on every GPU since sm_80: sm_86, sm_89 and sm_120
/// have no more, those of data centers have 163 KiB and 227.
constexpr int64_t kMostSharedBytes = 99 * 1024;
/// The longest access of one thread by one instruction, which is aligned.
constexpr int64_t kWidestAccess = 16;

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_DEVICEFACTS_H
