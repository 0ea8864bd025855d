//===- SegmentsTest.cpp - Programs with several segments ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunToy.h"
#include "ToyOffload.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

/// Returns the elements [begin, end) of an array.
Json part(const Json &commands, long begin, long end) {
  return Json(Json::array_t(commands.begin() + begin, commands.begin() + end));
}

/// Returns the toy with two updates in each step. The program runs the segments
/// in the order "gradients", "update", "gradients", "update". The segment
/// "gradients" contains a loop.
Json withTwoUpdates() {
  Json json = describe();
  Json &train = json["programs"]["train"];
  Json commands = commandsOf(train);
  train["segments"] = {
      {{"name", "update"}, {"commands", part(commands, 10, 13)}},
      {{"name", "gradients"}, {"commands", part(commands, 0, 10)}}};
  train["order"] = {"gradients", "update", "gradients", "update"};
  // The slots of the toy do not overlap in memory, so all of them can be live
  // in all commands.
  for (Json &slot : train["slots"]) {
    slot["first"] = 0;
    slot["last"] = 26;
  }
  return json;
}

/// Returns the program of withTwoUpdates() with the commands of its four
/// segments in a single segment.
Json writtenOut() {
  Json json = withTwoUpdates();
  Json &train = json["programs"]["train"];
  Json commands = commandsOf(describe()["programs"]["train"]);
  Json twice = commands;
  twice.insert(twice.end(), commands.begin(), commands.end());
  train["segments"] = {{{"name", "step"}, {"commands", twice}}};
  train["order"] = {"step"};
  return json;
}

Result<ProgramFile> read(const Json &description) {
  return parseProgramFile(description.dump(), kernelCount);
}

TEST(SegmentsTest, CommandsAreThoseAlongTheOrder) {
  Result<ProgramFile> file = read(withTwoUpdates());
  ASSERT_TRUE(file.ok()) << file.status().message();
  Result<ProgramFile> whole = read(writtenOut());
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const Program &train = file->programs[2];
  const std::vector<Command> &expected = whole->programs[2].commands;
  ASSERT_EQ(train.commands.size(), 26u);
  ASSERT_EQ(expected.size(), 26u);
  for (std::size_t i = 0; i < 26; ++i) {
    EXPECT_EQ(train.commands[i].name, expected[i].name);
    EXPECT_EQ(train.commands[i].kind, expected[i].kind);
  }
  const char *names[] = {"gradients", "update", "gradients", "update"};
  const std::size_t begins[] = {0, 10, 13, 23, 26};
  ASSERT_EQ(train.segments.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(train.segments[i].name, names[i]);
    EXPECT_EQ(train.segments[i].begin, begins[i]);
    EXPECT_EQ(train.segments[i].end, begins[i + 1]);
    for (std::size_t command = begins[i]; command < begins[i + 1]; ++command)
      EXPECT_EQ(&train.segmentOf(command), &train.segments[i]);
  }
}

TEST(SegmentsTest, ASegmentMayBeEmpty) {
  Json json = describe();
  Json &train = json["programs"]["train"];
  train["segments"].push_back({{"name", "none"}, {"commands", Json::array()}});
  train["order"] = {"none", "step", "none"};
  Result<ProgramFile> file = read(json);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Program &program = file->programs[2];
  ASSERT_EQ(program.segments.size(), 3u);
  EXPECT_EQ(program.segments[2].begin, program.segments[2].end);
  for (std::size_t i = 0; i < program.commands.size(); ++i)
    EXPECT_EQ(&program.segmentOf(i), &program.segments[1]);
}

class SegmentsRunTest : public ToyTest {
protected:
  /// Returns the losses and the weights after some steps.
  std::pair<std::vector<std::string>, std::string>
  train(const Json &description, const std::string &name) {
    Outcome outcome = runToy(description, {data(), "--steps=3", "--seed=5",
                                           "--log=" + path(name + ".log"),
                                           "--save=" + path(name)});
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    std::string checkpoint = path(name + "/checkpoint-3");
    return {lossTexts(path(name + ".log")),
            readFile(checkpoint + "/model.safetensors") +
                readFile(checkpoint + "/optimizer.safetensors")};
  }
};

TEST_F(SegmentsRunTest, RepeatedSegmentsAreTheCommandsWrittenOut) {
  auto [losses, weights] = train(writtenOut(), "whole");
  ASSERT_EQ(losses.size(), 3u);
  ASSERT_FALSE(weights.empty());
  EXPECT_EQ(train(withTwoUpdates(), "segments"), std::pair(losses, weights));
  EXPECT_NE(train(describe(), "once").second, weights);
  Outcome outcome = runToy(withTwoUpdates(), {data(), "--check-memory"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
}

/// A copy may be in flight across the end of a segment.
TEST_F(SegmentsRunTest, CopiesCrossTheBorder) {
  Json json = describeOffloaded();
  Json &program = json["programs"]["train"];
  Json commands = commandsOf(program);
  ASSERT_EQ(commands[14]["op"], "copy_start");
  ASSERT_EQ(commands[17]["op"], "copy_wait");
  auto last = long(commands.size());
  program["segments"] = {
      {{"name", "a"}, {"commands", part(commands, 0, 15)}},
      {{"name", "b"}, {"commands", part(commands, 15, last)}}};
  program["order"] = {"a", "b"};
  EXPECT_EQ(train(json, "segments"), train(describeOffloaded(), "whole"));
  // The update of U runs before the copy of its gradient is complete.
  Json &second = program["segments"][1]["commands"];
  Json update = second[5];
  second.erase(5);
  second.insert(second.begin(), update);
  std::string message = read(json).status().message();
  EXPECT_NE(
      message.find(
          "'programs.train.segments[1].commands[0]' (launch 'update_U') reads "
          "the destination of copy_start 'grad_U' at commands[14] while that "
          "copy is in flight; the copy_wait of that copy must come before this "
          "command (this is commands[15] in execution order)"),
      std::string::npos)
      << message;
}

//===----------------------------------------------------------------------===//
// Damage
//===----------------------------------------------------------------------===//

struct Damage {
  const char *name;
  const char *pointer; ///< JSON pointer below "train" of withTwoUpdates().
  Json value;          ///< New value; "discarded" removes the member.
  const char *message;
};

class DamagedSegmentsTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedSegmentsTest, IsOneClearError) {
  Json json = withTwoUpdates();
  Json::json_pointer pointer(std::string("/programs/train") +
                             GetParam().pointer);
  if (GetParam().value == "discarded")
    json[pointer.parent_pointer()].erase(pointer.back());
  else
    json[pointer] = GetParam().value;
  Status status = read(json).status();
  EXPECT_EQ(status.code(), ExitCode::Error);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos)
      << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

const Json loopEnd = {{"op", "loop_end"}};
const Json loopBegin = {{"op", "loop_begin"}, {"count", 2}};

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedSegmentsTest,
    testing::Values(
        Damage{"NoSegments", "/segments", "discarded",
               "'programs.train.segments' is missing"},
        Damage{"EmptySegments", "/segments", Json::array(),
               "'programs.train.segments' is empty, but a program has at least "
               "one segment"},
        Damage{"SegmentsOfText", "/segments", "step",
               "'programs.train.segments' must be an array"},
        Damage{"SegmentName", "/segments/0/name", "discarded",
               "'programs.train.segments[0].name' is missing"},
        Damage{"SameSegment", "/segments/1/name", "update",
               "'programs.train.segments[1].name' is 'update', the name of "
               "another segment"},
        Damage{"NoCommands", "/segments/0/commands", "discarded",
               "'programs.train.segments[0].commands' is missing"},
        Damage{"NoOrder", "/order", "discarded",
               "'programs.train.order' is missing"},
        Damage{"EmptyOrder", "/order", Json::array(),
               "'programs.train.order' is empty, but a program runs at least "
               "one segment"},
        Damage{"OrderOfNoSegment", "/order/2", "forward",
               "'programs.train.order[2]' is 'forward', which is none of the "
               "segments"},
        Damage{"OrderOfNumbers", "/order/2", 1,
               "'programs.train.order[2]' must be a string"},
        Damage{"SegmentOfNoOrder",
               "/order",
               {"gradients"},
               "'programs.train.segments[0].name' is 'update', a segment that "
               "'order' does not contain"},
        Damage{"LoopLeavesTheSegment", "/segments/1/commands/9", loopBegin,
               "'programs.train.segments[1].commands[9]' begins a loop inside "
               "another loop"},
        Damage{"LoopEndsInTheNextSegment", "/segments/0/commands/2", loopBegin,
               "'programs.train.segments[0].commands' ends inside a loop"},
        Damage{"LoopBeginsInAnotherSegment", "/segments/0/commands/0", loopEnd,
               "'programs.train.segments[0].commands[0]' ends a loop that has "
               "not begun"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

TEST(DamagedSegmentsTest, ShortDescriptionsOfLongPrograms) {
  Json json = withTwoUpdates();
  Json &order = json["programs"]["train"]["order"];
  order = Json::array_t(1 << 16, "gradients");
  order.push_back("update");
  EXPECT_NE(read(json).status().message().find(
                "'programs.train.order' has 65537 entries, expected at most "
                "65536"),
            std::string::npos);
  Json &commands = json["programs"]["train"]["segments"][1]["commands"];
  Json fill = json["programs"]["train"]["segments"][1]["commands"][0];
  for (int i = 0; i < 64; ++i)
    commands.push_back(fill);
  order = Json::array_t((1 << 20) / 64 + 2, "gradients");
  order.push_back("update");
  EXPECT_NE(read(json).status().message().find(
                "'programs.train.order' repeats segments that have more than "
                "1048576 commands and arguments in total"),
            std::string::npos)
      << read(json).status().message();
}

/// The reader must not crash for any replacement of any value.
TEST(DamagedSegmentsTest, AnyReplacedValueIsHandled) {
  Json json = withTwoUpdates();
  const Json replacements[] = {nullptr,       -1, INT64_MAX, "gradients",
                               Json::array(), 0,  1e300,     Json::object()};
  Json flat = json.flatten();
  for (auto &[path, unused] : flat.items()) {
    if (path.find("commands") != std::string::npos)
      continue;
    for (const Json &replacement : replacements) {
      Json damaged = json;
      damaged[Json::json_pointer(path)] = replacement;
      Result<ProgramFile> file = read(damaged);
      EXPECT_TRUE(file.ok() || !file.status().message().empty());
    }
  }
}

} // namespace
