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
#include "kiln/Runtime/Engine/StateLayout.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

constexpr int64_t elements = vocabulary * width;

/// Returns the member "over" of a state that is divided over one axis.
Json over(const char *axis, int64_t size = elements) {
  return {{{"axis", axis}, {"blocks", 1}, {"elements", size}}};
}

/// Returns a description for two ranks. The tensor of E.m has twice as many
/// rows as its shard. The tensor of U.m has one dimension, and one element less
/// than two shards.
Json withShards() {
  Json json = toy::describe();
  json["mesh"] = {{{"name", "dp"}, {"size", 2}}};
  Json &momentE = json["states"][2], &momentU = json["states"][3];
  momentE["over"] = over("dp");
  momentE["global_shape"] = {2 * vocabulary, width};
  momentU["over"] = over("dp");
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
  auto spanOf = [&](const StateInfo &state, int64_t rank) {
    return StateLayout(state, file->description.mesh, rank).span();
  };
  EXPECT_EQ(spanOf(states[0], 1).begin, 0);
  EXPECT_EQ(spanOf(states[0], 1).end, elements);
  const StateInfo &even = states[2], &odd = states[3];
  EXPECT_EQ(even.divisions,
            (std::vector<runtime::Division>{{"dp", 1, elements}}));
  EXPECT_TRUE(even.isSharded());
  EXPECT_FALSE(even.isWhole());
  EXPECT_EQ(even.elements(), elements);
  EXPECT_EQ(even.globalElements(), 2 * elements);
  EXPECT_EQ(even.weightShape(), (std::vector<int64_t>{2 * vocabulary, width}));
  EXPECT_EQ(spanOf(even, 1).begin, elements);
  EXPECT_EQ(spanOf(even, 1).end, 2 * elements);
  EXPECT_EQ(odd.shape.size(), 2u);
  EXPECT_EQ(odd.globalShape, std::vector<int64_t>{2 * elements - 1});
  EXPECT_EQ(odd.shard, std::vector<int64_t>{0});
  EXPECT_EQ(spanOf(odd, 1).size(), elements - 1);
  EXPECT_TRUE(toy::makeEngine(withShards()).ok());
}

/// Returns a description for a mesh of two by two ranks. The columns of E.m are
/// divided over one axis, and the elements of each part over the other axis.
Json withTwoAxes() {
  Json json = withShards();
  json["mesh"].push_back({{"name", "tp"}, {"size", 2}});
  Json &moment = json["states"][2];
  moment["global_shape"] = {4 * vocabulary, width};
  moment["over"] = {
      {{"axis", "tp"}, {"blocks", 4 * vocabulary}, {"elements", 2 * elements}},
      {{"axis", "dp"}, {"blocks", 1}, {"elements", elements}}};
  return json;
}

TEST(ShardedStatesTest, ReadsSeveralDivisions) {
  Result<ProgramFile> file = read(withTwoAxes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const StateInfo &state = file->description.states[2];
  EXPECT_EQ(state.divisions,
            (std::vector<runtime::Division>{
                {"tp", 4 * vocabulary, 2 * elements}, {"dp", 1, elements}}));
  EXPECT_EQ(state.axes(), (std::vector<std::string>{"tp", "dp"}));
  EXPECT_TRUE(state.isDividedOver("dp"));
  EXPECT_FALSE(state.isDividedOver("pp"));
  EXPECT_EQ(file->description.ranks(), 4);
  EXPECT_EQ(file->description.globalBatch(), 2 * file->description.model.batch);
  EXPECT_TRUE(toy::makeEngine(withTwoAxes()).ok());
}

TEST(ShardedStatesTest, ShardsMayBeOnlyPadding) {
  Json json = withShards();
  json["states"][3]["global_shape"] = {elements};
  Result<ProgramFile> file = read(json);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const StateInfo &state = file->description.states[3];
  EXPECT_FALSE(state.isWhole());
  const support::Mesh &mesh = file->description.mesh;
  EXPECT_EQ(StateLayout(state, mesh, 0).span().size(), elements);
  EXPECT_EQ(StateLayout(state, mesh, 1).span().size(), 0);
}

/// Takes the description of a small model with offloading. Merges `parameter`
/// into its state U, and `mirror` into U.device, the copy of U on the device.
/// Reads the resulting description.
Status readMirror(const Json &parameter, const Json &mirror) {
  Json json = describeOffloaded();
  json["mesh"] = {{{"name", "dp"}, {"size", 2}}, {{"name", "pp"}, {"size", 2}}};
  json["states"][1].update(parameter);
  json["states"][4].update(mirror);
  return read(json).status();
}

TEST(ShardedStatesTest, MirrorsAreWholeOrDividedAsTheirParameters) {
  Json half = {
      {"over", over("dp")}, {"global_shape", {2 * elements}}, {"shard", {0}}};
  Json padded = {
      {"over", over("dp")}, {"global_shape", {elements}}, {"shard", {0}}};
  Json whole = {{"global_shape", {width, vocabulary}}, {"shard", {0, 0}}};
  Json sameButDivided = whole;
  sameButDivided["over"] = over("dp");
  auto with = [](Json json, const char *key, const Json &value) {
    json[key] = value;
    return json;
  };
  auto expectRefusal = [](const Status &status, const std::string &problem) {
    EXPECT_NE(
        status.message().find("'states[4].of' must be a parameter " + problem),
        std::string::npos)
        << status.message();
  };
  EXPECT_EQ(readMirror(half, half).message(), "");
  EXPECT_EQ(readMirror(sameButDivided, whole).message(), "");
  // A mirror (a copy of a parameter) that is not divided may be in the same
  // arena as its parameter.
  EXPECT_EQ(readMirror(sameButDivided, with(whole, "arena", "host")).message(),
            "");
  expectRefusal(
      readMirror(sameButDivided, with(sameButDivided, "arena", "host")),
      "whose dtype or arena differs from that of this mirror");
  expectRefusal(readMirror(whole, sameButDivided),
                "with the shard of this mirror");
  expectRefusal(readMirror(half, padded), "with the shard of this mirror");
  expectRefusal(readMirror(half, with(half, "over", over("pp"))),
                "with the shard of this mirror");
  expectRefusal(readMirror(half, whole), "with the shard of this mirror");
  expectRefusal(readMirror(half, with(half, "shape", {elements})),
                "with the shape of this mirror");
}

// A mirror (a copy of a parameter) may be divided as its parameter is, but
// without the last division of the parameter.
TEST(ShardedStatesTest, MirrorsMayLackTheLastDivision) {
  auto divided = [](const Json &divisions) {
    return Json{
        {"over", divisions}, {"global_shape", {2 * elements}}, {"shard", {0}}};
  };
  Json tp = {{{"axis", "pp"}, {"blocks", 2}, {"elements", elements}}};
  Json both = tp, otherBlocks = tp, order = over("dp");
  both.push_back({{"axis", "dp"}, {"blocks", 1}, {"elements", elements}});
  otherBlocks.push_back(
      {{"axis", "dp"}, {"blocks", 2}, {"elements", elements}});
  order.push_back({{"axis", "pp"}, {"blocks", 1}, {"elements", elements}});
  EXPECT_EQ(readMirror(divided(both), divided(tp)).message(), "");
  for (auto [parameter, mirror] :
       {std::pair(tp, both), std::pair(otherBlocks, tp), std::pair(order, tp),
        std::pair(both, over("dp"))})
    EXPECT_NE(readMirror(divided(parameter), divided(mirror))
                  .message()
                  .find("'states[4].of' must be a parameter with the shard"),
              std::string::npos);
}

class DamagedShardsTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedShardsTest, IsOneClearError) {
  expectOneClearError(withShards(), "", GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedShardsTest,
    testing::Values(
        Damage{"NoMesh", "/mesh", "discarded",
               "'states[2].over[0].axis' is 'dp', expected the name of an axis "
               "of the mesh with more than one rank"},
        Damage{"OneRank", "/mesh/0/size", 1,
               "'states[2].over[0].axis' is 'dp', expected the name of an "
               "axis"},
        Damage{"NoAxis", "/states/2/over/0/axis", "pp",
               "'states[2].over[0].axis' is 'pp', expected the name of an "
               "axis"},
        Damage{"EmptyAxis", "/states/2/over/0/axis", "",
               "'states[2].over[0].axis' is '', expected the name of an axis"},
        Damage{"AxisNumber", "/states/2/over/0/axis", 2,
               "'states[2].over[0].axis' must be a string"},
        Damage{"AxisIsMissing", "/states/2/over/0/axis", "discarded",
               "'states[2].over[0].axis' is missing"},
        Damage{"OverName", "/states/2/over", "dp",
               "'states[2].over' must be an array"},
        Damage{"OverNames", "/states/2/over", Json::array({"dp"}),
               "'states[2].over[0].axis' is missing"},
        Damage{"OverNothing", "/states/2/over", Json::array(),
               "'states[2].over' is empty, expected at least one division"},
        Damage{"BlocksAreMissing", "/states/2/over/0/blocks", "discarded",
               "'states[2].over[0].blocks' is missing"},
        Damage{"NoBlocks", "/states/2/over/0/blocks", 0,
               "'states[2].over[0].blocks' is 0, expected at least 1"},
        Damage{"OddBlocks", "/states/2/over/0/blocks", 3,
               "'states[2].over[0].blocks' is 3, expected a divisor of 8192, "
               "the number of elements to divide"},
        Damage{"UnevenParts", "/states/2/over/0/blocks", 8192,
               "'states[2].over[0].elements' is 4096, expected a multiple of "
               "8192 from 8192 to 8192, because 2 ranks share each of 8192 "
               "blocks of size 1"},
        Damage{"ElementsAreMissing", "/states/2/over/0/elements", "discarded",
               "'states[2].over[0].elements' is missing"},
        Damage{"OtherElements", "/states/2/over/0/elements", 4097,
               "'states[2].over[0].elements' is 4097, expected 4096, the "
               "number of elements of the shape"},
        Damage{"NegativeElements", "/states/2/over/0/elements", -1,
               "'states[2].over[0].elements' is -1, expected at least 0"},
        Damage{"LargeElements", "/states/2/over/0/elements", INT64_MAX,
               "'states[2].over[0].elements' is 9223372036854775807, expected "
               "a multiple of 1 from 4096 to 8192, because 2 ranks share a "
               "block of size 8192"},
        Damage{"NotDivided", "/states/3/over", "discarded",
               "'states[3].global_shape' has 1 entries, expected 2, one for "
               "each dimension of the shape"},
        Damage{"TooSmall",
               "/states/3/global_shape",
               {2 * elements + 1},
               "'states[3].over[0].elements' is 4096, expected a multiple of "
               "1 from 4097 to 8193, because 2 ranks share a block of size "
               "8193"},
        Damage{"TooLarge",
               "/states/3/global_shape",
               {elements - 1},
               "'states[3].over[0].elements' is 4096, expected a multiple of "
               "1 from 2048 to 4095, because 2 ranks share a block of size "
               "4095"},
        Damage{"EmptyTensor",
               "/states/3/global_shape",
               {0},
               "expected a multiple of 1 from 0 to 0, because 2 ranks share a "
               "block of size 0"},
        Damage{"ShapeTooLarge",
               "/states/2/shape",
               {int64_t(1) << 56},
               "'states[2].over[0].elements' is 4096, expected "
               "72057594037927936, the number of elements of the shape"},
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
               "'states[3].shard[0]' is 4096, expected 0, because 'over' "
               "gives the elements that a rank stores"},
        Damage{"ShardNegative", "/states/3/shard/0", -1,
               "'states[3].shard[0]' is -1, expected at least 0"},
        Damage{
            "Quantized", "/states/2/quantized",
            Json({{"encoding", "nf4"}, {"dtype", "f32"}, {"shape", {64, 64}}}),
            "'states[2].shape' does not match the encoding of the weight, "
            "expected 2120 elements of i8"},
        Damage{"Bytes", "/states/2/bytes", 8 * elements,
               "'states[2].bytes' is not the number of bytes of a tensor with "
               "this shape and dtype, expected 16384"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

TEST(ShardedStatesTest, RejectsOwnersOfQuantizedStates) {
  Json json = withShards();
  Json &state = json["states"][2];
  state["role"] = "parameter";
  state["trainable"] = false;
  state["dtype"] = "i8";
  state["shape"] = {2120};
  state["bytes"] = 2120;
  state["quantized"] = {
      {"encoding", "nf4"}, {"dtype", "f32"}, {"shape", {64, 64}}};
  state["global_shape"] = {64, 64};
  state["over"] = over("dp", 4096);
  state["over"][0]["owner"] = 0;
  Status status = read(json).status();
  EXPECT_NE(status.message().find(
                "'states[2].over' gives the state to a single owner, but each "
                "data-parallel rank must store every quantized state"),
            std::string::npos)
      << status.message();
}

class DamagedDivisionsTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedDivisionsTest, IsOneClearError) {
  expectOneClearError(withTwoAxes(), "/states/2/over", GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedDivisionsTest,
    testing::Values(
        Damage{"AxisTwice", "/1/axis", "tp",
               "'states[2].over[1].axis' is 'tp', which is named twice"},
        Damage{"OddBlocks", "/1/blocks", 3,
               "'states[2].over[1].blocks' is 3, expected a divisor of 8192, "
               "the number of elements to divide"},
        Damage{"SmallPart", "/0/elements", elements,
               "'states[2].over[0].elements' is 4096, expected a multiple of "
               "1024 from 8192 to 16384, because 2 ranks share each of 1024 "
               "blocks of size 16"},
        Damage{"LargePart", "/0/elements", 4 * elements,
               "'states[2].over[1].elements' is 4096, expected a multiple of "
               "1 from 8192 to 16384, because 2 ranks share a block of "
               "size 16384"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

} // namespace
