//===- LaunchGroupsTest.cpp - Tests of launch groups ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuTesting.h"
#include "GroupedProgram.h"
#include "StreamProgram.h"
#include "kiln/Runtime/Gpu/EmuEngine.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

std::vector<int64_t> memberIds;

void add(char *const *table, const int64_t *immediates, int64_t units) {
  memberIds.push_back(kiln_emu_member_id());
  char *const *own = table + 2 * kiln_emu_member_id();
  int64_t i = blockId() * 32 + threadId();
  if (i < units)
    store(own[1], i, load<float>(own[0], i) + float(immediates[0]));
}

Result<std::unique_ptr<Engine>> makeEngine(const Json &program) {
  static const void *const kernels[] = {reinterpret_cast<const void *>(add)};
  return createEmuEngine(program.dump(), kernels, 1);
}

TEST(LaunchGroupsTest, AreOneLaunch) {
  Result<std::unique_ptr<Engine>> engine =
      makeEngine(groupedProgram("cuda-emu"));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  ASSERT_TRUE((*engine)->start(1).ok());
  auto *x = reinterpret_cast<float *>((*engine)->inputData(0, 0));
  auto *y = reinterpret_cast<float *>((*engine)->outputData(0, 0));
  for (int64_t i = 0; i < groupedLaunches * groupedUnits; ++i)
    x[i] = float(i);
  memberIds.clear();
  Status status = (*engine)->run(0);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t i = 0; i < groupedLaunches * groupedUnits; ++i)
    EXPECT_EQ(y[i], float(i + 2));
  // Each launch has two blocks of 32 threads. The launch outside of the group
  // counts as member 0, the first launch of a group.
  for (int64_t member = 0; member < groupMembers; ++member)
    EXPECT_EQ(std::count(memberIds.begin(), memberIds.end(), member),
              member == 0 ? 128 : 64);
}

TEST(LaunchGroupsTest, FaultsNameTheMember) {
  Json program = groupedProgram("cuda-emu");
  Json &extents = toy::commandsOf(program["programs"]["run"])[1]["extents"];
  extents[0] = groupedBytes - 4;
  Result<std::unique_ptr<Engine>> engine = makeEngine(program);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  ASSERT_TRUE((*engine)->start(1).ok());
  EXPECT_EQ((*engine)->run(0).message(),
            "cuda-emu: kernel 'add1', block 1, thread 7: out of bounds: read "
            "of 4 bytes at argument 0 ('x') + 156, but the argument has 156 "
            "bytes; in program 'run', launch 'add0' (commands[0]) and 2 more "
            "of its group");
}

/// A host kernel reads the bytes that the third launch of a group then writes.
/// Only the first launch of the group is allowed to wait for the host kernel.
TEST(LaunchGroupsTest, OnlyTheFirstLaunchIsAfterOthers) {
  Json program = groupedProgram("cuda-emu");
  Json &run = program["programs"]["run"];
  int64_t scalar = (groupedLaunches + 2) * groupedBytes;
  Json reader = kernelLaunch("reader", 1, {device(scalar), host(0)}, 4, {1},
                             Json::array(), 1);
  Json &unordered = toy::commandsOf(run);
  unordered.insert(unordered.begin(), reader);
  program = withQueues(program);
  Json &commands = toy::commandsOf(program["programs"]["run"]);
  commands[3]["after"] = {"host"};
  Result<ProgramFile> file = parseProgramFile(program.dump(), 2);
  EXPECT_NE(file.status().message().find(
                "commands[3]' is in the group of launch 'add0' but has an "
                "'after', which only the first launch of a group may have"),
            std::string::npos)
      << file.status().message();
  commands[3].erase("after");
  commands[1]["after"] = {"host"};
  file = parseProgramFile(program.dump(), 2);
  ASSERT_TRUE(file.ok()) << file.status().message();
  StreamProgram streams = buildStreamProgram(*file, file->programs[0]);
  ASSERT_EQ(streams.actions.size(), 5u);
  EXPECT_EQ(streams.actions[1].waits.size(), 1u);
  EXPECT_TRUE(streams.actions[2].waits.empty());
  EXPECT_TRUE(streams.actions[3].waits.empty());
}

//===----------------------------------------------------------------------===//
// Damaged descriptions
//===----------------------------------------------------------------------===//

struct Damage {
  const char *pointer; ///< JSON pointer, relative to the commands of "run".
  Json value;
  const char *message;
};

class DamagedGroupTest : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedGroupTest, IsRefused) {
  Json program = groupedProgram("cuda-emu");
  Json::json_pointer place(std::string("/programs/run/segments/0/commands") +
                           GetParam().pointer);
  program[place] = GetParam().value;
  Result<ProgramFile> file = parseProgramFile(program.dump(), 2);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find(GetParam().message), std::string::npos)
      << file.status().message();
}

constexpr int64_t outputs = groupedLaunches * groupedBytes;

INSTANTIATE_TEST_SUITE_P(
    All, DamagedGroupTest,
    ::testing::Values(
        Damage{"/0/group", 1, "commands[0].group' is 1"},
        Damage{"/0/group", 6,
               "commands[0].group' is 6, but 'members' limits the number of "
               "launches in a group to 5"},
        Damage{"/0/group", 5,
               "commands[0].group' is 5, but the segment has only 4 commands"},
        Damage{"/0/group", INT64_MAX,
               "but 'members' limits the number of launches in a group to 5"},
        Damage{"/1/group", 2,
               "commands[1]' is in the group of launch 'add0' "
               "but begins a group itself"},
        Damage{"/0/members", nullptr,
               "commands[0].group' is given without 'members'"},
        Damage{"/0/members", 256,
               "but the argument table of a kernel has room for at most 255 "
               "launches with 2 args"},
        Damage{"/3/members", 4, "commands[3]' must have the same"},
        Damage{"/3/members", nullptr, "commands[3]' must have the same"},
        Damage{"/3/imm", Json::array(), "commands[3]' must have the same"},
        Damage{"/1/kernel", 1, "is not a launch of the same kernel"},
        Damage{"/2/units", 39,
               "differs in 'units', 'grain', 'threads' or 'shared'"},
        Damage{"/2/grain", 31,
               "differs in 'units', 'grain', 'threads' or 'shared'"},
        Damage{"/2/threads", 64,
               "differs in 'units', 'grain', 'threads' or 'shared'"},
        Damage{"/1/imm", Json::array({{3, 0}}),
               "differs in its number of args or in its immediates"},
        Damage{"/1/imm", Json::array({{2, 1}}),
               "differs in its number of args or in its immediates"},
        Damage{"/2/args/1", Json::array({outputs + groupedBytes - 4, 0}),
               "commands[2]' is in the group of launch 'add0' but has a data "
               "race with launch 'add0': both access the same bytes, and at "
               "least one of them writes the bytes"},
        Damage{"/2/args/0", Json::array({outputs + groupedBytes, 0}),
               "but has a data race with launch 'add1': both access the same "
               "bytes, and at least one of them writes the bytes"}));

/// Each launch of a group writes to its own ring, which has an instance per
/// micro-batch in flight. The instances of different rings may alternate in
/// memory.
TEST(LaunchGroupsTest, RingsMayAlternateInMemory) {
  const int64_t ring = groupedLaunches * groupedBytes;
  Json program = groupedProgram("cuda-emu");
  program["arena"]["bytes"] = outputs + 8 * ring;
  Json &run = program["programs"]["run"];
  Json commands = toy::commandsOf(run);
  for (Json &command : commands)
    command["args"][1].push_back(ring);
  run.update(inMicrobatches(commands, {0, 0, 4, 3, "all-forward-first", 3}));
  auto refusal = [&](int64_t distance) {
    // Place the result of the second launch `distance` bytes after that of the
    // first launch.
    toy::commandAt(run, 1)["args"][1][0] = outputs + distance;
    return parseProgramFile(program.dump(), 2).status().message();
  };
  EXPECT_EQ(refusal(groupedBytes), "");
  const char *race = "commands[1]' is in the group of launch 'add0' but has a "
                     "data race";
  for (int64_t distance :
       {int64_t(0), groupedBytes - 4, ring - groupedBytes + 4, ring,
        ring + groupedBytes - 4})
    EXPECT_NE(refusal(distance).find(race), std::string::npos)
        << refusal(distance);
  for (int64_t distance : {3 * ring, 4 * ring - groupedBytes})
    EXPECT_EQ(refusal(distance), "") << distance;
  EXPECT_NE(refusal(2 * ring + groupedBytes - 4).find(race), std::string::npos);
}

TEST(LaunchGroupsTest, EndWithTheirSegment) {
  Json program = groupedProgram("cuda-emu");
  Json &run = program["programs"]["run"];
  Json &commands = toy::commandsOf(run);
  Json rest = {{"name", "rest"},
               {"commands", Json::array({commands[2], commands[3]})}};
  commands.erase(3);
  commands.erase(2);
  run["segments"].push_back(rest);
  run["order"].push_back("rest");
  Result<ProgramFile> file = parseProgramFile(program.dump(), 2);
  EXPECT_NE(file.status().message().find(
                "'programs.run.segments[0].commands[0].group' is 3, but the "
                "segment has only 2 commands from this launch on"),
            std::string::npos)
      << file.status().message();
}

TEST(LaunchGroupsTest, AreForGpusAlone) {
  Json program = groupedProgram("cuda-emu");
  Json &launch = toy::commandsOf(program["programs"]["run"])[0];
  launch.erase("threads");
  launch.erase("shared");
  Result<ProgramFile> file = parseProgramFile(program.dump(), 2);
  ASSERT_FALSE(file.ok());
}

} // namespace
