//===- CollectiveTest.cpp - Collectives and shards in programs ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests the program "evaluate" of the toy (see ToyProgram.h) with additional
// commands at its beginning: one collective of each kind and a copy of a shard.
// The collectives run over three ranks: all ranks, or the ranks of an axis of a
// mesh. The tensors of 1000 elements are in the two tables of the toy. The
// shards have 334 elements, so that the shard of the last rank ends with two
// zeros.
//
//===----------------------------------------------------------------------===//

#include "ShortForm.h"
#include "ThreadWorlds.h"
#include "ToyProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

constexpr int ranks = 3;
constexpr int64_t whole = 1000, shard = 334;

/// The offsets of the tensors in elements. The tensors are stored in the first
/// two states of the toy model (ToyProgram.h): `scattered` and `gathered` in
/// the first state, and all others in the second.
constexpr int64_t scattered = 0, gathered = 1024;
constexpr int64_t reduced = 0, sumShard = 1024, shardToGather = 2048,
                  copiedShard = 3072;

/// Indexes of commands in "evaluate": three commands start the collectives, and
/// the next three commands wait for them.
constexpr std::size_t reduceIndex = 0, scatterIndex = 1, gatherIndex = 2,
                      firstWait = 3, copyIndex = 6;

Json collective(const char *op, const Json &data, int64_t token) {
  return {{"op", op},       {"name", op},     {"axis", "dp"},
          {"dtype", "f32"}, {"data", {data}}, {"counts", {whole}},
          {"token", token}, {"queue", "dp"},  {"after", {"compute"}}};
}

/// The default mesh.
Json threeRanks() { return {{{"name", "dp"}, {"size", ranks}}}; }

Json describeCollectives(const Json &mesh = threeRanks()) {
  Json json = describe();
  json["mesh"] = mesh;
  json["queues"].push_back({{"name", "dp"}, {"engine", "link"}});
  auto at = [&](std::size_t table, int64_t element) -> Json {
    return {json["states"][table]["offset"].get<int64_t>() + 4 * element, 0};
  };
  Json reduce = collective("all_reduce", at(1, reduced), 0),
       scatter = collective("reduce_scatter", at(0, scattered), 1),
       gather = collective("all_gather", at(0, gathered), 2);
  scatter["shards"] = {at(1, sumShard)};
  gather["shards"] = {at(1, shardToGather)};
  scatter["shard_counts"] = gather["shard_counts"] = {shard};
  std::vector<Json> commands = {reduce, scatter, gather};
  for (int64_t token : {1, 0, 2})
    commands.push_back({{"op", "copy_wait"},
                        {"name", "wait"},
                        {"token", token},
                        {"queues", {"compute"}}});
  commands.push_back({{"op", "copy"},
                      {"name", "take"},
                      {"axis", "dp"},
                      {"from", at(0, gathered)},
                      {"to", at(1, copiedShard)},
                      {"bytes", 4 * shard},
                      {"whole_bytes", 4 * whole},
                      {"queue", "compute"}});
  Json &evaluate = json["programs"]["evaluate"];
  for (std::size_t i = 0; i < commands.size(); ++i)
    insertCommand(evaluate, i, commands[i]);
  return json;
}

Json &command(Json &description, std::size_t index) {
  return commandAt(description["programs"]["evaluate"], index);
}

/// Returns the error message, or an empty string if the description is valid.
std::string refusal(const Json &description) {
  Result<ProgramFile> file = parseProgramFile(description.dump(), kernelCount);
  return file.ok() ? "" : file.status().message();
}

void expectRefusal(const Json &description, const std::string &message) {
  std::string found = refusal(description);
  if (message.empty())
    EXPECT_EQ(found, "");
  else
    EXPECT_NE(found.find(message), std::string::npos) << found;
}

const Program &evaluateOf(const ProgramFile &file) {
  std::size_t i = 0;
  while (file.description.programs[i].name != "evaluate")
    ++i;
  EXPECT_TRUE(file.description.programs[i].communicates);
  return file.programs[i];
}

TEST(CollectiveTest, ReadsTheTensorsAndTheShards) {
  Result<ProgramFile> file =
      parseProgramFile(describeCollectives().dump(), kernelCount);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Program &evaluate = evaluateOf(*file);
  const std::pair<std::size_t, Collective> collectives[] = {
      {reduceIndex, Collective::AllReduce},
      {scatterIndex, Collective::ReduceScatter},
      {gatherIndex, Collective::AllGather}};
  for (auto [index, collective] : collectives) {
    const Command &command = evaluate.commands[index];
    bool hasShards = collective != Collective::AllReduce;
    EXPECT_EQ(command.kind, Command::Kind::Collective);
    EXPECT_EQ(command.collective, collective);
    EXPECT_EQ(transferKind(command), TransferKind::Collective);
    EXPECT_EQ(command.axis, 0);
    EXPECT_EQ(command.size, 4 * whole);
    ASSERT_EQ(command.tensors.size(), 1u);
    EXPECT_EQ(command.tensors[0].whole.count, whole);
    EXPECT_EQ(command.tensors[0].whole.bytes, 4 * whole);
    EXPECT_EQ(command.tensors[0].shard.count, hasShards ? shard : 0);
    EXPECT_EQ(command.tensors[0].shard.bytes, hasShards ? 4 * shard : 0);
    EXPECT_STREQ(commandKindName(command), nameOf(collective));
  }
  const Command &copy = evaluate.commands[copyIndex];
  EXPECT_EQ(copy.kind, Command::Kind::Copy);
  EXPECT_EQ(copy.axis, 0);
  EXPECT_EQ(copy.size, 4 * shard);
  EXPECT_EQ(copy.wholeBytes, 4 * whole);
}

//===----------------------------------------------------------------------===//
// Invalid descriptions
//===----------------------------------------------------------------------===//

struct Damage {
  const char *name;
  std::size_t index; ///< The index of the command.
  const char *key;
  Json value; ///< The new value; null removes the member.
  const char *message;
};

void PrintTo(const Damage &damage, std::ostream *out) { *out << damage.name; }

class DamagedCollectiveTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedCollectiveTest, IsOneClearError) {
  const Damage &damage = GetParam();
  Json json = describeCollectives();
  Json &damaged = command(json, damage.index);
  if (damage.value.is_null())
    damaged.erase(damage.key);
  else
    damaged[damage.key] = damage.value;
  expectRefusal(json, damage.message);
}

constexpr int64_t huge = int64_t(1) << 62;

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedCollectiveTest,
    testing::Values(
        Damage{"ScatterAxis", scatterIndex, "axis", "pp",
               "is 'pp', expected the name of an axis of the mesh"},
        Damage{"GatherAxis", gatherIndex, "axis", "",
               "is '', expected the name of an axis of the mesh"},
        Damage{"NoAxis", gatherIndex, "axis", nullptr, "axis"},
        Damage{"ScatterType", scatterIndex, "dtype", "i32",
               "is 'i32', expected f64, f32, bf16, f16 or i8"},
        Damage{"GatherType", gatherIndex, "dtype", "f33",
               "is 'f33', expected an element type of whole bytes"},
        // An all-gather only moves bytes, so integers are valid.
        Damage{"GatherIntegers", gatherIndex, "dtype", "i32", ""},
        Damage{"NoShards", scatterIndex, "shards", nullptr, "shards"},
        Damage{"NoShardCounts", gatherIndex, "shard_counts", nullptr,
               "shard_counts"},
        Damage{"TwoShards",
               scatterIndex,
               "shards",
               {{0, 0}, {0, 0}},
               "has 2 elements, expected one for each of the 1 elements of "
               "'data'"},
        Damage{"EmptyShards", gatherIndex, "shards", Json::array(),
               "has 0 elements, expected one for each of the 1 elements of "
               "'data'"},
        Damage{"TwoShardCounts",
               gatherIndex,
               "shard_counts",
               {shard, shard},
               "has 2 elements, expected one for each of the 1 elements of "
               "'data'"},
        Damage{"SmallShard",
               scatterIndex,
               "shard_counts",
               {shard - 1},
               "is 333, expected 334 to 1000, because 3 ranks divide a tensor "
               "of size 1000"},
        Damage{"LargeShard",
               gatherIndex,
               "shard_counts",
               {whole + 1},
               "is 1001, expected 334 to 1000"},
        Damage{
            "NoElements", scatterIndex, "shard_counts", {0}, "shard_counts[0]"},
        Damage{"NegativeShard",
               gatherIndex,
               "shard_counts",
               {-1},
               "shard_counts[0]"},
        Damage{"HugeShard",
               gatherIndex,
               "shard_counts",
               {huge},
               "requires more than 2^63 - 1 bytes"},
        Damage{"HugeWhole",
               scatterIndex,
               "counts",
               {huge},
               "requires more than 2^63 - 1 bytes"},
        // A larger tensor needs larger shards.
        Damage{"LargeWhole",
               scatterIndex,
               "counts",
               {whole + 3},
               "is 334, expected 335 to 1003, because 3 ranks"},
        Damage{"ShardAddress",
               scatterIndex,
               "shards",
               {{2, 0}},
               "that is not a multiple of 4 bytes"},
        Damage{"ShardOutsideOfTheArena",
               gatherIndex,
               "shards",
               {{huge, 0}},
               "shards[0]"},
        Damage{"NegativeShardAddress",
               scatterIndex,
               "shards",
               {{-4, 0}},
               "shards[0]"},
        Damage{"MovingShard", gatherIndex, "shards", {{0, 4}}, "shards[0]"},
        Damage{"CopyAxis", copyIndex, "axis", "tp",
               "is 'tp', expected the name of an axis of the mesh"},
        Damage{"CopyWithoutWhole", copyIndex, "whole_bytes", nullptr,
               "whole_bytes"},
        Damage{"CopyOfNothing", copyIndex, "whole_bytes", 0, "whole_bytes"},
        Damage{"CopyOfHugeTensor", copyIndex, "whole_bytes", huge,
               "is 1336, expected 1537228672809129302 to"},
        Damage{"CopyOutsideOfTheArena", copyIndex, "from", {huge, 0}, "from"},
        Damage{"SmallCopy", copyIndex, "bytes", 4 * shard - 4,
               "is 1332, expected 1334 to 4000, because 3 ranks"},
        Damage{"LargeCopy", copyIndex, "bytes", 4 * whole + 4,
               "is 4004, expected 1334 to 4000, because 3 ranks"}),
    [](const auto &info) { return info.param.name; });

TEST(CollectiveTest, TensorsAndShardsDoNotOverlap) {
  for (std::size_t index : {scatterIndex, gatherIndex}) {
    Json json = describeCollectives();
    Json &damaged = command(json, index);
    int64_t last = damaged["data"][0][0].get<int64_t>() + 4 * (whole - 1);
    damaged["shards"] = {{last, 0}};
    expectRefusal(json, "has tensors that overlap at byte " +
                            std::to_string(last) +
                            ", but a collective accesses every byte at most "
                            "once");
    damaged["shards"] = {{last + 4, 0}};
    // These shards are behind the tensor, so they do not overlap with it.
    EXPECT_EQ(refusal(json).find("overlap"), std::string::npos)
        << refusal(json);
  }
  // Test the shards of two tensors.
  Json json = describeCollectives();
  Json &scatter = command(json, scatterIndex);
  int64_t data = scatter["data"][0][0], shards = scatter["shards"][0][0];
  scatter["data"] = {{data, 0}, {data + 4 * 600, 0}};
  scatter["counts"] = {600, 400};
  scatter["shard_counts"] = {200, 134};
  scatter["shards"] = {{shards, 0}, {shards + 4 * 199, 0}};
  expectRefusal(json, "has tensors that overlap at byte " +
                          std::to_string(shards + 4 * 199));
  scatter["shards"] = {{shards, 0}, {shards + 4 * 200, 0}};
  expectRefusal(json, "");
}

TEST(CollectiveTest, TheTensorsOfAGpuAreOnTheDevice) {
  for (std::size_t index : {reduceIndex, scatterIndex, gatherIndex}) {
    for (const char *list : {"data", "shards"}) {
      Json json = describeCollectives();
      json["target"]["kind"] = "cuda";
      json["arena"]["host_bytes"] = 1 << 20;
      Json &evaluate = json["programs"]["evaluate"];
      Json only = command(json, index);
      for (std::size_t i = 0; i <= copyIndex; ++i)
        eraseCommand(evaluate, 0);
      if (!only.contains(list))
        continue;
      only[list] = {{0, 0, "host"}};
      insertCommand(evaluate, 0, only);
      expectRefusal(json, "is in the host arena, but collectives of ranks with "
                          "GPUs access only the device arena");
    }
  }
}

TEST(CollectiveTest, OnlyACopyOnOneQueueTakesAShard) {
  Json json = describeCollectives();
  Json &copy = command(json, copyIndex);
  copy["op"] = "copy_start";
  copy["token"] = 3;
  copy["queue"] = "dp";
  expectRefusal(json,
                "is given, but a copy_start cannot copy the shard of a rank: "
                "use the command 'copy'");
}

/// Returns a description in which a command accesses the four bytes at `place`
/// while all collectives are in flight. If `writes` is true, the command fills
/// these bytes. Otherwise, it copies them to the last element of the second
/// state.
Json withAccess(const Json &place, bool writes) {
  Json json = describeCollectives();
  Json access = {
      {"op", "copy"}, {"name", "access"}, {"bytes", 4}, {"queue", "compute"}};
  if (writes) {
    access["op"] = "fill";
    access["ref"] = place;
  } else {
    access["from"] = place;
    access["to"] = {json["states"][1]["offset"].get<int64_t>() +
                        4 * (vocabulary * width - 1),
                    0};
  }
  insertCommand(json["programs"]["evaluate"], firstWait, access);
  return json;
}

TEST(CollectiveTest, OtherCommandsMayNotAccessTheTensorsInFlight) {
  Json valid = describeCollectives();
  struct Case {
    std::size_t index;
    const char *list;
    bool mayRead;
  };
  for (auto [index, list, mayRead] :
       {Case{reduceIndex, "data", false}, Case{scatterIndex, "data", false},
        Case{scatterIndex, "shards", false}, Case{gatherIndex, "data", false},
        Case{gatherIndex, "shards", true}}) {
    const Json &damaged = command(valid, index);
    std::string name = damaged["op"];
    for (bool writes : {false, true})
      expectRefusal(withAccess(damaged[list][0], writes),
                    mayRead && !writes
                        ? ""
                        : "the data of " + name + " '" + name +
                              "' at commands[" + std::to_string(index) +
                              "] while that collective is in flight");
  }
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

struct Tables {
  float *first, *second;
};

Tables tablesOf(Engine &engine) {
  return {reinterpret_cast<float *>(engine.stateData(0)),
          reinterpret_cast<float *>(engine.stateData(1))};
}

std::size_t indexOfEvaluate(const Engine &engine) {
  std::size_t index = 0;
  while (engine.description().programs[index].name != "evaluate")
    ++index;
  return index;
}

/// Returns element i of the tensor that is gathered.
float element(int64_t i) { return float(3 * i + 1); }

/// Sets the inputs of the collectives in the two states to values that depend
/// on `rank`, the index of the rank on the axis of the collectives. Sets all
/// other elements of the states to -1.
void setTables(Engine &engine, int rank) {
  auto [first, second] = tablesOf(engine);
  std::fill_n(first, vocabulary * width, -1.0f);
  std::fill_n(second, vocabulary * width, -1.0f);
  for (int64_t i = 0; i < whole; ++i) {
    first[scattered + i] = float(i + 1000 * rank);
    second[reduced + i] = float(2 * i + 1000 * rank);
  }
  // This also sets the padding of the last shard, which is not gathered.
  for (int64_t i = 0; i < shard; ++i)
    second[shardToGather + i] = element(rank * shard + i);
}

void checkShards(Engine &engine, int rank) {
  auto [first, second] = tablesOf(engine);
  for (int64_t i = 0; i < whole; ++i) {
    ASSERT_EQ(second[reduced + i], float(6 * i + 3000)) << i;
    ASSERT_EQ(first[gathered + i], element(i)) << i;
  }
  for (int64_t i = 0; i < shard; ++i) {
    int64_t place = rank * shard + i;
    bool isPadding = place >= whole;
    ASSERT_EQ(second[sumShard + i], isPadding ? 0 : float(3 * place + 3000))
        << i;
    ASSERT_EQ(second[copiedShard + i], isPadding ? 0 : element(place)) << i;
  }
  // The elements after the tensors must not change.
  ASSERT_EQ(second[reduced + whole], -1);
  ASSERT_EQ(second[sumShard + shard], -1);
  ASSERT_EQ(second[copiedShard + shard], -1);
  ASSERT_EQ(first[scattered + whole], -1);
  ASSERT_EQ(first[gathered + whole], -1);
}

/// Runs "evaluate" on the ranks of a mesh. With `stress`, collectives are
/// executed at random points, which differ between ranks. The collectives and
/// the copy use the axis `axis`, which has three ranks.
void runRanks(std::optional<uint64_t> stress, const Json &mesh = threeRanks(),
              const char *axis = "dp") {
  Json json = describeCollectives(mesh);
  for (std::size_t i : {reduceIndex, scatterIndex, gatherIndex, copyIndex})
    command(json, i)["axis"] = axis;
  Result<ProgramFile> file = parseProgramFile(json.dump(), kernelCount);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const support::Mesh &grid = file->description.mesh;
  ThreadWorlds worlds{int(grid.size())};
  worlds.onEach([&](World &world) {
    int index = int(grid.indexOn(axis, world.rank()));
    Result<std::unique_ptr<Engine>> made = makeEngine(json);
    ASSERT_TRUE(made.ok()) << made.status().message();
    Engine &engine = **made;
    if (stress)
      ASSERT_TRUE(
          engine.stressCopies(*stress + 100 * uint64_t(world.rank())).ok());
    ASSERT_TRUE(engine.join(world).ok());
    ASSERT_TRUE(engine.start(1).ok());
    std::size_t evaluate = indexOfEvaluate(engine);
    for (int run = 0; run < 2; ++run) {
      setTables(engine, index);
      ASSERT_TRUE(engine.run(evaluate).ok());
      checkShards(engine, index);
    }
    std::optional<SumCounts> counts = engine.sums(evaluate);
    ASSERT_TRUE(counts.has_value());
    if (!stress)
      EXPECT_GT(counts->sentBytes, 0);
    EXPECT_GT(engine.memory().commScratchBytes, 0);
  });
}

TEST(CollectiveTest, RanksExchangeShards) { runRanks({}); }

TEST(CollectiveTest, TheRanksOfAnAxisExchangeShards) {
  Json inner = {{{"name", "dp"}, {"size", 2}}, {{"name", "tp"}, {"size", 3}}};
  Json outer = {{{"name", "dp"}, {"size", 3}}, {{"name", "tp"}, {"size", 2}}};
  runRanks({}, inner, "tp");
  runRanks({}, outer, "dp");
  runRanks(7, inner, "tp");
}

TEST(CollectiveTest, EnginesHaveTwoAxes) {
  Json mesh = {{{"name", "dp"}, {"size", 3}}, {{"name", "pp"}, {"size", 2}}};
  EXPECT_EQ(makeEngine(describeCollectives(mesh)).status().message(),
            "the mesh of the program description has 2 ranks on axis 'pp', but "
            "this version of kiln supports only the axes 'dp' and 'tp'");
}

TEST(CollectiveTest, TheTimesOfCollectivesDoNotChangeThem) {
  for (uint64_t seed = 1; seed <= 8; ++seed)
    runRanks(seed);
}

TEST(CollectiveTest, WithoutOtherRanksARankHasTheFirstShard) {
  Result<std::unique_ptr<Engine>> made = makeEngine(describeCollectives());
  ASSERT_TRUE(made.ok()) << made.status().message();
  Engine &engine = **made;
  ASSERT_TRUE(engine.start(1).ok());
  setTables(engine, 0);
  ASSERT_TRUE(engine.run(indexOfEvaluate(engine)).ok());
  auto [first, second] = tablesOf(engine);
  for (int64_t i = 0; i < shard; ++i) {
    ASSERT_EQ(second[sumShard + i], float(i));
    ASSERT_EQ(first[gathered + i], element(i));
    ASSERT_EQ(second[copiedShard + i], element(i));
  }
  EXPECT_EQ(second[reduced + 5], 10.0f);
  EXPECT_EQ(first[gathered + shard], 0);
}

} // namespace
