//===- SegmentsTest.cpp - Programs with several segments ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DamagedDescription.h"
#include "RunToy.h"
#include "ToyOffload.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

/// Returns the toy model with two updates in each step: "train" executes the
/// segment "end", which has the update, twice.
Json withTwoUpdates() {
  Json json = describe();
  Json &train = json["programs"]["train"];
  train["order"].push_back("end");
  // The slots of the toy model do not overlap in memory, so all of them can be
  // live in all commands.
  for (Json &slot : train["slots"]) {
    slot["first"] = 0;
    slot["last"] = 14;
  }
  return json;
}

/// Returns the program of withTwoUpdates() with both updates in one segment.
Json writtenOut() {
  Json json = withTwoUpdates();
  Json &train = json["programs"]["train"];
  Json &end = segmentOf(train, "end");
  const Json once = end;
  end.insert(end.end(), once.begin(), once.end());
  train["order"].erase(3);
  return json;
}

TEST(SegmentsTest, CommandsAreThoseAlongTheOrder) {
  Result<ProgramFile> file = read(withTwoUpdates());
  ASSERT_TRUE(file.ok()) << file.status().message();
  Result<ProgramFile> whole = read(writtenOut());
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const Program &train = file->programs[2];
  const std::vector<Command> &expected = whole->programs[2].commands;
  ASSERT_EQ(train.commands.size(), 14u);
  ASSERT_EQ(expected.size(), 14u);
  for (std::size_t i = 0; i < 14; ++i) {
    EXPECT_EQ(train.commands[i].name, expected[i].name);
    EXPECT_EQ(train.commands[i].kind, expected[i].kind);
  }
  const char *names[] = {"begin", "forward", "backward", "end", "end"};
  const std::size_t begins[] = {0, 1, 3, 8, 11, 14};
  ASSERT_EQ(train.segments.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(train.segments[i].name, names[i]);
    EXPECT_EQ(train.segments[i].begin, begins[i]);
    EXPECT_EQ(train.segments[i].end, begins[i + 1]);
    for (std::size_t command = begins[i]; command < begins[i + 1]; ++command)
      EXPECT_EQ(&train.segmentOf(command), &train.segments[i]);
  }
  std::vector<std::size_t> runs;
  for (const ProgramRun &run : train.runs)
    runs.push_back(run.segment);
  EXPECT_EQ(runs, (std::vector<std::size_t>{0, 1, 2, 1, 2, 3, 4}));
}

TEST(SegmentsTest, ASegmentMayBeEmpty) {
  Json json = describe();
  Json &program = json["programs"]["evaluate"];
  program["segments"].push_back(
      {{"name", "none"}, {"commands", Json::array()}});
  program["order"] = {"none", "step", "none"};
  Result<ProgramFile> file = read(json);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Program &evaluate = file->programs[0];
  ASSERT_EQ(evaluate.segments.size(), 3u);
  EXPECT_EQ(evaluate.segments[2].begin, evaluate.segments[2].end);
  for (std::size_t i = 0; i < evaluate.commands.size(); ++i)
    EXPECT_EQ(&evaluate.segmentOf(i), &evaluate.segments[1]);
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

/// A copy may be in flight across the end of a segment (a list of commands).
TEST_F(SegmentsRunTest, CopiesCrossTheBorder) {
  Json json = describeOffloaded();
  Json &program = json["programs"]["train"];
  Json &end = segmentOf(program, "end");
  ASSERT_EQ(end[0]["op"], "copy_start");
  ASSERT_EQ(end[3]["op"], "copy_wait");
  Json rest = Json::array_t(end.begin() + 1, end.end());
  end.erase(end.begin() + 1, end.end());
  program["segments"].push_back({{"name", "rest"}, {"commands", rest}});
  program["order"].push_back("rest");
  EXPECT_EQ(train(json, "segments"), train(describeOffloaded(), "whole"));
  // Move the update of the parameter 'U' before the wait for the copy of its
  // gradient.
  Json &second = segmentOf(program, "rest");
  Json update = second[5];
  second.erase(5);
  second.insert(second.begin(), update);
  std::string message = read(json).status().message();
  EXPECT_NE(
      message.find(
          "'programs.train.segments[4].commands[0]' (launch 'update_U') reads "
          "the destination of copy_start 'grad_U' at commands[12] while that "
          "copy is in flight; the copy_wait of that copy must come before this "
          "command (this is commands[13] of the program)"),
      std::string::npos)
      << message;
}

//===----------------------------------------------------------------------===//
// Damage
//===----------------------------------------------------------------------===//

class DamagedSegmentsTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedSegmentsTest, IsOneClearError) {
  expectOneClearError(withTwoUpdates(), "/programs/train", GetParam());
}

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
        Damage{"SameSegment", "/segments/1/name", "begin",
               "'programs.train.segments[1].name' is 'begin', but an earlier "
               "segment has the same name"},
        Damage{"NoCommands", "/segments/0/commands", "discarded",
               "'programs.train.segments[0].commands' is missing"},
        Damage{"NoOrder", "/order", "discarded",
               "'programs.train.order' is missing"},
        Damage{"EmptyOrder", "/order", Json::array(),
               "'programs.train.order' is empty, but a program runs at least "
               "one segment"},
        Damage{"OrderOfNoSegment", "/order/2", "middle",
               "'programs.train.order[2]' is 'middle', expected the name of a "
               "segment"},
        Damage{"OrderOfNumbers", "/order/2", 1,
               "'programs.train.order[2]' must be a string"},
        Damage{"SegmentOfNoOrder",
               "/order",
               {"begin"},
               "'programs.train.segments[1].name' is 'forward', a segment that "
               "'order' does not contain"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

TEST(DamagedSegmentsTest, ShortDescriptionsOfLongPrograms) {
  Json json = withTwoUpdates();
  Json &train = json["programs"]["train"];
  Json &order = train["order"];
  const Json whole = order;
  order.insert(order.end(), 1 << 16, "end");
  EXPECT_NE(read(json).status().message().find(
                "'programs.train.order' has 65540 entries, expected at most "
                "65536"),
            std::string::npos);
  Json &commands = segmentOf(train, "end");
  const Json fill = commandAt(train, 0);
  for (int i = 0; i < 64; ++i)
    commands.push_back(fill);
  order = whole;
  order.insert(order.end(), (1 << 20) / 64, "end");
  EXPECT_NE(read(json).status().message().find(
                "'programs.train.order' repeats segments that have more than "
                "1048576 commands and arguments in total"),
            std::string::npos)
      << read(json).status().message();
}

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
