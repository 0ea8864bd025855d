//===- MemoryCheckTest.cpp - Planted faults are caught --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunToy.h"

using namespace kiln;
using namespace kiln::toy;

namespace {

class MemoryCheckTest : public ToyTest {
protected:
  Outcome check(const toy::Options &options) {
    return runToy(describe(options), {"--check-memory"});
  }
  /// The lines of the table that failed.
  static std::string failures(const std::string &table) {
    std::istringstream lines(table);
    std::string failed;
    for (std::string line; std::getline(lines, line);)
      if (line.rfind("FAIL", 0) == 0)
        failed += line + "\n";
    return failed;
  }
};

TEST_F(MemoryCheckTest, SoundPlanPasses) {
  Outcome outcome = runToy({"--check-memory", "--threads=2"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  for (const char *program : {"train", "evaluate", "generate"})
    EXPECT_NE(outcome.out.find(std::string(program) +
                               ": each command changes only its results"),
              std::string::npos);
}

TEST_F(MemoryCheckTest, HighestSlotOneByteShort) {
  toy::Options options;
  options.shortSlot = "grad_hidden";
  Outcome outcome = check(options);
  EXPECT_EQ(outcome.exitCode, 1);
  std::string failed = failures(outcome.out);
  EXPECT_NE(failed.find("train: end of the highest byte written"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(failed.find("'d_hidden' changed byte"), std::string::npos)
      << outcome.out;
}

TEST_F(MemoryCheckTest, AnySlotOneByteShort) {
  for (const char *slot : {"hidden", "row_loss", "logits", "grad_E", "grad_U",
                           "loss", "grad_norm"}) {
    toy::Options options;
    options.shortSlot = slot;
    Outcome outcome = check(options);
    EXPECT_EQ(outcome.exitCode, 1) << slot;
    EXPECT_NE(failures(outcome.out).find("in no live slot"), std::string::npos)
        << slot << "\n"
        << outcome.out;
  }
}

TEST_F(MemoryCheckTest, LifetimeOneCommandShort) {
  for (const char *slot : {"hidden", "row_loss", "logits", "grad_hidden",
                           "grad_E", "grad_U", "targets", "lr"}) {
    toy::Options options;
    options.shortLife = slot;
    Outcome outcome = check(options);
    EXPECT_EQ(outcome.exitCode, 1) << slot;
    EXPECT_NE(failures(outcome.out)
                  .find("slot '" + std::string(slot) + "' is used after"),
              std::string::npos)
        << slot << "\n"
        << outcome.out;
  }
}

TEST_F(MemoryCheckTest, WriteToAnUndeclaredResult) {
  nlohmann::json description = describe();
  // The row losses are written too.
  description["programs"]["train"]["commands"][4]["writes"] = {0};
  Outcome outcome = runToy(description, {"--check-memory"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_NE(failures(outcome.out).find("of live slot 'row_loss'"),
            std::string::npos)
      << outcome.out;
}

TEST_F(MemoryCheckTest, ReadOfWhatNobodyWrote) {
  nlohmann::json description = describe();
  // Without the fill, the gradient of E starts as whatever was there.
  nlohmann::json &commands = description["programs"]["train"]["commands"];
  commands[0]["bytes"] = 0;
  Outcome outcome = runToy(description, {"--check-memory"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_NE(failures(outcome.out).find("what memory held before"),
            std::string::npos)
      << outcome.out;
}

TEST_F(MemoryCheckTest, PlanWithoutSlots) {
  nlohmann::json description = describe();
  description["programs"]["train"].erase("slots");
  Outcome outcome = runToy(description, {"--check-memory"});
  EXPECT_EQ(outcome.exitCode, 1);
}

} // namespace
