//===- Driver.h - Entry point of training executables -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a training executable once its Engine exists: parses the flags and
// handles initial values, batches, steps, learning rate schedules, logs,
// checkpoints and signals. The driver calls only the interface of the Engine.
// The reference interpreter implements this interface, so it accepts the same
// flags and writes the same files as a training executable.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_TRAINING_DRIVER_H
#define KILN_RUNTIME_TRAINING_DRIVER_H

namespace kiln::runtime {

class Engine;

/// Parses the flags in `argv` (argv[0] is the program name), executes the run
/// that they request, and returns the exit code of the process. Results are
/// written to stdout, progress and errors to stderr; an error is one line.
int runTraining(Engine &engine, int argc, char **argv);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_DRIVER_H
