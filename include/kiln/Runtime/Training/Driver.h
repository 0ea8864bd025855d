//===- Driver.h - Train, evaluate or generate -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The whole life of a training executable after its Engine exists: flags,
// initial values, batches, steps, schedules, logs, checkpoints, signals. It
// knows nothing about how the Engine computes, so that the reference
// interpreter trains with the same flags and writes the same files.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_TRAINING_DRIVER_H
#define KILN_RUNTIME_TRAINING_DRIVER_H

namespace kiln::runtime {

class Engine;

/// Parses the flags in `argv` (argv[0] is the program's name), does what they
/// ask, and returns the exit code of the process. Results go to stdout,
/// progress and errors to stderr; an error is one line.
int runTraining(Engine &engine, int argc, char **argv);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_DRIVER_H
