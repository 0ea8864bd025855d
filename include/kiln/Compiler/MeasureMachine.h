//===- MeasureMachine.h - The machine at hand -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_MEASUREMACHINE_H
#define KILN_COMPILER_MEASUREMACHINE_H

#include "kiln/Planner/Machine.h"

namespace kiln {

struct MeasureOptions {
  /// Of kiln-measure, such as build/bin.
  std::string programDirectory;
  /// As in CompileOptions: attention is measured in executables.
  std::string libraryDirectory;
  int64_t threads = 1;
  double seconds = 25; ///< about; attention takes some more
};

/// Measures this machine as executables use it, which keeps it busy for about
/// half a minute. Progress and a warning about other processes go to standard
/// error.
Result<Machine> measureMachine(const MeasureOptions &options);

/// Measures this machine and writes the file, which is first seen to be
/// writable and appears when it is complete.
Status writeMeasuredMachine(const MeasureOptions &options,
                            const std::string &path);

/// What measured figures are compared with.
Result<ThisMachine> describeThisMachine(const std::string &programDirectory,
                                        int64_t threads);

/// Loads what --machine names. When its figures were measured on another
/// machine than this one, says so in one line on standard error.
Result<Machine> chooseMachine(const std::string &name,
                              const std::string &programDirectory,
                              int64_t threads);

} // namespace kiln

#endif // KILN_COMPILER_MEASUREMACHINE_H
