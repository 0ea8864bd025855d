//===- ShardedRunTest.cpp - Runs with sharded states ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes complete runs without steps, which initialize or load states and
// save them.
//
//===----------------------------------------------------------------------===//

#include "TrainingDriver.h"

#include "ShardedEngine.h"
#include "TestFiles.h"
#include "ThreadWorlds.h"

using namespace kiln::runtime;
using namespace kiln;

namespace {

StateList describeModel(int64_t ranks) {
  StateList list(ranks);
  list.addSharded("w", ElementType::F32, {7, 3});
  list.makeMirror(list.add("w.bf16", ElementType::BF16, {7, 3}), "w");
  list.add("b", ElementType::F32, {5});
  list.addMoment("w", "m", {7, 3});
  return list;
}

/// Runs a command line on all ranks. Returns the message of the first rank, and
/// expects that the other ranks have the same message. `failing` is a rank
/// whose first state cannot be accessed. `slow` is a rank whose start takes
/// longer than the time limit for messages of other ranks.
std::string run(int64_t size, std::vector<std::string> flags, int failing = -1,
                int slow = -1) {
  std::vector<std::string> messages(static_cast<size_t>(size));
  auto onRank = [&](Ranks ranks) {
    ShardedEngine engine(describeModel(size).description());
    if (ranks.rank() == failing)
      engine.failAt(0);
    if (ranks.rank() == slow)
      engine.delayStart(std::chrono::milliseconds(2000));
    std::vector<char *> arguments = {const_cast<char *>("train")};
    for (std::string &flag : flags)
      arguments.push_back(flag.data());
    Result<ParsedOptions> options = parseOptions(
        int(arguments.size()), arguments.data(), &engine.description());
    ASSERT_TRUE(options.ok()) << options.status().message();
    Status status =
        ranks.finish(Driver(engine, options->options, ranks).drive());
    messages[size_t(ranks.rank())] = status.message();
  };
  if (size == 1) {
    onRank(Ranks());
  } else {
    ThreadWorlds worlds(int(size), /*peerTimeout=*/slow < 0 ? 20 : 1);
    worlds.onEach([&](World &world) { onRank(Ranks(world)); });
  }
  for (const std::string &message : messages)
    EXPECT_EQ(message, messages[0]);
  return messages[0];
}

std::string weightsIn(const std::string &path) {
  std::string bytes = readBytes(path + "/checkpoint-0/model.safetensors");
  EXPECT_FALSE(bytes.empty());
  return bytes + readBytes(path + "/checkpoint-0/optimizer.safetensors");
}

TEST(ShardedRunTest, CheckpointsDoNotDependOnTheNumberOfRanks) {
  TestDirectory directory;
  EXPECT_EQ(run(1, {"--steps=0", "--seed=3", "--save=" + (directory / "1")}),
            "");
  std::string expected = weightsIn(directory / "1"), last = directory / "1";
  for (int64_t size : {3, 2, 1}) {
    std::string next = last + std::to_string(size);
    EXPECT_EQ(run(size, {"--steps=0", "--seed=3", "--save=" + next + "-new"}),
              "");
    EXPECT_EQ(weightsIn(next + "-new"), expected);
    EXPECT_EQ(run(size, {"--steps=0", "--resume=" + last, "--save=" + next}),
              "");
    EXPECT_EQ(weightsIn(next), expected);
    last = next;
  }
  // If only weights are loaded, moments start at their initial values.
  EXPECT_EQ(run(3, {"--steps=0", "--seed=3",
                    "--init=" + (directory / "1/checkpoint-0"),
                    "--save=" + (directory / "init")}),
            "");
  EXPECT_EQ(weightsIn(directory / "init"), expected);
}

TEST(ShardedRunTest, RanksWaitForARankThatStartsSlowly) {
  TestDirectory directory;
  EXPECT_EQ(run(2, {"--steps=0", "--save=" + (directory / "save")},
                /*failing=*/-1, /*slow=*/1),
            "");
}

TEST(ShardedRunTest, ARankThatCannotStartEndsAll) {
  TestDirectory directory;
  for (int failing : {0, 1, 2})
    EXPECT_EQ(run(3, {"--steps=0", "--save=" + (directory / "save")}, failing),
              (failing > 0 ? "rank " + std::to_string(failing) + ": " : "") +
                  "the device is gone");
  EXPECT_TRUE(directory.names().empty());
}

} // namespace
