//===- Lockstep.h - Server of the lockstep protocol -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --lockstep=FD, with which kiln-diff controls an executable. The
// server reads one JSON object per line from stdin ("step", "save", ...) and
// writes one reply line per command to FD; docs/reference/lockstep-protocol.md
// lists the commands. TrainingRun computes the steps as in a training run.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H
#define KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H

#include "TrainingRun.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Serves commands until stdin ends. The states must have their initial values,
/// and `run` must be bound.
Status serveLockstep(Engine &engine, TrainingRun &run, const Options &options);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H
