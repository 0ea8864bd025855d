//===- TrajectoryTest.cpp - Tests of trajectories in manifests ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that a trajectory (the properties of a run) is unchanged after being
// written to a manifest and read back, and that fields with a wrong type or
// range are rejected.
//
//===----------------------------------------------------------------------===//

#include "Trajectory.h"

#include "Checkpoint.h"
#include "HostileJson.h"
#include "TrainingInfo.h"

#include <gtest/gtest.h>
#include <random>

using namespace kiln::abi;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

Trajectory makeTrajectory() {
  Trajectory trajectory;
  RunChoices &choices = trajectory.choices;
  choices.totalSteps = 1000;
  choices.schedule.rate = 0.1;
  choices.schedule.kind = ScheduleKind::Wsd;
  choices.schedule.minRate = 1e-5;
  choices.schedule.cooldownSteps = 100;
  choices.schedule.warmupSteps = 50;
  choices.schedule.warmup = WarmupKind::Constant;
  choices.schedule.scaling = RateScaling::Sqrt;
  choices.schedule.baseBatch = 64;
  choices.gradClip = 0.3;
  BuiltFacts &built = trajectory.built;
  built.training.updates = {
      {"adamw",
       {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}},
       "all"}};
  built.training.dropout = {0.1, 0.2};
  built.training.attentionDropout = {0.1};
  built.training.lossy = {{"fewbit:3", 12}};
  built.sequencesPerUpdate = 8;
  built.sequenceLength = 128;
  built.frozenParameters = 7;
  trajectory.data = {12345, 2, "0123456789abcdef0123456789abcdef"};
  return trajectory;
}

void expectBad(const Json &json, const std::string &message) {
  Result<Trajectory> parsed = parseTrajectory(json, "checkpoint 'c'");
  ASSERT_FALSE(parsed.ok()) << "expected: " << message;
  EXPECT_EQ(parsed.status().code(), ExitCode::BadInput);
  EXPECT_NE(parsed.status().message().find(message), std::string::npos)
      << parsed.status().message() << "\nexpected: " << message;
  EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
}

TEST(TrajectoryTest, SurvivesTheManifest) {
  Json json = trajectoryJson(makeTrajectory());
  Result<Trajectory> parsed =
      parseTrajectory(Json::parse(json.dump(2)), "checkpoint 'c'");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(trajectoryJson(*parsed), json);
  EXPECT_EQ(parsed->choices.schedule.kind, ScheduleKind::Wsd);
  EXPECT_EQ(parsed->choices.schedule.rate, 0.1);
  EXPECT_EQ(parsed->choices.gradClip, 0.3);
  EXPECT_EQ(parsed->built.training.updates,
            makeTrajectory().built.training.updates);
  EXPECT_EQ(parsed->data, makeTrajectory().data);
  for (auto &[name, kind] : scheduleKinds()) {
    Trajectory other = makeTrajectory();
    other.choices.schedule.kind = kind;
    other.choices.schedule.gamma = 0.5;
    dropUnused(other.choices.schedule);
    Json text = trajectoryJson(other);
    EXPECT_EQ(text["schedule"]["kind"], name);
    Result<Trajectory> again = parseTrajectory(text, "c");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(trajectoryJson(*again), text);
  }
}

struct BadField {
  const char *pointer;
  Json value;
  const char *message;
};

TEST(TrajectoryTest, EveryFieldHasATypeAndARange) {
  const BadField fields[] = {
      {"", Json::array(), "its parent is not an object"},
      {"/steps", 0, "'steps' is 0, expected at least 1"},
      {"/steps", 1.5, "'steps' must be a 64-bit integer"},
      {"/steps", uint64_t(1) << 63, "'steps' must be a 64-bit integer"},
      {"/schedule", nullptr, "'schedule.lr'"},
      {"/schedule/lr", -1, "'schedule.lr' is -1, expected at least 0"},
      {"/schedule/lr", "0.1", "'schedule.lr' must be a number, got string"},
      {"/schedule/kind", "step",
       "'schedule.kind' is 'step', expected one of constant, cosine, "
       "exponential, linear, wsd"},
      {"/schedule/kind", 1, "'schedule.kind' must be a string"},
      {"/schedule/min_lr", 1, "'schedule' contradicts itself: --min-lr is"},
      {"/schedule/cooldown_steps", 0, "needs --cooldown-steps"},
      {"/schedule/cooldown_steps", -1, "expected at least 0"},
      {"/schedule/cooldown_steps", INT64_MAX, "is more than --steps"},
      {"/schedule/warmup_steps", INT64_MAX, "is more than --steps"},
      {"/schedule/lr_gamma", Json::object(), "must be a number, got object"},
      {"/schedule/warmup", "none", "expected one of constant, gradual"},
      {"/schedule/lr_scaling", "cubic", "expected one of linear, none, sqrt"},
      {"/schedule/lr_scaling", "none", "contradicts itself"},
      {"/schedule/base_batch", 0, "contradicts itself"},
      {"/grad_clip", -0.5, "'grad_clip' is -0.5, expected at least 0"},
      {"/grad_clip", true, "'grad_clip' must be a number, got boolean"},
      {"/sequences_per_update", 0, "expected at least 1"},
      {"/sequence_length", -4, "expected at least 1"},
      {"/frozen_parameters", -1, "expected at least 0"},
      {"/optimizer", "adamw", "'optimizer' must be an array, got string"},
      {"/optimizer", std::vector<int>(1001, 1), "expected at most 1000"},
      {"/optimizer/0", 3, "'optimizer[0].name' is missing"},
      {"/optimizer/0/name", "",
       "'optimizer[0].name' is '', expected 1 to 64 characters"},
      {"/optimizer/0/name", std::string(65, 'a'), "expected 1 to 64"},
      {"/optimizer/0/options", 3, "'optimizer[0].options' is not an object"},
      {"/optimizer/0/options/beta1", "x", "'beta1' that is not a number"},
      {"/optimizer/0/decay", "some", "expected matrices, all or vectors"},
      {"/dropout/activations", 0.1, "must be an array, got number"},
      {"/dropout/activations/0", 1.5, "is 1.5, expected 0 to 1"},
      {"/dropout/attention/0", nullptr, "must be a number, got null"},
      {"/lossy", nullptr, "'lossy' must be an array, got null"},
      {"/lossy/0/residuals", 0, "expected at least 1"},
      {"/lossy/0/encoding", 1, "must be a string"},
      {"/data/tokens", 0, "'data.tokens' is 0, expected at least 1"},
      {"/data/bytes_per_token", "2", "must be a 64-bit integer, got string"},
      {"/data/samples_xxh3_128", "0123", "expected 32 hexadecimal digits"},
      {"/data/samples_xxh3_128", std::string(32, 'g'), "expected 32 hex"},
  };
  for (const BadField &field : fields) {
    SCOPED_TRACE(field.pointer);
    Json json = trajectoryJson(makeTrajectory());
    json[Json::json_pointer(field.pointer)] = field.value;
    expectBad(json, field.message);
  }
}

TEST(TrajectoryTest, NoValueInAnyPlaceIsMoreThanAnError) {
  const Json good = trajectoryJson(makeTrajectory());
  std::vector<std::string> pointers;
  listPointers(good, "", pointers);
  ASSERT_GT(pointers.size(), 30u);
  int refused = 0;
  auto parse = [&](const Json &json) {
    Result<Trajectory> parsed = parseTrajectory(json, "checkpoint 'c'");
    if (parsed.ok()) {
      // An accepted trajectory can be written and formatted.
      EXPECT_EQ(trajectoryJson(*parsed).size(), good.size());
      EXPECT_FALSE(optimizerText(parsed->built.training).empty());
      return;
    }
    ++refused;
    EXPECT_EQ(parsed.status().code(), ExitCode::BadInput);
    for (char c : parsed.status().message())
      ASSERT_TRUE(c >= 0x20 && c < 0x7f) << parsed.status().message();
    EXPECT_LT(parsed.status().message().size(), 1000u);
  };
  for (const std::string &pointer : pointers) {
    for (const Json &value : hostileValues()) {
      Json json = good;
      json[Json::json_pointer(pointer)] = value;
      parse(json);
    }
    if (pointer.empty())
      continue;
    Json json = good;
    Json::json_pointer place(pointer);
    Json &parent = json[place.parent_pointer()];
    if (parent.is_object())
      parent.erase(place.back());
    else
      parent.erase(parent.begin());
    parse(json);
  }
  EXPECT_GT(refused, 400);
}

TEST(TrajectoryTest, DamagedTextIsNeverMoreThanAnError) {
  const std::string good = trajectoryJson(makeTrajectory()).dump();
  std::mt19937 random(7);
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits)
      text[random() % text.size()] =
          "0123456789-+.eE\"{}[],:xnull"[random() % 27];
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded())
      continue;
    ++parsed;
    (void)parseTrajectory(json, "checkpoint 'c'").ok();
  }
  EXPECT_GT(parsed, 1000);
}

TEST(TrajectoryTest, ProgressIsCheckedToo) {
  CheckpointManifest manifest;
  manifest.step = 5;
  manifest.extra = {{"training",
                     {{"step", 5},
                      {"sequence", 20},
                      {"tokens", 160},
                      {"seed", UINT64_MAX},
                      {"shuffle", 3},
                      {"optimizer_start", 2},
                      {"loss_scale",
                       {{"scale", 512.0},
                        {"clean_steps", 7},
                        {"skipped", 2},
                        {"skipped_in_a_row", 1}}}}}};
  // The parser of JSON returns nonnegative integers as unsigned, whereas the
  // values above are signed.
  manifest.extra = Json::parse(manifest.extra.dump());
  std::optional<Progress> progress = readProgress(manifest);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->sequence, 20);
  EXPECT_EQ(progress->seed, UINT64_MAX);
  EXPECT_EQ(progress->shuffle, std::optional<uint64_t>(3));
  EXPECT_EQ(progress->optimizerStart, 2);
  ASSERT_TRUE(progress->lossScale);
  EXPECT_EQ(*progress->lossScale, (LossScale{512, 7, 2, 1}));
  EXPECT_EQ(progress->appliedUpdates(), 1);
  const std::pair<const char *, Json> bad[] = {
      {"", nullptr},
      {"", Json::array()},
      {"/training", 3},
      {"/training/step", 6},
      {"/training/step", -5},
      {"/training/step", "5"},
      {"/training/sequence", -1},
      {"/training/sequence", (int64_t(1) << 53) + 1},
      {"/training/tokens", 1e300},
      {"/training/seed", -1},
      {"/training/shuffle", "x"},
      {"/training/optimizer_start", 6},
      {"/training/optimizer_start", nullptr},
      {"/training/loss_scale", 512},
      {"/training/loss_scale/scale", 500.0},
      {"/training/loss_scale/scale", "512"},
      {"/training/loss_scale/clean_steps", -1},
      {"/training/loss_scale/skipped", 4},
      {"/training/loss_scale/skipped_in_a_row", nullptr}};
  for (auto &[pointer, value] : bad) {
    CheckpointManifest damaged = manifest;
    damaged.extra[Json::json_pointer(pointer)] = value;
    damaged.extra = Json::parse(damaged.extra.dump());
    EXPECT_FALSE(readProgress(damaged)) << pointer << " " << value;
  }
  // A manifest without optimizer_start, from an old version of kiln, is valid.
  manifest.extra["training"].erase("loss_scale");
  EXPECT_FALSE(readProgress(manifest)->lossScale);
  manifest.extra["training"].erase("optimizer_start");
  ASSERT_TRUE(readProgress(manifest));
  EXPECT_EQ(readProgress(manifest)->optimizerStart, 0);
  manifest.extra["training"].erase("shuffle");
  EXPECT_FALSE(readProgress(manifest));
}

TEST(TrajectoryTest, NumbersAreWrittenExactlyAndShort) {
  EXPECT_EQ(numberText(0.001), "0.001");
  EXPECT_EQ(numberText(1e-8), "1e-08");
  EXPECT_EQ(numberText(0), "0");
  EXPECT_EQ(std::stod(numberText(0.1 + 0.2)), 0.1 + 0.2);
}

TEST(TrajectoryTest, StatesAreKeptWhereTheyMeanTheSame) {
  auto info = [](const char *name) {
    TrainingInfo info;
    info.updates = {{name, {}, "matrices"}};
    return info;
  };
  for (auto [a, b, same] : {std::tuple{"adamw", "adam", true},
                            {"adamw", "adamw", true},
                            {"nesterov", "momentum", true},
                            {"adamw", "sgd", false},
                            {"momentum", "adam", false},
                            {"sgd", "momentum", false}}) {
    EXPECT_EQ(haveSameStates(info(a), info(b)), same) << a << " " << b;
    EXPECT_EQ(haveSameStates(info(b), info(a)), same) << b << " " << a;
  }
}

} // namespace
