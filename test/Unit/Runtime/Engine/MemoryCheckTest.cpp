//===- MemoryCheckTest.cpp - Detection of injected faults -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunToy.h"
#include "ToyOffload.h"

#include <cstring>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;

namespace {

class MemoryCheckTest : public ToyTest {
protected:
  Outcome check(const toy::Options &options) {
    return runToy(describe(options), {"--check-memory"});
  }
  /// Returns the lines of `table` that begin with FAIL.
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
  EXPECT_NE(
      failed.find("train: bytes of the arena up to the last byte written"),
      std::string::npos)
      << outcome.out;
  EXPECT_NE(failed.find("'d_hidden' for micro-batch 0 changed byte"),
            std::string::npos)
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
                           "grad_E", "grad_U", "lr"}) {
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
  // The command also writes the row losses, which are not declared as a result.
  toy::commandAt(description["programs"]["train"], 3)["writes"] = {0};
  Outcome outcome = runToy(description, {"--check-memory"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_NE(failures(outcome.out).find("of live slot 'row_loss'"),
            std::string::npos)
      << outcome.out;
}

TEST_F(MemoryCheckTest, ReadOfWhatNobodyWrote) {
  nlohmann::json description = describe();
  // Without the fill, the gradient of E starts from the previous contents of
  // memory.
  nlohmann::json &commands = toy::commandsOf(description["programs"]["train"]);
  commands[0]["bytes"] = 0;
  Outcome outcome = runToy(description, {"--check-memory"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_NE(failures(outcome.out)
                .find("two different initial contents of the memory"),
            std::string::npos)
      << outcome.out;
}

TEST_F(MemoryCheckTest, PlanWithoutSlots) {
  nlohmann::json description = describe();
  description["programs"]["train"].erase("slots");
  Outcome outcome = runToy(description, {"--check-memory"});
  EXPECT_EQ(outcome.exitCode, 1);
}

//===----------------------------------------------------------------------===//
// Two arenas
//===----------------------------------------------------------------------===//

class HostMemoryCheckTest : public MemoryCheckTest {
protected:
  nlohmann::json &slot(const char *name) {
    return findSlot(json_["programs"]["train"], name);
  }
  /// Runs the check, which must fail, and returns the lines that begin with
  /// FAIL.
  std::string failed() {
    Outcome outcome = runToy(json_, {"--check-memory"});
    EXPECT_EQ(outcome.exitCode, 1) << outcome.out << outcome.err;
    return failures(outcome.out);
  }
  nlohmann::json json_ = describeOffloaded();
};

TEST_F(HostMemoryCheckTest, SoundPlanPasses) {
  Outcome outcome = runToy(json_, {"--check-memory"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  for (const char *line :
       {"train: bytes of the host arena up to the last byte written",
        "train: results with 6 transfers executed at their waits instead of "
        "their "
        "starts",
        "slots overwritten after their last use, with the transfers executed "
        "at their "
        "waits",
        "generate: bytes of the host arena up to the last byte written"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line;
}

TEST_F(HostMemoryCheckTest, HighestHostSlotOneByteShort) {
  slot("host_grad_U")["bytes"] = offloadedTableBytes - 1;
  std::string lines = failed();
  EXPECT_NE(
      lines.find("train: bytes of the host arena up to the last byte written"),
      std::string::npos)
      << lines;
  EXPECT_NE(lines.find("'grad_U' changed byte"), std::string::npos) << lines;
  EXPECT_NE(lines.find("on the host, in no live slot"), std::string::npos);
}

TEST_F(HostMemoryCheckTest, AnySlotOfACopyOneByteShort) {
  for (const char *name : {"host_hidden", "hidden_back", "moment_E"}) {
    json_ = describeOffloaded();
    slot(name)["bytes"] = slot(name)["bytes"].get<int64_t>() - 1;
    EXPECT_NE(failed().find("in no live slot"), std::string::npos) << name;
  }
}

TEST_F(HostMemoryCheckTest, LifetimeOneCommandShort) {
  for (const char *name :
       {"host_hidden", "hidden_back", "grad_U", "host_grad_U"}) {
    json_ = describeOffloaded();
    slot(name)["last"] = slot(name)["last"].get<int64_t>() - 1;
    EXPECT_NE(failed().find("slot '" + std::string(name) + "' is used after"),
              std::string::npos)
        << name;
  }
}

TEST_F(HostMemoryCheckTest, WriteToTheHostThatNobodyDeclared) {
  // The update of U also writes its moment, which is not declared as a result.
  toy::commandAt(json_["programs"]["train"], 18)["writes"] = {0};
  std::string lines = failed();
  EXPECT_NE(lines.find("on the host of state 'U.m'"), std::string::npos)
      << lines;
}

TEST_F(HostMemoryCheckTest, ReadOfHostMemoryThatNobodyWrote) {
  // Copy only the first half of the gradient to the host, so that the second
  // half is read there without having been written.
  toy::commandAt(json_["programs"]["train"], 12)["bytes"] =
      offloadedTableBytes / 2;
  EXPECT_NE(failed().find("two different initial contents of the memory"),
            std::string::npos);
}

TEST_F(HostMemoryCheckTest, TouchedHostMemoryCountsAsArena) {
  Result<std::unique_ptr<Engine>> engine = makeEngine(json_);
  ASSERT_TRUE(engine.ok());
  ASSERT_TRUE((*engine)->start(1).ok());
  int64_t before = (*engine)->memory().touchedArenaBytes;
  int64_t library = (*engine)->memory().libraryBytes;
  // State 1, the parameter U, is at the beginning of the host arena.
  std::memset((*engine)->stateData(1), 1, size_t(offloadedTableBytes));
  EXPECT_GE((*engine)->memory().touchedArenaBytes,
            before + offloadedTableBytes);
  EXPECT_EQ((*engine)->memory().libraryBytes, library);
  EXPECT_EQ((*engine)->memory().hostArenaBytes, json_["arena"]["host_bytes"]);
}

} // namespace
