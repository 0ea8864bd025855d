//===- Lockstep.h - One step at a time, told from outside -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --lockstep=FD: the executable's side of kiln-diff. It reads one JSON object
// per line on stdin ("step", "save", ...) and answers each with one line on FD;
// docs/reference/lockstep-protocol.md lists them. The steps are those of
// training, computed by the same TrainingRun.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H
#define KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H

#include "TrainingRun.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Serves until stdin ends. The states have their initial values; `run` is
/// bound.
Status serveLockstep(Engine &engine, TrainingRun &run, const Options &options);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_LOCKSTEP_H
