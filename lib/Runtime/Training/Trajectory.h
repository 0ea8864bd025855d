//===- Trajectory.h - Facts that determine a training run -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Trajectory contains the properties of a run that, together with the seeds
// and the states, determine every later loss up to rounding: two runs in which
// they are equal follow the same trajectory. The manifest of a checkpoint
// contains a Trajectory. A resumed run takes from it the values of flags that
// are not given, and compares it with its own to detect a different executable
// or different data. Properties that affect rounding only (plan, budget,
// threads, target, micro-batches) are excluded.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRAJECTORY_H
#define KILN_LIB_RUNTIME_TRAINING_TRAJECTORY_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Runtime/Files/TokenFile.h"
#include "kiln/Runtime/Training/Schedule.h"
#include "kiln/Support/Status.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace kiln::runtime {

/// Choices that flags of the executable control.
struct RunChoices {
  int64_t totalSteps = 0;
  ScheduleOptions schedule;
  double gradClip = 0; ///< Maximum gradient norm; 0: no clipping.
};

/// Properties that are fixed at compile time.
struct BuiltFacts {
  abi::TrainingInfo training;
  int64_t sequencesPerUpdate = 0; ///< Over all micro-batches.
  int64_t sequenceLength = 0;
  int64_t frozenParameters = 0; ///< Number of elements that no update changes.
};

struct Trajectory {
  RunChoices choices;
  BuiltFacts built;
  DataIdentity data;
};

BuiltFacts builtFactsOf(const Description &description);

/// Resets the options that the schedule does not use to their defaults.
void dropUnused(ScheduleOptions &schedule);

/// Returns the rate flags that differ from their defaults, such as "--min-lr".
std::set<std::string> flagsInUse(const ScheduleOptions &schedule);

nlohmann::json trajectoryJson(const Trajectory &trajectory);

/// Checks the types, ranges and consistency of the choices. `source` names the
/// checkpoint in messages. Entry point of fuzzers: accesses only its arguments.
Result<Trajectory> parseTrajectory(const nlohmann::json &json,
                                   const std::string &source);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAJECTORY_H
