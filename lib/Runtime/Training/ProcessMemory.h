//===- ProcessMemory.h - Resident memory of this process --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_PROCESSMEMORY_H
#define KILN_LIB_RUNTIME_TRAINING_PROCESSMEMORY_H

#include <cstdint>

namespace kiln::runtime {

/// Bytes, from /proc/self/status; 0 where the kernel does not say.
struct ProcessMemory {
  int64_t peakResident = 0; ///< Of the program since its start.
  int64_t resident = 0;
  int64_t anonymous = 0; ///< Part of `resident` that no file holds.
};

/// Allocates nothing.
ProcessMemory readProcessMemory();

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_PROCESSMEMORY_H
