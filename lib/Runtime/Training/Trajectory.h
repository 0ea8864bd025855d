//===- Trajectory.h - Facts that determine a training run -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Trajectory contains properties of a run. Together with the seeds and the
// states, these properties determine every later loss up to rounding. The
// manifest of a checkpoint contains the Trajectory of its run. A resumed run
// reads from that Trajectory the values of flags that its command line omits.
// The resumed run also compares that Trajectory with its own, to detect a
// different executable or different data. Properties that affect only rounding
// (plan, budget, threads, target, ranks, micro-batches) are excluded.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRAJECTORY_H
#define KILN_LIB_RUNTIME_TRAINING_TRAJECTORY_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Runtime/Files/TokenFile.h"
#include "kiln/Runtime/Training/LossScale.h"
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
  LossScaleOptions lossScale;
};

/// Properties that are fixed at compile time.
struct BuiltFacts {
  abi::TrainingInfo training;
  int64_t sequencesPerUpdate = 0; ///< Includes all micro-batches and ranks.
  int64_t sequenceLength = 0;
  std::string lora;             ///< Options of the adapters, or "none".
  int64_t frozenParameters = 0; ///< Elements of non-trainable parameters.
};

struct Trajectory {
  RunChoices choices;
  BuiltFacts built;
  DataIdentity data;
};

BuiltFacts builtFactsOf(const Description &description);

/// Restores the default of every option that the schedule does not use.
void dropUnused(ScheduleOptions &schedule);

/// Returns the flags of the options that the learning-rate schedule uses, such
/// as "--min-lr": all options that differ from their defaults, and --lr-gamma
/// if the schedule is exponential. --lr and --lr-schedule are not included.
std::set<std::string> flagsInUse(const ScheduleOptions &schedule);

nlohmann::json trajectoryJson(const Trajectory &trajectory);

/// Parses a trajectory, and checks its types and ranges and the consistency of
/// its choices. `source` names the checkpoint in messages. Fuzzers call this
/// function, so it must access only its arguments.
Result<Trajectory> parseTrajectory(const nlohmann::json &json,
                                   const std::string &source);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAJECTORY_H
