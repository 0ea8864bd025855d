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
  /// Directory of the runtime archives, as in CompileOptions. They are needed
  /// because the measurement of attention compiles executables.
  std::string libraryDirectory;
  int64_t threads = 1;
  /// Approximate duration in seconds of all measurements except the measurement
  /// of attention.
  double seconds = 25;
};

/// Measures the performance of this machine with the kernels that executables
/// run. The measurement occupies the machine for about half a minute. Prints
/// progress on standard error, and a warning if other processes disturb the
/// measurement.
Result<Machine> measureMachine(const MeasureOptions &options);

/// Measures this machine and writes the machine file `path` atomically. Before
/// measuring, checks that the file can be created. Installs handlers of
/// SIGTERM, SIGHUP and SIGINT; if a signal stops the measurement, no file
/// remains.
Status writeMeasuredMachine(const MeasureOptions &options,
                            const std::string &path);

/// Returns the properties of this machine. chooseMachine() compares them with
/// the properties in a machine file, to find out whether the file was measured
/// on this machine.
Result<ThisMachine> describeThisMachine(const std::string &programDirectory,
                                        int64_t threads);

/// Loads the machine file that --machine names. If the performance figures in
/// the file were measured on a machine other than this one, prints a one-line
/// warning on standard error.
Result<Machine> chooseMachine(const std::string &name,
                              const std::string &programDirectory,
                              int64_t threads);

} // namespace kiln

#endif // KILN_COMPILER_MEASUREMACHINE_H
