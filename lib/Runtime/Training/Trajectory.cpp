//===- Trajectory.cpp - Facts that determine a training run ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trajectory.h"

#include "RateFlags.h"
#include "TrainingInfo.h"
#include "kiln/Support/Messages.h"

using namespace kiln::support;

namespace kiln::runtime {

using Json = nlohmann::json;

BuiltFacts builtFactsOf(const Description &description) {
  BuiltFacts facts;
  facts.training = description.training;
  facts.sequencesPerUpdate = description.globalBatch();
  facts.sequenceLength = description.model.sequenceLength;
  facts.lora = description.lora ? loraOptions(*description.lora) : "none";
  for (const StateInfo &state : description.states)
    if (state.role == StateRole::Parameter && !state.trainable)
      facts.frozenParameters += state.weightElements();
  return facts;
}

void dropUnused(ScheduleOptions &schedule) {
  const ScheduleOptions defaults;
  if (schedule.kind == ScheduleKind::Constant)
    schedule.minRate = defaults.minRate;
  if (schedule.kind != ScheduleKind::Wsd)
    schedule.cooldownSteps = defaults.cooldownSteps;
  if (schedule.kind != ScheduleKind::Exponential)
    schedule.gamma = defaults.gamma;
  if (schedule.warmupSteps == 0)
    schedule.warmup = defaults.warmup;
  if (schedule.scaling == RateScaling::None)
    schedule.baseBatch = defaults.baseBatch;
}

std::set<std::string> flagsInUse(const ScheduleOptions &schedule) {
  std::set<std::string> flags;
  auto insert = [&](const char *flag, bool inUse) {
    if (inUse)
      flags.insert(flag);
  };
  insert("--min-lr", schedule.minRate != 0);
  insert("--cooldown-steps", schedule.cooldownSteps != 0);
  insert("--lr-gamma", schedule.kind == ScheduleKind::Exponential);
  insert("--warmup-steps", schedule.warmupSteps != 0);
  insert("--warmup", schedule.warmup != WarmupKind::Gradual);
  insert("--lr-scaling", schedule.scaling != RateScaling::None);
  insert("--base-batch", schedule.baseBatch != 0);
  return flags;
}

static Json scheduleJson(const ScheduleOptions &schedule) {
  return {{"lr", schedule.rate},
          {"kind", nameOf(scheduleKinds(), schedule.kind)},
          {"min_lr", schedule.minRate},
          {"cooldown_steps", schedule.cooldownSteps},
          {"lr_gamma", schedule.gamma},
          {"warmup_steps", schedule.warmupSteps},
          {"warmup", nameOf(warmupKinds(), schedule.warmup)},
          {"lr_scaling", nameOf(rateScalings(), schedule.scaling)},
          {"base_batch", schedule.baseBatch}};
}

Json trajectoryJson(const Trajectory &trajectory) {
  const BuiltFacts &built = trajectory.built;
  Json json = {{"steps", trajectory.choices.totalSteps},
               {"schedule", scheduleJson(trajectory.choices.schedule)},
               {"grad_clip", trajectory.choices.gradClip},
               {"loss_scale", trajectory.choices.lossScale.print()},
               {"sequences_per_update", built.sequencesPerUpdate},
               {"sequence_length", built.sequenceLength},
               {"lora", built.lora},
               {"frozen_parameters", built.frozenParameters},
               {"data",
                {{"tokens", trajectory.data.tokens},
                 {"bytes_per_token", trajectory.data.bytesPerToken},
                 {"samples_xxh3_128", trajectory.data.hash}}}};
  addTrainingInfo(built.training, json);
  return json;
}

static double readRate(const Node &node) {
  double rate = node.real();
  if (!node.failed() && !(rate >= 0))
    node.fail("is " + numberText(rate) + ", expected at least 0");
  return rate;
}

template <typename T>
static void readName(const Node &node, const std::map<std::string, T> &names,
                     T &value) {
  std::string name = node.text();
  auto found = names.find(name);
  if (found != names.end()) {
    value = found->second;
    return;
  }
  std::string expected;
  for (auto &[other, unused] : names)
    expected += (expected.empty() ? "" : ", ") + other;
  node.fail("is " + inQuotes(name) + ", expected one of " + expected);
}

static ScheduleOptions readSchedule(const Node &node) {
  ScheduleOptions schedule;
  schedule.rate = readRate(node.at("lr"));
  readName(node.at("kind"), scheduleKinds(), schedule.kind);
  schedule.minRate = readRate(node.at("min_lr"));
  schedule.cooldownSteps = node.at("cooldown_steps").integer(0);
  schedule.gamma = readRate(node.at("lr_gamma"));
  schedule.warmupSteps = node.at("warmup_steps").integer(0);
  readName(node.at("warmup"), warmupKinds(), schedule.warmup);
  readName(node.at("lr_scaling"), rateScalings(), schedule.scaling);
  schedule.baseBatch = node.at("base_batch").integer(0);
  return schedule;
}

static RunChoices readChoices(const Node &root) {
  RunChoices choices;
  choices.totalSteps = root.at("steps").integer(1);
  Node schedule = root.at("schedule");
  choices.schedule = readSchedule(schedule);
  choices.gradClip = readRate(root.at("grad_clip"));
  // Checkpoints of earlier formats lack this member.
  if (std::optional<Node> scale = root.find("loss_scale")) {
    Result<LossScaleOptions> parsed = LossScaleOptions::parse(scale->text());
    if (parsed.ok())
      choices.lossScale = *parsed;
    else if (!root.failed())
      scale->fail(parsed.status().message());
  }
  if (root.failed())
    return choices;
  Status status = checkRates(choices.schedule, choices.gradClip,
                             choices.totalSteps, flagsInUse(choices.schedule));
  if (!status.ok())
    schedule.fail("contradicts itself: " + status.message());
  return choices;
}

static DataIdentity readData(const Node &node) {
  DataIdentity data;
  data.tokens = node.at("tokens").integer(1);
  data.bytesPerToken = node.at("bytes_per_token").integer(1);
  Node hash = node.at("samples_xxh3_128");
  data.hash = hash.text();
  if (!hash.failed() &&
      (data.hash.size() != 32 ||
       data.hash.find_first_not_of("0123456789abcdef") != std::string::npos))
    hash.fail("is " + inQuotes(data.hash) +
              ", expected 32 hexadecimal digits in lower case");
  return data;
}

Result<Trajectory> parseTrajectory(const Json &json,
                                   const std::string &source) {
  ReadFailure failure(ExitCode::BadInput, source,
                      "the manifest is not one that kiln wrote: choose "
                      "another checkpoint");
  Node root(json, failure);
  Trajectory trajectory;
  trajectory.choices = readChoices(root);
  trajectory.built.sequencesPerUpdate =
      root.at("sequences_per_update").integer(1);
  trajectory.built.sequenceLength = root.at("sequence_length").integer(1);
  trajectory.built.frozenParameters = root.at("frozen_parameters").integer(0);
  // Manifests of earlier versions lack the member "lora".
  trajectory.built.lora = "none";
  if (std::optional<Node> lora = root.find("lora"))
    trajectory.built.lora = lora->text();
  trajectory.built.training = readTrainingInfo(root);
  trajectory.data = readData(root.at("data"));
  if (failure.failed())
    return failure.status();
  return trajectory;
}

} // namespace kiln::runtime
