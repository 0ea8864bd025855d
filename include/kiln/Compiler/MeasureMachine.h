//===- MeasureMachine.h - Measurement of this machine -----------*- C++ -*-===//
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
  /// Directory of the program kiln-measure, such as build/bin.
  std::string programDirectory;
  /// Directory of the runtime archives, as in CompileOptions. Attention is
  /// measured in compiled executables.
  std::string libraryDirectory;
  int64_t threads = 1;
  /// Approximate duration of the measurement, without that of attention.
  double seconds = 25;
};

/// Measures the performance of this machine with the kernels that executables
/// run. The measurement occupies the machine for about half a minute. Progress,
/// and a warning if other processes disturb it, are printed on standard error.
Result<Machine> measureMachine(const MeasureOptions &options);

/// Measures this machine and writes the machine file. Checks that the file can
/// be created before measuring; the file appears under its name only when it is
/// complete.
Status writeMeasuredMachine(const MeasureOptions &options,
                            const std::string &path);

/// Returns the properties of this machine from which chooseMachine() decides
/// whether figures were measured on it.
Result<ThisMachine> describeThisMachine(const std::string &programDirectory,
                                        int64_t threads);

/// Loads the machine that --machine names. If its figures were measured on
/// another machine, prints a one-line warning on standard error.
Result<Machine> chooseMachine(const std::string &name,
                              const std::string &programDirectory,
                              int64_t threads);

} // namespace kiln

#endif // KILN_COMPILER_MEASUREMACHINE_H
