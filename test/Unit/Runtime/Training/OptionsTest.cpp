//===- OptionsTest.cpp - Tests of flags and of invalid combinations -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Training/Options.h"
#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/Flags.h"

#include <gtest/gtest.h>
#include <vector>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

Result<ParsedOptions> parse(std::vector<const char *> flags) {
  flags.insert(flags.begin(), "train");
  return parseOptions(int(flags.size()), flags.data());
}

TEST(OptionsTest, ReadsEveryKindOfFlag) {
  Result<ParsedOptions> parsed =
      parse({"--data=d.bin", "--steps=20", "--seed=7", "--lr=1e-2",
             "--lr-schedule=wsd", "--cooldown-steps=5", "--warmup-steps=3",
             "--min-lr=1e-3", "--grad-clip=0", "--shuffle=9", "--save=out",
             "--save-every=4", "--keep=2", "--val-data=v.bin", "--val-every=5",
             "--val-batches=2", "--log=l.jsonl", "--threads=2"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Options &options = parsed->options;
  EXPECT_EQ(options.steps, 20);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.schedule.kind, ScheduleKind::Wsd);
  EXPECT_EQ(options.schedule.rate, 1e-2);
  EXPECT_EQ(options.schedule.cooldownSteps, 5);
  EXPECT_EQ(options.gradClip, 0.0);
  EXPECT_EQ(options.shuffle, std::optional<uint64_t>(9));
  EXPECT_EQ(options.keep, 2);
  EXPECT_EQ(options.valBatches, 2);
  EXPECT_EQ(options.threads, 2);
}

TEST(OptionsTest, DefaultsAreThoseOfTheDocumentation) {
  Result<ParsedOptions> parsed = parse({"--data=d.bin", "--steps=1"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->options.gradClip, 1.0);
  EXPECT_EQ(parsed->options.schedule.kind, ScheduleKind::Constant);
  EXPECT_FALSE(parsed->options.shuffle);
}

TEST(OptionsTest, ShufflesByASeed) {
  Result<ParsedOptions> parsed =
      parse({"--data=d.bin", "--steps=1", "--emu-seed=7"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->options.emuSeed, std::optional<uint64_t>(7));
  parsed = parse({"--data=d.bin", "--steps=1", "--emu-seed=x"});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), ExitCode::Usage);
}

TEST(OptionsTest, HelpIsNoError) {
  Result<ParsedOptions> parsed = parse({"--help"});
  ASSERT_TRUE(parsed.ok());
  ASSERT_TRUE(parsed->help);
  EXPECT_NE(parsed->help->find("--resume"), std::string::npos);
}

TEST(OptionsTest, EvaluationNeedsNoTrainingData) {
  EXPECT_TRUE(parse({"--steps=0", "--val-data=v.bin"}).ok());
  EXPECT_TRUE(parse({"--generate=5"}).ok());
  EXPECT_TRUE(parse({"--check-memory"}).ok());
  EXPECT_TRUE(parse({"--describe"}).ok());
}

TEST(OptionsTest, LockstepIsForOtherProgramsAndNotInTheHelp) {
  Result<ParsedOptions> parsed =
      parse({"--data=d.bin", "--steps=1", "--lockstep=3"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->options.lockstep, 3);
  EXPECT_EQ(parse({"--data=d.bin", "--steps=1"})->options.lockstep, -1);
  EXPECT_EQ(parse({"--help"})->help->find("--lockstep"), std::string::npos);
}

TEST(OptionsTest, EveryFlagOfTheHelpIsInTheTable) {
  std::string help = *parse({"--help"})->help;
  for (const Flag &flag : executableFlags())
    EXPECT_EQ(help.find(" " + flag.dashed() + " ") == std::string::npos,
              flag.internal)
        << flag.dashed();
  for (size_t at = 0; (at = help.find("\n  --", at)) != std::string::npos;) {
    at += 5;
    std::string name = help.substr(at, help.find(' ', at) - at);
    EXPECT_TRUE(findFlag(executableFlags(), name)) << name;
  }
}

TEST(OptionsTest, FlagsOfTheCompilerAreAnsweredWithTheirValues) {
  Description description;
  description.model.batch = 8;
  description.model.sequenceLength = 128;
  description.build.optimizer = "sgd";
  description.build.commandLine =
      "kilnc 'a model' --memory-budget=8GiB --offload optimizer -o train";
  auto answer = [&](const char *flag) {
    const char *argv[] = {"train", "--steps=1", "--data=d", flag};
    return parseOptions(4, argv, &description).status().message();
  };
  EXPECT_EQ(answer("--batch=4"),
            "--batch was fixed at 8 when the model was compiled; to change it, "
            "compile again with kilnc --batch=N (see --help)");
  EXPECT_NE(answer("--seq=4").find("at 128 when"), std::string::npos);
  EXPECT_NE(answer("--optimizer=adam").find("at sgd when"), std::string::npos);
  EXPECT_NE(answer("--memory-budget=1").find("at 8GiB when"),
            std::string::npos);
  EXPECT_NE(answer("--offload=none").find("at optimizer when"),
            std::string::npos);
  EXPECT_NE(answer("--fuse=off").find("at its default when"),
            std::string::npos);
  EXPECT_NE(answer("--report=r.html").find("is a flag of kilnc that controls"),
            std::string::npos);
  // Skip flags that executables have, too, such as --adapter.
  for (const Flag &flag : compilerFlags())
    if (!findFlag(executableFlags(), flag.name))
      EXPECT_EQ(answer(("--" + std::string(flag.name) + "=1").c_str())
                    .find(flag.dashed() + " "),
                0u);
}

TEST(OptionsTest, TheCheckpointCompletesTheOptionsOfAResumedRun) {
  Result<ParsedOptions> parsed =
      parse({"--data=d.bin", "--resume=m", "--min-lr=1e-5", "--trace=t",
             "--resume-changing=data,batch"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Options &options = parsed->options;
  EXPECT_TRUE(options.continues());
  EXPECT_FALSE(options.stepsGiven);
  EXPECT_TRUE(options.isGiven("--min-lr"));
  EXPECT_FALSE(options.isGiven("--lr"));
  EXPECT_EQ(options.resumeChanging, (std::set<std::string>{"batch", "data"}));
  EXPECT_TRUE(parse({"--data=d.bin", "--resume=m", "--lockstep=3"}).ok());
  for (std::vector<const char *> flags :
       {std::vector<const char *>{"--resume=m", "--generate=1"},
        {"--resume=m", "--data=d", "--steps=0", "--generate=1"},
        {"--resume=m", "--data=d", "--check-memory"},
        {"--data=d", "--steps=1"}}) {
    parsed = parse(flags);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_FALSE(parsed->options.continues());
  }
}

TEST(OptionsTest, ScalingCanBeSwitchedOff) {
  Result<ParsedOptions> parsed =
      parse({"--data=d.bin", "--steps=1", "--lr-scaling=none"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->options.schedule.scaling, RateScaling::None);
}

struct BadFlags {
  std::vector<const char *> flags;
  const char *message; ///< Expected part of the error.
};

class BadOptionsTest : public testing::TestWithParam<BadFlags> {};

TEST_P(BadOptionsTest, AreUsageErrorsOfOneLine) {
  Result<ParsedOptions> parsed = parse(GetParam().flags);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), ExitCode::Usage);
  EXPECT_NE(parsed.status().message().find(GetParam().message),
            std::string::npos)
      << parsed.status().message();
  EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Flags, BadOptionsTest,
    testing::Values(
        BadFlags{{}, "nothing to do"},
        BadFlags{{"--data=d"}, "--steps=N is missing"},
        BadFlags{{"--nonsense"}, "--nonsense"},
        BadFlags{{"stray", "--describe"}, "stray"},
        BadFlags{{"--steps=5"}, "--steps needs --data=FILE"},
        BadFlags{{"--steps=x", "--data=d"}, "--steps"},
        BadFlags{{"--steps=-1", "--data=d"}, "--steps"},
        BadFlags{{"--steps=99999999999999999999", "--data=d"}, "too large"},
        BadFlags{{"--steps=1", "--data=d", "--threads=3000000000"},
                 "'3000000000' is too large, expected at most 2147483647"},
        BadFlags{{"--steps=1", "--data=d", "--seed=-1"},
                 "--seed: '-1' is not a whole number of at least 0"},
        BadFlags{{"--steps=1", "--data=d", "--lr-gamma=2"},
                 "--lr-gamma: '2' is not a number above 0 and at most 1"},
        BadFlags{{"--steps=0"}, "nothing to do"},
        BadFlags{{"--steps=1", "--steps=2", "--data=d"}, "--steps"},
        BadFlags{{"--steps=1", "--data=d", "--lr=-1"}, "--lr"},
        BadFlags{{"--steps=1", "--data=d", "--lr=nan"}, "--lr"},
        BadFlags{{"--steps=1", "--data=d", "--grad-clip=inf"}, "--grad-clip"},
        BadFlags{{"--steps=1", "--data=d", "--lr-schedule=step"},
                 "--lr-schedule"},
        BadFlags{{"--steps=1", "--data=d", "--lr-schedule=wsd"},
                 "--cooldown-steps"},
        BadFlags{{"--steps=1", "--data=d", "--lr-schedule=exponential"},
                 "--lr-gamma"},
        BadFlags{{"--steps=1", "--data=d", "--cooldown-steps=1"},
                 "--lr-schedule=wsd"},
        BadFlags{{"--steps=1", "--data=d", "--min-lr=1e-5"}, "--lr-schedule"},
        BadFlags{{"--steps=1", "--data=d", "--lr-schedule=cosine", "--lr=1e-5",
                  "--min-lr=1e-4"},
                 "above --lr"},
        BadFlags{{"--steps=1", "--data=d", "--lr-scaling=sqrt"},
                 "--base-batch"},
        BadFlags{
            {"--steps=1", "--data=d", "--warmup-steps=1", "--warmup=constant"},
            "--lr-scaling"},
        BadFlags{
            {"--steps=1", "--data=d", "--base-batch=4", "--lr-scaling=none"},
            "--base-batch needs --lr-scaling"},
        BadFlags{{"--resume=m"}, "nothing to do"},
        BadFlags{{"--resume=m", "--data=d", "--steps=0"}, "nothing to do"},
        BadFlags{{"--steps=1", "--data=d", "--resume-changing=data"},
                 "--resume-changing needs --resume"},
        BadFlags{{"--data=d", "--resume=m", "--resume-changing=batch,speed"},
                 "'speed' is unknown, expected one or more of optimizer, "
                 "dropout, lossy, lora, batch, seq, clip, frozen, data"},
        BadFlags{{"--steps=1", "--data=d", "--save-every=2"}, "--save"},
        BadFlags{{"--steps=1", "--data=d", "--val-every=2"}, "--val-data"},
        BadFlags{{"--steps=1", "--data=d", "--init=m", "--from-scratch"},
                 "contradict"},
        BadFlags{{"--steps=1", "--data=d", "--resume=m", "--init=m"},
                 "contradicts"},
        BadFlags{{"--steps=1", "--data=d", "--prompt=hi"}, "--generate"},
        BadFlags{{"--generate=1", "--temperature=-1"}, "--temperature"},
        BadFlags{{"--generate=1", "--trace=t.json"}, "--steps"},
        BadFlags{{"--steps=1", "--data=d", "--lockstep=-1"}, "--lockstep"},
        BadFlags{{"--generate=1", "--lockstep=3"}, "--steps"},
        BadFlags{{"--steps=1", "--data=d", "--lockstep=3", "--save=s"},
                 "--save is not supported with --lockstep"},
        BadFlags{{"--steps=1", "--data=d", "--lockstep=3", "--check-trace=t"},
                 "--check-trace is not supported"},
        BadFlags{{"--steps=1", "--data=d", "--peer-timeout=0"},
                 "--peer-timeout"},
        BadFlags{{"--steps=1", "--data=d", "--threads=0"}, "--threads"}));

} // namespace
