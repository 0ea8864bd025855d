//===- Lockstep.h - Server of the lockstep protocol -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --lockstep=FD, through which kiln-diff controls an executable. The
// executable reads one command per line from stdin, a JSON object such as
// {"do": "step"}, and writes one line with the reply to FD.
// docs/reference/lockstep-protocol.md lists the commands. Steps are computed by
// TrainingRun, as in an ordinary training run.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H
#define KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H

#include "TrainingRun.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Executes commands until stdin ends. Before the call, the states must have
/// their initial values, and run.bind() must have been called.
Status serveLockstep(Engine &engine, TrainingRun &run, const Options &options);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H
