//===- Resume.cpp - Resuming from a checkpoint ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Resume.h"

#include "RateFlags.h"
#include "TrainingInfo.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/GradientCompression.h"
#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::abi;
using namespace kiln::support;

namespace kiln::runtime {

namespace {

/// A flag that determines a property that checkpoints record.
struct ChoiceFlag {
  const char *flag;
  std::string (*text)(const RunChoices &choices);
  void (*copy)(const RunChoices &from, RunChoices &to);
};

/// A property of the executable or of the data that differs from that of the
/// checkpoint.
struct Difference {
  const char *name; ///< Name of the property in --resume-changing.
  const char *what; ///< Name of the property in messages.
  std::string then;
  std::string now;
};

} // namespace

static const ChoiceFlag choiceFlags[] = {
    {"--steps",
     [](const RunChoices &c) { return std::to_string(c.totalSteps); },
     [](const RunChoices &from, RunChoices &to) {
       to.totalSteps = from.totalSteps;
     }},
    {"--lr", [](const RunChoices &c) { return numberText(c.schedule.rate); },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.rate = from.schedule.rate;
     }},
    {"--lr-schedule",
     [](const RunChoices &c) {
       return nameOf(scheduleKinds(), c.schedule.kind);
     },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.kind = from.schedule.kind;
     }},
    {"--min-lr",
     [](const RunChoices &c) { return numberText(c.schedule.minRate); },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.minRate = from.schedule.minRate;
     }},
    {"--cooldown-steps",
     [](const RunChoices &c) {
       return std::to_string(c.schedule.cooldownSteps);
     },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.cooldownSteps = from.schedule.cooldownSteps;
     }},
    {"--lr-gamma",
     [](const RunChoices &c) { return numberText(c.schedule.gamma); },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.gamma = from.schedule.gamma;
     }},
    {"--warmup-steps",
     [](const RunChoices &c) { return std::to_string(c.schedule.warmupSteps); },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.warmupSteps = from.schedule.warmupSteps;
     }},
    {"--warmup",
     [](const RunChoices &c) {
       return nameOf(warmupKinds(), c.schedule.warmup);
     },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.warmup = from.schedule.warmup;
     }},
    {"--lr-scaling",
     [](const RunChoices &c) {
       return nameOf(rateScalings(), c.schedule.scaling);
     },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.scaling = from.schedule.scaling;
     }},
    {"--base-batch",
     [](const RunChoices &c) { return std::to_string(c.schedule.baseBatch); },
     [](const RunChoices &from, RunChoices &to) {
       to.schedule.baseBatch = from.schedule.baseBatch;
     }},
    {"--grad-clip", [](const RunChoices &c) { return numberText(c.gradClip); },
     [](const RunChoices &from, RunChoices &to) {
       to.gradClip = from.gradClip;
     }},
    {"--loss-scale", [](const RunChoices &c) { return c.lossScale.print(); },
     [](const RunChoices &from, RunChoices &to) {
       to.lossScale = from.lossScale;
     }},
};

RunChoices choicesOf(const Options &options, bool clips) {
  RunChoices choices{options.steps, options.schedule,
                     clips ? options.gradClip : 0, options.lossScale};
  dropUnused(choices.schedule);
  return choices;
}

std::string resumeLine(const ResumePoint &point, const Options &options) {
  int64_t total = 0;
  if (options.continues())
    total = options.steps;
  else if (point.record.trajectory)
    total = point.record.trajectory->choices.totalSteps;
  return std::string(options.continues() ? "resuming from " : "using ") +
         printable(point.found.path, 1000) + " at step " +
         std::to_string(point.progress.step) +
         (total > 0 ? " of " + std::to_string(total) : "");
}

std::string unknownTrajectory(const ResumePoint &point) {
  return "checkpoint " + inQuotes(point.found.path) +
         " was saved by an earlier version of kiln: the schedule, clipping, "
         "options of the optimizer, dropout, lossy encodings, batch, sequence "
         "length and data of its run are unknown and cannot be compared; use "
         "the flags, the executable and the data of that run";
}

TrajectoryRecord keptRecord(const BuiltFacts &built, ResumePoint &point,
                            std::vector<std::string> &notes) {
  TrajectoryRecord record = point.record;
  int64_t frozen = built.frozenParameters;
  bool freezesOthers =
      record.trajectory && record.trajectory->built.frozenParameters != frozen;
  if (freezesOthers) {
    record.trajectory->built.frozenParameters = frozen;
    point.loadsStates = false;
  }
  // The optimizer states need no reset if the run loads them from the
  // checkpoint, or if no update has changed them yet.
  if (point.loadsStates || point.progress.step == 0)
    return record;
  point.progress.resetOptimizer();
  std::string then = inQuotes(point.optimizerName);
  if (record.trajectory) {
    TrainingInfo &training = record.trajectory->built.training;
    then = optimizerText(training);
    training.updates = built.training.updates;
  }
  notes.push_back("the states of the checkpoint's optimizer, " + then +
                  ", are not kept: this executable " +
                  (freezesOthers ? "freezes other parameters"
                                 : "has " + optimizerText(built.training)));
  return record;
}

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message);
}

/// Returns text that describes how a change of --steps affects the learning
/// rates, or "" if the schedule does not depend on --steps.
static std::string effectOfSteps(const RunChoices &choices) {
  ScheduleKind kind = choices.schedule.kind;
  if (kind == ScheduleKind::Constant || kind == ScheduleKind::Exponential)
    return "";
  return "; from here on, the rates are those of a " +
         nameOf(scheduleKinds(), kind) + " schedule over " +
         std::to_string(choices.totalSteps) + " steps";
}

Status adoptChoices(const ResumePoint &point, Options &options,
                    std::vector<std::string> &notes) {
  const std::string checkpoint = inQuotes(point.found.path);
  RunChoices given{options.steps, options.schedule, options.gradClip,
                   options.lossScale};
  RunChoices merged = given;
  if (point.record.trajectory)
    merged = point.record.trajectory->choices;
  else if (!options.stepsGiven)
    return usage(std::string("--steps is required: checkpoint ") + checkpoint +
                 (point.record.isKnown
                      ? " belongs to a run that has not trained yet"
                      : " was saved by an earlier version of kiln, which did "
                        "not record --steps"));
  std::vector<const ChoiceFlag *> changed;
  for (const ChoiceFlag &choice : choiceFlags) {
    if (!options.isGiven(choice.flag))
      continue;
    if (choice.text(merged) != choice.text(given))
      changed.push_back(&choice);
    choice.copy(given, merged);
  }
  dropUnused(merged.schedule);
  for (const ChoiceFlag *choice : changed)
    notes.push_back(std::string(choice->flag) + " changes from " +
                    choice->text(point.record.trajectory->choices) + " to " +
                    choice->text(given) +
                    (choice == &choiceFlags[0] ? effectOfSteps(merged) : ""));
  if (options.stepsGiven && options.steps < point.progress.step)
    return usage("--steps=" + std::to_string(options.steps) +
                 " is the total number of updates, but checkpoint " +
                 checkpoint + " has already done " +
                 std::to_string(point.progress.step));
  std::set<std::string> flags = flagsInUse(merged.schedule);
  flags.insert(options.given.begin(), options.given.end());
  options.steps = merged.totalSteps;
  options.schedule = merged.schedule;
  options.gradClip = merged.gradClip;
  options.lossScale = merged.lossScale;
  options.restartsLossScale =
      point.record.trajectory && options.isGiven("--loss-scale") &&
      merged.lossScale.initial !=
          point.record.trajectory->choices.lossScale.initial;
  Status rates =
      checkRates(options.schedule, options.gradClip, options.steps, flags);
  if (rates.ok() || !point.record.trajectory)
    return rates;
  return usage(rates.message() +
               "; flags that are not given take their values from checkpoint " +
               checkpoint);
}

static std::string dataText(const DataIdentity &data) {
  return std::to_string(data.tokens) + " tokens of " +
         std::to_string(data.bytesPerToken) +
         (data.bytesPerToken == 1 ? " byte" : " bytes") + " with hash " +
         data.hash.substr(0, 8);
}

static std::string clipText(double clip) {
  return clip > 0 ? "at norm " + numberText(clip) : std::string("off");
}

/// Returns the properties of the executable and of the data that have different
/// values in `then` and `now`.
static std::vector<Difference> findDifferences(const Trajectory &then,
                                               const Trajectory &now) {
  const BuiltFacts &a = then.built, &b = now.built;
  const TrainingInfo &x = a.training, &y = b.training;
  std::vector<Difference> list;
  auto compare = [&](const char *name, const char *what, const auto &oldValue,
                     const auto &newValue, auto text) {
    if (!(oldValue == newValue))
      list.push_back({name, what, text(oldValue), text(newValue)});
  };
  auto count = [](int64_t value) { return std::to_string(value); };
  if (x.updates != y.updates)
    list.push_back(
        {"optimizer", "the optimizer", optimizerText(x), optimizerText(y)});
  if (x.dropout != y.dropout || x.attentionDropout != y.attentionDropout)
    list.push_back({"dropout", "dropout", dropoutText(x), dropoutText(y)});
  if (x.lossy != y.lossy)
    list.push_back({"lossy", "the lossy encoding", lossyText(x), lossyText(y)});
  compare("lora", "the adapter", a.lora, b.lora,
          [](const std::string &options) { return printable(options, 200); });
  compare("batch", "the batch", a.sequencesPerUpdate, b.sequencesPerUpdate,
          count);
  compare("seq", "the sequence length", a.sequenceLength, b.sequenceLength,
          count);
  compare("clip", "gradient clipping", then.choices.gradClip,
          now.choices.gradClip, clipText);
  compare("frozen", "the number of frozen parameters", a.frozenParameters,
          b.frozenParameters, count);
  compare("data", "the data", then.data, now.data, dataText);
  return list;
}

/// Converts a sequence index for sequences of `oldLength` tokens to one for
/// sequences of `newLength` tokens. Let t be the first token of sequence
/// `index`. Returns the first new sequence of the same epoch that starts at or
/// after t, or the first sequence of the next epoch if there is none. Returns
/// nullopt if the result exceeds mostCount.
static std::optional<int64_t> convertSequence(int64_t index, int64_t oldLength,
                                              int64_t newLength,
                                              int64_t tokens) {
  int64_t oldCount = std::max<int64_t>((tokens - 1) / oldLength, 1);
  int64_t newCount = std::max<int64_t>((tokens - 1) / newLength, 1);
  std::optional<int64_t> first =
      checkedMul<int64_t>(index % oldCount, oldLength);
  std::optional<int64_t> epochs =
      checkedMul<int64_t>(index / oldCount, newCount);
  if (!first || !epochs)
    return std::nullopt;
  int64_t within =
      std::min(*first / newLength + (*first % newLength != 0), newCount);
  std::optional<int64_t> result = checkedAdd<int64_t>(*epochs, within);
  return result && *result <= mostCount ? result : std::nullopt;
}

/// Adapts `point` to a difference that the user has allowed. Returns text that
/// describes the effect; the caller appends the text to a note.
static Result<std::string> applyDifference(const std::string &name,
                                           const Trajectory &then,
                                           const Trajectory &now,
                                           ResumePoint &point) {
  Progress &progress = point.progress;
  if (name == "optimizer" && point.loadsStates)
    return std::string("; its states are kept");
  if (name == "optimizer" || name == "frozen") {
    point.loadsStates = false;
    progress.resetOptimizer();
    return std::string("; the optimizer states are reset");
  }
  auto hasErrors = [](const Trajectory &run) {
    const auto &lossy = run.built.training.lossy;
    return std::any_of(lossy.begin(), lossy.end(), [](const auto &entry) {
      return hasCompressionStates(entry.first);
    });
  };
  if (name == "lossy" && hasErrors(then) && !hasErrors(now))
    return std::string("; the errors of compressed gradients are dropped");
  if (name == "data") {
    progress.sequence = 0;
    return std::string("; reading starts at its beginning");
  }
  if (name != "seq" || then.data != now.data)
    return std::string();
  std::optional<int64_t> moved =
      convertSequence(progress.sequence, then.built.sequenceLength,
                      now.built.sequenceLength, now.data.tokens);
  if (!moved)
    return Status::badInput("checkpoint " + inQuotes(point.found.path) +
                            ": its position in the data, sequence " +
                            std::to_string(progress.sequence) +
                            ", is out of range");
  progress.sequence = *moved;
  return "; reading continues at the same token, in sequence " +
         std::to_string(progress.sequence);
}

/// Returns the one-line error that lists the differences that are not allowed.
static Status refuse(const ResumePoint &point,
                     const std::vector<Difference> &differences,
                     const std::set<std::string> &allowed) {
  std::string list, names;
  for (const Difference &difference : differences) {
    names += (names.empty() ? "" : ",") + std::string(difference.name);
    if (!allowed.count(difference.name))
      list += (list.empty() ? "" : "; ") + std::string(difference.what) +
              " was " + difference.then + " and is " + difference.now;
  }
  return usage("checkpoint " + inQuotes(point.found.path) +
               " belongs to another run: " + list +
               "; use the executable and the data of that run, or allow the "
               "change with --resume-changing=" +
               names);
}

Status compareTrajectories(const Trajectory &now, const Options &options,
                           ResumePoint &point,
                           std::vector<std::string> &notes) {
  // If the checkpoint contains no trajectory (properties of its run), use the
  // trajectory of this run instead, so that no difference is found. Exception:
  // if a checkpoint of an earlier format (!isKnown) has optimizer states that
  // cannot be loaded, its optimizer differs from that of this run. Such a
  // checkpoint contains the name of its optimizer.
  Trajectory then = point.record.trajectory.value_or(now);
  if (!point.record.isKnown && !point.loadsStates)
    then.built.training.updates = {{point.optimizerName, {}, "matrices"}};
  std::vector<Difference> differences = findDifferences(then, now);
  // If --grad-clip is given, the clipping of the checkpoint does not apply, and
  // adoptChoices() has already reported the difference.
  if (options.gradClipGiven)
    differences.erase(std::remove_if(differences.begin(), differences.end(),
                                     [](const Difference &difference) {
                                       return std::string_view(
                                                  difference.name) == "clip";
                                     }),
                      differences.end());
  for (const Difference &difference : differences)
    if (!options.resumeChanging.count(difference.name))
      return refuse(point, differences, options.resumeChanging);
  // If the number of frozen parameters differs from that of the checkpoint, no
  // optimizer state is loaded. applyDifference() reads loadsStates, so clear
  // loadsStates before the first call.
  for (const Difference &difference : differences)
    if (difference.name == std::string_view("frozen"))
      point.loadsStates = false;
  for (const Difference &difference : differences) {
    Result<std::string> effect =
        applyDifference(difference.name, then, now, point);
    if (!effect.ok())
      return effect.status();
    notes.push_back(std::string(difference.what) + " changes from " +
                    difference.then + " to " + difference.now + *effect);
  }
  return Status();
}

} // namespace kiln::runtime
