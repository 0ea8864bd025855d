//===- ShardedStatesTest.cpp - States that are divided over ranks ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DamagedDescription.h"
#include "ToyOffload.h"
#include "ToyProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

constexpr int64_t elements = vocabulary * width;

/// Returns a description for two ranks in which the tensor of E.m has twice as
/// many rows as the shard, and that of U.m nearly so, in another shape.
Json withShards() {
  Json json = toy::describe();
  json["mesh"] = {{{"name", "dp"}, {"size", 2}}};
  Json &momentE = json["states"][2], &momentU = json["states"][3];
  momentE["over"] = "dp";
  momentE["global_shape"] = {2 * vocabulary, width};
  momentU["over"] = "dp";
  momentU["global_shape"] = {2 * elements - 1};
  momentU["shard"] = {0};
  return json;
}

TEST(ShardedStatesTest, ReadsTheShards) {
  Result<ProgramFile> file = read(withShards());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const std::vector<StateInfo> &states = file->description.states;
  EXPECT_FALSE(states[0].isSharded());
  EXPECT_TRUE(states[0].isWhole());
  EXPECT_EQ(states[0].rangeOf(1).begin, 0);
  EXPECT_EQ(states[0].rangeOf(1).end, elements);
  const StateInfo &even = states[2], &odd = states[3];
  EXPECT_EQ(even.over, "dp");
  EXPECT_TRUE(even.isSharded());
  EXPECT_FALSE(even.isWhole());
  EXPECT_EQ(even.elements(), elements);
  EXPECT_EQ(even.globalElements(), 2 * elements);
  EXPECT_EQ(even.weightShape(), (std::vector<int64_t>{2 * vocabulary, width}));
  EXPECT_EQ(even.rangeOf(1).begin, elements);
  EXPECT_EQ(even.rangeOf(1).end, 2 * elements);
  EXPECT_EQ(odd.shape.size(), 2u);
  EXPECT_EQ(odd.globalShape, std::vector<int64_t>{2 * elements - 1});
  EXPECT_EQ(odd.shard, std::vector<int64_t>{0});
  EXPECT_EQ(odd.rangeOf(1).size(), elements - 1);
  EXPECT_TRUE(toy::makeEngine(withShards()).ok());
}

TEST(ShardedStatesTest, RangesCoverTheTensor) {
  for (int64_t ranks : {2, 3, 5, 65536})
    for (int64_t count : {0, 1, 2, 7, 18, 20})
      for (int64_t size = (count + ranks - 1) / ranks; size <= count; ++size) {
        StateInfo state;
        state.over = "dp";
        state.globalShape = {count};
        state.shape = {size};
        int64_t end = 0;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          ElementRange range = state.rangeOf(rank);
          EXPECT_EQ(range.begin, end);
          EXPECT_EQ(range.size(), std::min(size, count - end));
          end = range.end;
        }
        EXPECT_EQ(end, count);
      }
}

TEST(ShardedStatesTest, ShardsMayBeOnlyPadding) {
  Json json = withShards();
  json["states"][3]["global_shape"] = {elements};
  Result<ProgramFile> file = read(json);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const StateInfo &state = file->description.states[3];
  EXPECT_FALSE(state.isWhole());
  EXPECT_EQ(state.rangeOf(0).size(), elements);
  EXPECT_EQ(state.rangeOf(1).size(), 0);
}

// The index of a shard is the number of the rank, which would be wrong with a
// second axis.
TEST(ShardedStatesTest, EnginesShardOverAllRanks) {
  Json json = withShards();
  json["mesh"].push_back({{"name", "pp"}, {"size", 3}});
  ASSERT_TRUE(read(json).ok());
  EXPECT_EQ(toy::makeEngine(json).status().message(),
            "the program description has a state, 'E.m', that is divided over "
            "only one of several axes, but this version of kiln runs one role "
            "with one rank: compile the model for one rank");
}

/// The states of an offloaded toy, in which U.device mirrors U. `parameter` and
/// `mirror` are merged into the two states.
Status readMirror(const Json &parameter, const Json &mirror) {
  Json json = describeOffloaded();
  json["mesh"] = {{{"name", "dp"}, {"size", 2}}, {{"name", "pp"}, {"size", 2}}};
  json["states"][1].update(parameter);
  json["states"][4].update(mirror);
  return read(json).status();
}

TEST(ShardedStatesTest, MirrorsAreWholeOrDividedAsTheirParameters) {
  Json half = {
      {"over", "dp"}, {"global_shape", {2 * elements}}, {"shard", {0}}};
  Json padded = {{"over", "dp"}, {"global_shape", {elements}}, {"shard", {0}}};
  Json whole = {{"global_shape", {width, vocabulary}}, {"shard", {0, 0}}};
  Json sameButDivided = whole;
  sameButDivided["over"] = "dp";
  auto with = [](Json json, const char *key, const Json &value) {
    json[key] = value;
    return json;
  };
  auto expectRefusal = [](const Status &status, const std::string &problem) {
    EXPECT_NE(status.message().find("'states[4].of' is a parameter " + problem),
              std::string::npos)
        << status.message();
  };
  EXPECT_EQ(readMirror(half, half).message(), "");
  EXPECT_EQ(readMirror(sameButDivided, whole).message(), "");
  // A whole mirror may be in the arena of its parameter.
  EXPECT_EQ(readMirror(sameButDivided, with(whole, "arena", "host")).message(),
            "");
  expectRefusal(
      readMirror(sameButDivided, with(sameButDivided, "arena", "host")),
      "with the same dtype and in the same arena");
  expectRefusal(readMirror(whole, sameButDivided), "whose shard differs");
  expectRefusal(readMirror(half, padded), "whose shard differs");
  expectRefusal(readMirror(half, with(half, "over", "pp")),
                "whose shard differs");
  expectRefusal(readMirror(half, whole), "whose shard differs");
  expectRefusal(readMirror(half, with(half, "shape", {elements})),
                "whose shape differs");
}

class DamagedShardsTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedShardsTest, IsOneClearError) {
  expectOneClearError(withShards(), "", GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedShardsTest,
    testing::Values(
        Damage{"NoMesh", "/mesh", "discarded",
               "'states[2].over' is 'dp', expected the name of an axis of the "
               "mesh with more than one rank"},
        Damage{"OneRank", "/mesh/0/size", 1,
               "'states[2].over' is 'dp', expected the name of an axis"},
        Damage{"NoAxis", "/states/2/over", "pp",
               "'states[2].over' is 'pp', expected the name of an axis"},
        Damage{"EmptyAxis", "/states/2/over", "",
               "'states[2].over' is '', expected the name of an axis"},
        Damage{"AxisNumber", "/states/2/over", 2,
               "'states[2].over' must be a string"},
        Damage{"AxisList", "/states/2/over", Json::array({"dp"}),
               "'states[2].over' must be a string"},
        Damage{"NotDivided", "/states/3/over", "discarded",
               "'states[3].global_shape' has 1 entries, expected 2, one for "
               "each dimension of the shape"},
        Damage{"TooSmall",
               "/states/3/global_shape",
               {2 * elements + 1},
               "'states[3].shape' has 4096 elements, but 2 shards of a tensor "
               "of 8193 elements have at least 4097 and at most 8193 elements "
               "each"},
        Damage{"TooLarge",
               "/states/3/global_shape",
               {elements - 1},
               "'states[3].shape' has 4096 elements, but 2 shards of a tensor "
               "of 4095 elements have at least 2048 and at most 4095 elements "
               "each"},
        Damage{"EmptyTensor",
               "/states/3/global_shape",
               {0},
               "have at least 0 and at most 0 elements each"},
        Damage{"ShapeTooLarge",
               "/states/2/shape",
               {int64_t(1) << 56},
               "'states[2].shape' has 72057594037927936 elements"},
        Damage{"NoGlobalShape", "/states/3/global_shape", "discarded",
               "'states[3].global_shape' is missing"},
        Damage{"GlobalShapeNumber", "/states/3/global_shape", 8191,
               "'states[3].global_shape' must be an array"},
        Damage{"GlobalShapeNegative", "/states/3/global_shape/0", -1,
               "'states[3].global_shape[0]' is -1, expected at least 0"},
        Damage{"GlobalShapeLarge",
               "/states/2/global_shape",
               {INT64_MAX, INT64_MAX},
               "'states[2].global_shape' is too large: the tensor has 2^57 or "
               "more elements"},
        Damage{"NoShard", "/states/3/shard", "discarded",
               "'states[3].shard' is missing"},
        Damage{"ShardOfTheShape",
               "/states/3/shard",
               {0, 0},
               "'states[3].shard' has 2 entries, expected 1, one for each "
               "dimension of the global shape"},
        Damage{"ShardNotZero", "/states/3/shard/0", elements,
               "'states[3].shard[0]' is 4096, expected 0 for a state that is "
               "divided over ranks"},
        Damage{"ShardNegative", "/states/3/shard/0", -1,
               "'states[3].shard[0]' is -1, expected at least 0"},
        Damage{
            "Quantized", "/states/2/quantized",
            Json({{"encoding", "nf4"}, {"dtype", "f32"}, {"shape", {64, 64}}}),
            "'states[2].over' is given, but the state is quantized"},
        Damage{"Bytes", "/states/2/bytes", 8 * elements,
               "'states[2].bytes' is not the number of bytes of a tensor with "
               "this shape and dtype, expected 16384"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

} // namespace
