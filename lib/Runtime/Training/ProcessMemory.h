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

/// Sizes in bytes from /proc/self/status; 0 if the kernel does not report them.
struct ProcessMemory {
  int64_t peakResident = 0; ///< Peak since the start of the process.
  int64_t resident = 0;
  int64_t anonymous = 0; ///< Part of `resident` without a backing file.
};

/// Reads the sizes without allocating memory.
ProcessMemory readProcessMemory();

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_PROCESSMEMORY_H
