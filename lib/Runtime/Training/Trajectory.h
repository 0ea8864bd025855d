//===- Trajectory.h - The facts that decide a training run ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Together with the seeds and the states, these facts decide every later loss
// of a run, up to rounding: two runs with equal facts follow one trajectory.
// The manifest of a checkpoint holds them, so that a resumed run takes from
// there what its command line does not give, and notices when its executable or
// its data is another one. What changes rounding at most (plan, budget,
// threads, target, micro-batches) is none of them.
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

/// What flags of the executable decide.
struct RunChoices {
  int64_t totalSteps = 0;
  ScheduleOptions schedule;
  double gradClip = 0; ///< 0: gradients are not scaled.
};

/// What the compiler decided.
struct BuiltFacts {
  abi::TrainingInfo training;
  int64_t sequencesPerUpdate = 0; ///< Over all micro-batches.
  int64_t sequenceLength = 0;
  int64_t frozenParameters = 0; ///< Elements that no update touches.
};

struct Trajectory {
  RunChoices choices;
  BuiltFacts built;
  DataIdentity data;
};

BuiltFacts builtFactsOf(const Description &description);

/// Replaces what the kind of schedule does not use by its default.
void dropUnused(ScheduleOptions &schedule);

/// The flags of the rate that say more than the default, such as "--min-lr".
std::set<std::string> flagsInUse(const ScheduleOptions &schedule);

nlohmann::json trajectoryJson(const Trajectory &trajectory);

/// Checks types, ranges and that the choices go together. `source` names the
/// checkpoint in messages. Entry for fuzzers: touches nothing but its input.
Result<Trajectory> parseTrajectory(const nlohmann::json &json,
                                   const std::string &source);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAJECTORY_H
