//===- FlagsTest.cpp - Tests of flag names and suggestions ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Flags.h"

#include <gtest/gtest.h>

using namespace kiln::support;
using namespace kiln;

namespace {

std::string nearest(const FlagTable &table, std::string_view name) {
  const Flag *flag = nearestFlag(table, name);
  return flag ? std::string(flag->name) : "";
}

TEST(FlagsTest, NamesTheNearestFlag) {
  const FlagTable &flags = executableFlags();
  EXPECT_EQ(nearest(flags, "stpes"), "steps");
  EXPECT_EQ(nearest(flags, "step"), "steps");
  EXPECT_EQ(nearest(flags, "rl"), "lr");
  EXPECT_EQ(nearest(flags, "LR"), "lr");
  EXPECT_EQ(nearest(flags, "val_data"), "val-data");
  EXPECT_EQ(nearest(flags, "warmup_step"), "warmup-steps");
  EXPECT_EQ(nearest(flags, "resumes"), "resume");
  EXPECT_EQ(nearest(compilerFlags(), "precison"), "precision");
}

TEST(FlagsTest, CompletesAndShortensWords) {
  EXPECT_EQ(nearest(compilerFlags(), "micro"), "microbatches");
  EXPECT_EQ(nearest(compilerFlags(), "batch-size"), "batch");
  EXPECT_EQ(nearest(executableFlags(), "save-"), "save");
  // The abbreviation is ambiguous: --val-data, --val-every or --val-batches.
  EXPECT_EQ(nearest(executableFlags(), "val"), "");
}

TEST(FlagsTest, KnowsNamesOfOtherTrainers) {
  EXPECT_EQ(nearest(executableFlags(), "learning_rate"), "lr");
  EXPECT_EQ(nearest(executableFlags(), "max-steps"), "steps");
  EXPECT_EQ(nearest(compilerFlags(), "block_size"), "seq");
  EXPECT_EQ(nearest(compilerFlags(), "learning-rate"), "");
}

TEST(FlagsTest, NamesNothingForWhatIsFar) {
  EXPECT_EQ(nearest(executableFlags(), "frobnicate"), "");
  EXPECT_EQ(nearest(executableFlags(), "locksteps"), ""); // Internal flags are
                                                          // not suggested.
  EXPECT_EQ(nearest(executableFlags(), ""), "");
  EXPECT_EQ(nearest(compilerFlags(), "x"), "");
  EXPECT_EQ(nearest(executableFlags(), std::string(1 << 20, 's')), "");
}

CommandLineRules rules() {
  CommandLineRules rules;
  rules.own = {
      {"steps", "N"}, {"describe", ""}, {"o", "FILE"}, {"only", "X", true}};
  rules.other = {{"batch", "N"}};
  rules.explainOther = [](const Flag &flag) {
    return flag.dashed() + " was fixed";
  };
  return rules;
}

std::string refusal(const std::vector<std::string> &words,
                    const CommandLineRules &by = rules()) {
  Result<std::vector<std::string>> checked = checkCommandLine(words, by);
  if (checked.ok())
    return "";
  EXPECT_EQ(checked.status().code(), ExitCode::Usage);
  EXPECT_EQ(checked.status().message().find('\n'), std::string::npos);
  return checked.status().message();
}

TEST(FlagsTest, ReturnsWhatIsNoFlag) {
  Result<std::vector<std::string>> rest = checkCommandLine(
      {"a", "--steps", "-3", "-o", "out", "--only=1", "--only=2", "b", "-"},
      rules());
  ASSERT_TRUE(rest.ok()) << rest.status().message();
  EXPECT_EQ(*rest, (std::vector<std::string>{"a", "b", "-"}));
}

TEST(FlagsTest, RefusesInOneLine) {
  EXPECT_EQ(refusal({"--stpes=5"}),
            "unknown flag '--stpes=5': did you mean --steps=N? (see --help)");
  EXPECT_EQ(refusal({"--nonsense"}), "unknown flag '--nonsense' (see --help)");
  EXPECT_EQ(refusal({"--\x1b[31m"}), "unknown flag '--\\x1b[31m' (see --help)");
  EXPECT_EQ(refusal({"--batch=4"}), "--batch was fixed (see --help)");
  EXPECT_EQ(refusal({"--bacth=4"}), "unknown flag '--bacth=4': did you mean "
                                    "--batch? --batch was fixed (see --help)");
  EXPECT_EQ(refusal({"-steps=5"}),
            "'-steps=5' has one dash: write --steps=N (see --help)");
  EXPECT_EQ(refusal({"--steps=1", "--steps=2"}),
            "--steps is given twice: '--steps=1' and '--steps=2' (see --help)");
  EXPECT_EQ(
      refusal({"--describe=yes"}),
      "--describe does not take a value, found '--describe=yes' (see --help)");
}

TEST(FlagsTest, AsksForValues) {
  const std::string steps = "--steps needs a value: --steps=N (see --help)";
  EXPECT_EQ(refusal({"--steps"}), steps);
  EXPECT_EQ(refusal({"--steps="}), steps);
  EXPECT_EQ(refusal({"--steps", "--describe"}), steps);
  EXPECT_EQ(refusal({"--steps", ""}), steps);
  EXPECT_EQ(refusal({"-o"}), "-o needs a value: -o FILE (see --help)");
  EXPECT_EQ(refusal({"-o", ""}), "-o needs a value: -o FILE (see --help)");
}

TEST(FlagsTest, FollowsTheRulesOfAProgram) {
  CommandLineRules other = rules();
  other.acceptsSingleDash = true;
  EXPECT_EQ(refusal({"-steps=5"}, other), "");
  other.acceptsSeparateValues = false;
  EXPECT_EQ(refusal({"--steps", "5"}, other),
            "--steps needs a value: --steps=N (see --help)");
}

TEST(FlagsTest, LeavesHelpAlone) {
  EXPECT_EQ(refusal({"--nonsense", "--help"}), "");
}

} // namespace
