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

/// Sizes in bytes from /proc/self/status. A size that Linux does not report is
/// 0.
struct ProcessMemory {
  /// Maximum of `resident` since the start of the process.
  int64_t peakResident = 0;
  int64_t resident = 0;
  int64_t anonymous = 0; ///< Bytes of `resident` that no file backs.
};

/// Reads the sizes. Allocates no memory.
ProcessMemory readProcessMemory();

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_PROCESSMEMORY_H
