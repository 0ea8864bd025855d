//===- AllReduceTest.cpp - Sums over ranks in programs --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests the toy's program "evaluate" with an additional command at its
// beginning: a sum of the two parameters over two ranks.
//
//===----------------------------------------------------------------------===//

#include "ShortForm.h"
#include "ThreadWorlds.h"
#include "ToyProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <gtest/gtest.h>
#include <optional>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

constexpr int64_t tableElements = vocabulary * width;

/// Indexes of commands in the program "evaluate".
constexpr std::size_t sumIndex = 0, waitIndex = 1;

Json describeRanks(int64_t ranks) {
  Json json = describe();
  json["mesh"] = {{{"name", "dp"}, {"size", ranks}}};
  json["queues"].push_back({{"name", "dp"}, {"engine", "link"}});
  const Json &states = json["states"];
  Json sum = {{"op", "all_reduce"},
              {"name", "tables"},
              {"axis", "dp"},
              {"dtype", "f32"},
              {"data", {{states[0]["offset"], 0}, {states[1]["offset"], 0}}},
              {"counts", {tableElements, tableElements}},
              {"token", 0},
              {"queue", "dp"},
              {"after", {"compute"}}};
  Json wait = {{"op", "copy_wait"},
               {"name", "tables"},
               {"token", 0},
               {"queues", {"compute"}}};
  Json &evaluate = json["programs"]["evaluate"];
  insertCommand(evaluate, sumIndex, wait);
  insertCommand(evaluate, sumIndex, sum);
  return json;
}

Json &sumOf(Json &description) {
  return commandAt(description["programs"]["evaluate"], sumIndex);
}

/// Returns the error message, or an empty string if the description is valid.
std::string refusal(const Json &description) {
  Result<ProgramFile> file = parseProgramFile(description.dump(), kernelCount);
  return file.ok() ? "" : file.status().message();
}

TEST(AllReduceTest, ReadsTheSum) {
  Result<ProgramFile> file =
      parseProgramFile(describeRanks(2).dump(), kernelCount);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->description.ranks(), 2);
  EXPECT_EQ(file->description.globalBatch(), 2 * file->description.model.batch);
  EXPECT_NE(file->description.hash, 0u);
  for (std::size_t i = 0; i < file->programs.size(); ++i) {
    const ProgramInfo &info = file->description.programs[i];
    EXPECT_EQ(info.communicates, info.name == "evaluate");
    if (!info.communicates)
      continue;
    const Command &sum = file->programs[i].commands[sumIndex];
    EXPECT_EQ(sum.kind, Command::Kind::Collective);
    EXPECT_EQ(sum.size, 2 * 4 * tableElements);
    EXPECT_EQ(accessesOf(sum).size(), 2u);
    EXPECT_EQ(resultsOf(sum).size(), 2u);
    EXPECT_EQ(transferKind(sum), TransferKind::Collective);
  }
}

struct Damage {
  const char *name;
  const char *key; ///< JSON member of the sum command or the description.
  Json value;
  const char *message;
};

class DamagedSumTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedSumTest, IsOneClearError) {
  Json json = describeRanks(2);
  Json &sum = sumOf(json);
  (sum.contains(GetParam().key) ? sum : json)[GetParam().key] =
      GetParam().value;
  EXPECT_NE(refusal(json).find(GetParam().message), std::string::npos)
      << refusal(json);
}

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedSumTest,
    testing::Values(
        Damage{"Axis", "axis", "pp",
               "is 'pp', expected the name of an axis of the mesh"},
        Damage{"Type", "dtype", "i32",
               "is 'i32', expected f64, f32, bf16, f16 or i8"},
        Damage{"NoData", "data", Json::array(),
               "is empty, expected the address of at least one tensor"},
        Damage{"Counts",
               "counts",
               {tableElements},
               "has 1 elements, expected one for each of the 2 elements"},
        Damage{"ZeroCount", "counts", {0, 1}, "counts[0]"},
        Damage{"LargeCount",
               "counts",
               {int64_t(1) << 62, 1},
               "requires more than 2^63 - 1 bytes"},
        Damage{"Address",
               "data",
               {{0, 0}, {2, 0}},
               "that is not a multiple of 4 bytes"},
        Damage{"Overlap",
               "data",
               {{0, 0}, {4, 0}},
               "has tensors that overlap at byte 4"},
        Damage{"Queue", "queue", "compute", "expected a queue of engine link"},
        Damage{"Token", "token", 1, "no transfer has token 0"},
        Damage{"AxisTwice",
               "mesh",
               {{{"name", "dp"}, {"size", 2}}, {{"name", "dp"}, {"size", 2}}},
               "the name of another axis"},
        Damage{"ManyRanks",
               "mesh",
               {{{"name", "dp"}, {"size", 70000}}},
               "which gives the mesh more than 65536 ranks"},
        Damage{"SyncEvery", "sync_every", 1, "sync_every"}),
    [](const auto &info) { return info.param.name; });

TEST(AllReduceTest, OtherCommandsMayNotAccessTheTensorsInFlight) {
  Json json = describeRanks(2);
  Json &evaluate = json["programs"]["evaluate"];
  Json fill = {{"op", "fill"},
               {"name", "second table"},
               {"ref", sumOf(json)["data"][1]},
               {"bytes", 4},
               {"queue", "compute"}};
  insertCommand(evaluate, waitIndex, fill);
  EXPECT_NE(refusal(json).find("(fill 'second table') writes the data of "
                               "all_reduce 'tables' at commands[0] while that "
                               "collective is in flight"),
            std::string::npos)
      << refusal(json);
}

TEST(AllReduceTest, AveragesAreThoseOfDataParallelRanks) {
  Json json = describeRanks(2);
  json["sync_every"] = 4;
  EXPECT_EQ(refusal(json), "");
  json["mesh"] = {{{"name", "tp"}, {"size", 2}}};
  EXPECT_NE(refusal(json).find(
                "is set, but the mesh has only one rank on the axis dp"),
            std::string::npos)
      << refusal(json);
}

TEST(AllReduceTest, EverySumHasAWait) {
  Json json = describeRanks(2);
  Json &evaluate = json["programs"]["evaluate"];
  // Move the sum of the parameters to the end of the program, so that no later
  // command accesses the parameters, and remove the wait for the sum.
  Json sum = sumOf(json);
  eraseCommand(evaluate, waitIndex);
  eraseCommand(evaluate, sumIndex);
  commandsOf(evaluate).push_back(sum);
  EXPECT_NE(refusal(json).find("(all_reduce 'tables') has no copy_wait"),
            std::string::npos)
      << refusal(json);
}

/// Returns a description whose "evaluate" executes commands while sums are
/// pending: it sums each of the two parameters while it reads the other one.
Json describeOverlap() {
  Json json = describeRanks(2);
  Json &evaluate = json["programs"]["evaluate"];
  Json sum = sumOf(json), wait = commandAt(evaluate, waitIndex);
  Json data = sum["data"];
  eraseCommand(evaluate, waitIndex);
  eraseCommand(evaluate, sumIndex);
  // The commands are: gather, which reads parameter 0; logits, which reads
  // parameter 1; loss; sum.
  auto insert = [&](std::size_t place, Json command, int token) {
    command["name"] = "parameter " + std::to_string(1 - token);
    command["token"] = token;
    if (command.contains("data")) {
      command["data"] = Json::array({data[std::size_t(1 - token)]});
      command["counts"] = Json::array({tableElements});
    }
    insertCommand(evaluate, place, command);
  };
  insert(0, sum, 0);
  insert(2, wait, 0);
  insert(3, sum, 1);
  insert(6, wait, 1);
  return json;
}

/// Runs the program "evaluate", which sums the parameters over the ranks, on
/// two ranks with different parameters, and checks the sums. If the seed
/// `stress` is given, each rank executes every asynchronous sum at a random
/// point between its start and its wait. Returns the losses of the ranks.
std::array<double, 2> checkSums(const Json &json,
                                std::optional<uint64_t> stress) {
  ThreadWorlds worlds(2);
  std::array<double, 2> losses = {};
  worlds.onEach([&](World &world) {
    Result<std::unique_ptr<Engine>> made = makeEngine(json);
    ASSERT_TRUE(made.ok()) << made.status().message();
    Engine &engine = **made;
    if (stress)
      ASSERT_TRUE(engine.stressCopies(*stress + 100 * world.rank()).ok());
    ASSERT_TRUE(engine.join(world).ok());
    ASSERT_TRUE(engine.start(1).ok());
    for (std::size_t state : {0, 1})
      for (int64_t i = 0; i < tableElements; ++i)
        reinterpret_cast<float *>(engine.stateData(state))[i] =
            float(i % 100 + 1000 * world.rank() + int64_t(state));
    std::size_t evaluate = 0;
    while (engine.description().programs[evaluate].name != "evaluate")
      ++evaluate;
    const ProgramInfo &info = engine.description().programs[evaluate];
    for (std::size_t i = 0; i < info.inputs.size(); ++i)
      if (info.inputs[i].name == "loss_scale")
        *reinterpret_cast<double *>(engine.inputData(evaluate, i)) = 1;
    ASSERT_TRUE(engine.run(evaluate).ok());
    for (std::size_t state : {0, 1})
      for (int64_t i = 0; i < tableElements; ++i)
        ASSERT_EQ(reinterpret_cast<float *>(engine.stateData(state))[i],
                  float(2 * (i % 100) + 1000 + 2 * int64_t(state)));
    std::optional<SumCounts> sums = engine.sums(evaluate);
    ASSERT_TRUE(sums.has_value());
    if (!stress)
      // The two parameters have tableElements floats each. In a ring of two
      // ranks, each rank sends one half of these elements so that they are
      // summed, and then the sums of the other half.
      EXPECT_EQ(sums->sentBytes, 2 * 4 * tableElements);
    EXPECT_GT(engine.memory().commScratchBytes, 0);
    losses[std::size_t(world.rank())] =
        *reinterpret_cast<double *>(engine.outputData(evaluate, 0));
  });
  return losses;
}

TEST(AllReduceTest, RanksSumTheirTables) { checkSums(describeRanks(2), {}); }

TEST(AllReduceTest, TheTimesOfSumsDoNotChangeThem) {
  Json json = describeOverlap();
  std::array<double, 2> losses = checkSums(json, {});
  EXPECT_NE(losses[0], 0);
  // The ranks have different losses, because parameter 0 is read before it is
  // summed.
  EXPECT_NE(losses[0], losses[1]);
  for (uint64_t seed = 1; seed <= 8; ++seed)
    EXPECT_EQ(checkSums(json, seed), losses) << seed;
}

TEST(AllReduceTest, WithoutOtherRanksASumHasNoEffect) {
  Result<std::unique_ptr<Engine>> made = makeEngine(describeRanks(1));
  ASSERT_TRUE(made.ok()) << made.status().message();
  Engine &engine = **made;
  ASSERT_TRUE(engine.start(1).ok());
  auto *table = reinterpret_cast<float *>(engine.stateData(0));
  std::fill_n(table, tableElements, 3.0f);
  for (std::size_t i = 0; i < engine.description().programs.size(); ++i)
    if (engine.description().programs[i].name == "evaluate")
      EXPECT_TRUE(engine.run(i).ok());
  EXPECT_EQ(table[5], 3.0f);
}

TEST(AllReduceTest, TheNumberOfRanksMustBeThatOfTheProgram) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    Result<std::unique_ptr<Engine>> made = makeEngine(describeRanks(2));
    ASSERT_TRUE(made.ok());
    EXPECT_EQ((*made)->join(world).message(),
              "the executable has 2 ranks, but 3 were started");
  });
}

} // namespace
