//===- RolesTest.cpp - Roles and shards in descriptions -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DamagedDescription.h"
#include "ToyProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

/// Returns a description with two roles (groups of ranks), which both run
/// `train` and hold "U". Only the first role holds "E": one half of the rows of
/// a larger table.
Json withTwoRoles() {
  Json json = toy::describe();
  json["roles"] = {{{"name", "first"}, {"ranks", 2}},
                   {{"name", "last"}, {"ranks", 1}}};
  for (auto &[name, program] : json["programs"].items())
    program["roles"] = {"last"};
  json["programs"]["train"]["roles"] = {"first", "last"};
  for (Json &state : json["states"])
    state["roles"] = {"last", "first"};
  Json &table = json["states"][0];
  table["roles"] = {"first"};
  table["global_shape"] = {2 * toy::vocabulary, toy::width};
  table["shard"] = {toy::vocabulary, 0};
  return json;
}

TEST(RolesTest, ReadsTheOnlyRole) {
  Result<ProgramFile> file = read(toy::describe());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Description &description = file->description;
  ASSERT_EQ(description.roles.size(), 1u);
  EXPECT_EQ(description.roles[0].name, "main");
  EXPECT_EQ(description.roles[0].ranks, 1);
  for (const ProgramInfo &program : description.programs)
    EXPECT_EQ(program.roles, std::vector<std::size_t>{0});
  for (const StateInfo &state : description.states) {
    EXPECT_EQ(state.roles, std::vector<std::size_t>{0});
    EXPECT_EQ(state.globalShape, state.shape);
    EXPECT_EQ(state.shard, (std::vector<int64_t>{0, 0}));
    EXPECT_TRUE(state.isWhole());
  }
}

TEST(RolesTest, ReadsRolesAndShards) {
  Result<ProgramFile> file = read(withTwoRoles());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Description &description = file->description;
  ASSERT_EQ(description.roles.size(), 2u);
  EXPECT_EQ(description.roles[0].ranks, 2);
  EXPECT_EQ(description.roles[1].name, "last");
  EXPECT_EQ(description.findProgram("train")->roles,
            (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(description.findProgram("evaluate")->roles,
            std::vector<std::size_t>{1});
  const StateInfo &table = description.states[0], &head = description.states[1];
  EXPECT_EQ(table.shape, (std::vector<int64_t>{256, 16}));
  EXPECT_EQ(table.globalShape, (std::vector<int64_t>{512, 16}));
  EXPECT_EQ(table.shard, (std::vector<int64_t>{256, 0}));
  EXPECT_EQ(table.roles, std::vector<std::size_t>{0});
  EXPECT_FALSE(table.isWhole());
  EXPECT_EQ(head.roles, (std::vector<std::size_t>{1, 0}));
  EXPECT_TRUE(head.isWhole());
}

/// Returns the message with which an engine for a single rank rejects a
/// description, or "" if it accepts the description.
std::string refusal(const Json &description) {
  Result<std::unique_ptr<Engine>> engine = toy::makeEngine(description);
  if (engine.ok())
    return "";
  EXPECT_EQ(engine.status().code(), ExitCode::Error);
  return engine.status().message();
}

TEST(RolesTest, EnginesRunOneRank) {
  const std::string advice = ", but this version of kiln runs only programs "
                             "of a single rank: compile the model for one rank";
  EXPECT_EQ(refusal(toy::describe()), "");
  EXPECT_EQ(refusal(withTwoRoles()),
            "the program description has 2 roles" + advice);
  Json json = toy::describe();
  json["roles"][0]["ranks"] = 4;
  EXPECT_EQ(refusal(json),
            "the program description has 4 ranks in the role 'main'" + advice);
  json = toy::describe();
  json["states"][1]["global_shape"] = {toy::width, 2 * toy::vocabulary};
  EXPECT_EQ(refusal(json), "the program description has a state, 'U', that is "
                           "only a shard of its tensor" +
                               advice);
}

class DamagedRolesTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedRolesTest, IsOneClearError) {
  expectOneClearError(withTwoRoles(), "", GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedRolesTest,
    testing::Values(
        Damage{"NoRoles", "/roles", "discarded", "'roles' is missing"},
        Damage{"EmptyRoles", "/roles", Json::array(),
               "'roles' is empty, but a description has at least one role"},
        Damage{"RoleName", "/roles/0/name", 3,
               "'roles[0].name' must be a string"},
        Damage{"SameRole", "/roles/1/name", "first",
               "'roles[1].name' is 'first', the name of another role"},
        Damage{"NoRanks", "/roles/0/ranks", 0,
               "'roles[0].ranks' is 0, expected at least 1"},
        Damage{"RoleOfNoProgram",
               "/programs/train/roles",
               {"last"},
               "'roles[0]' is role 'first', which runs no program"},
        Damage{"ProgramWithoutRoles", "/programs/train/roles", "discarded",
               "'programs.train.roles' is missing"},
        Damage{"ProgramOfNobody", "/programs/train/roles", Json::array(),
               "'programs.train.roles' is empty, expected the name of at least "
               "one role"},
        Damage{
            "ProgramOfNoRole", "/programs/train/roles/1", "main",
            "'programs.train.roles[1]' is 'main', expected the name of a role"},
        Damage{"ProgramOfOneRoleTwice", "/programs/train/roles/1", "first",
               "'programs.train.roles[1]' is 'first', which is named twice"},
        Damage{"StateOfNobody", "/states/0/roles", Json::array(),
               "'states[0].roles' is empty"},
        Damage{"StateOfNoRole",
               "/states/0/roles",
               {"middle"},
               "'states[0].roles[0]' is 'middle', expected the name of a role"},
        Damage{"StateOfOneRoleTwice", "/states/1/roles/0", "first",
               "'states[1].roles[1]' is 'first', which is named twice"},
        Damage{"NoGlobalShape", "/states/0/global_shape", "discarded",
               "'states[0].global_shape' is missing"},
        Damage{"GlobalShapeRank",
               "/states/0/global_shape",
               {512},
               "'states[0].global_shape' has 1 entries, expected 2, one for "
               "each dimension of the shape"},
        Damage{"GlobalShapeNegative", "/states/0/global_shape/0", -1,
               "'states[0].global_shape[0]' is -1, expected at least 0"},
        Damage{"GlobalShapeLarge",
               "/states/0/global_shape",
               {INT64_MAX, INT64_MAX},
               "'states[0].global_shape' is too large: the tensor has 2^57 or "
               "more elements"},
        Damage{"NoShard", "/states/0/shard", "discarded",
               "'states[0].shard' is missing"},
        Damage{"ShardRank",
               "/states/0/shard",
               {0, 0, 0},
               "'states[0].shard' has 3 entries, expected 2, one for each "
               "dimension of the shape"},
        Damage{"ShardNegative", "/states/0/shard/1", -1,
               "'states[0].shard[1]' is -1, expected at least 0"},
        Damage{"ShardOutside", "/states/0/shard/0", 257,
               "'states[0].shard[0]' is 257; at this offset, a shard of 256 "
               "elements in this dimension exceeds the global size of 512"},
        Damage{"ShardFarOutside", "/states/0/shard/0", INT64_MAX,
               "exceeds the global size of 512"},
        Damage{"ShardOfASmallerTensor", "/states/1/global_shape/0", 15,
               "'states[1].shard[0]' is 0; at this offset, a shard of 16 "
               "elements in this dimension exceeds the global size of 15"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

} // namespace
