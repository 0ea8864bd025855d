//===- MicrobatchesTest.cpp - Orders of forward and backward segments -----===//
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

using namespace kiln::abi;
using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

/// Returns a description of the toy model in which its two micro-batches are in
/// flight at the same time.
Json inFlight(const std::string &order = "all-forward-first") {
  toy::Options options;
  options.order = order;
  options.slots = 2;
  return describe(options);
}

TEST(MicrobatchesTest, AreReadWithTheirOrder) {
  Result<ProgramFile> file = read(inFlight("F1 F0 B0 B1"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Program &train = file->programs[2];
  EXPECT_EQ(train.microbatches.count, 2);
  EXPECT_EQ(train.microbatches.slots, 2);
  EXPECT_EQ(train.microbatches.forward, 1u);
  EXPECT_EQ(train.microbatches.backward, 3u);
  EXPECT_EQ(train.microbatches.end, 8u);
  std::string order;
  for (const ProgramRun &entry : train.runs)
    order += train.segments[entry.segment].name + " " + entry.run.name() + "@" +
             std::to_string(entry.run.slot) + (entry.run.isFirst ? " f" : "") +
             (entry.run.isLast ? " l" : "") + "; ";
  EXPECT_EQ(order, "begin F0@0 f l; forward F1@0 f; forward F0@1 l; "
                   "backward B0@1 f; backward B1@0 l; end F0@0 f l; ");
  const Command &gather = train.commands[1];
  int64_t ring = gather.call->args[2].ring;
  EXPECT_GT(ring, 0);
  for (const Slot &slot : train.slots) {
    bool isRing = slot.name == "hidden" || slot.name == "logits";
    EXPECT_EQ(slot.ring > 0, isRing) << slot.name;
    if (slot.name == "hidden") {
      EXPECT_EQ(slot.ring, ring);
    }
  }
  EXPECT_EQ(file->programs[0].microbatches.count, 0);
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

class OrderTest : public ToyTest {
protected:
  /// Returns the losses and the weights after some steps.
  std::pair<std::vector<std::string>, std::string>
  train(const Json &description, std::vector<std::string> flags = {}) {
    std::filesystem::remove_all(path("save"));
    flags.insert(flags.end(),
                 {data(), "--steps=3", "--seed=5", "--log=" + path("log"),
                  "--save=" + path("save")});
    Outcome outcome = runToy(description, flags);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    std::string checkpoint = path("save/checkpoint-3");
    return {lossTexts(path("log")),
            readFile(checkpoint + "/model.safetensors") +
                readFile(checkpoint + "/optimizer.safetensors")};
  }
  void passesTheMemoryCheck(const Json &description) {
    Outcome outcome = runToy(description, {data(), "--check-memory"});
    EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  }
};

const char *const ascendingOrders[] = {"alternate", "all-forward-first",
                                       "one-forward-one-backward:2",
                                       "F1 F0 B0 B1"};

TEST_F(OrderTest, AscendingBackwardSegmentsGiveTheSameBits) {
  auto expected = train(describe());
  ASSERT_EQ(expected.first.size(), 3u);
  for (const char *order : ascendingOrders) {
    EXPECT_EQ(train(inFlight(order)), expected) << order;
    EXPECT_EQ(train(offload(inFlight(order))), expected) << order;
    for (int seed = 0; seed < 4; ++seed)
      EXPECT_EQ(train(offload(inFlight(order)),
                      {"--stress-copies=" + std::to_string(seed)}),
                expected)
          << order;
  }
}

TEST_F(OrderTest, AnyOrderPassesTheMemoryCheck) {
  for (const char *order : ascendingOrders) {
    passesTheMemoryCheck(inFlight(order));
    passesTheMemoryCheck(offload(inFlight(order)));
  }
  passesTheMemoryCheck(inFlight("F0 F1 B1 B0"));
}

TEST_F(OrderTest, AResidualThatAnotherMicrobatchOverwritesIsFound) {
  for (const char *name : {"hidden", "logits"}) {
    Json description = inFlight();
    Json &program = description["programs"]["train"];
    Json &slot = findSlot(program, name);
    slot["last"] = slot["last"].get<int64_t>() - 1;
    Outcome outcome = runToy(description, {data(), "--check-memory"});
    EXPECT_EQ(outcome.exitCode, 1) << name;
    EXPECT_NE(
        outcome.out.find("slot '" + std::string(name) + "' is used after"),
        std::string::npos)
        << outcome.out;
  }
  // For micro-batch 0, 'gather' also writes bytes of the slot 'hidden' of
  // micro-batch 1.
  Json description = inFlight();
  commandAt(description["programs"]["train"], 1)["units"] =
      batch * length / microbatches + 1;
  Outcome outcome = runToy(description, {data(), "--check-memory"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_NE(outcome.out.find("'gather' for micro-batch 0 changed byte"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("of slot 'hidden' of another micro-batch"),
            std::string::npos)
      << outcome.out;
}

TEST_F(OrderTest, CommandsOfTheFirstAndTheLastExecution) {
  // Move the fill of the gradient to the first execution of the backward
  // segment, and the norm to the last execution.
  Json description = describe();
  Json &program = description["programs"]["train"];
  Json &backward = segmentOf(program, "backward");
  Json fill = segmentOf(program, "begin")[0],
       norm = segmentOf(program, "end")[0];
  fill["when"] = "first";
  norm["when"] = "last";
  segmentOf(program, "begin").erase(0);
  segmentOf(program, "end").erase(0);
  backward.insert(backward.begin(), fill);
  backward.push_back(norm);
  for (Json &slot : program["slots"]) {
    slot["first"] = 0;
    slot["last"] = 10;
  }
  EXPECT_EQ(train(description), train(describe()));
  passesTheMemoryCheck(description);
}

TEST_F(OrderTest, TracesOpsOfEveryMicrobatch) {
  for (const Json &description : {inFlight(), offload(inFlight())}) {
    Outcome outcome =
        runToy(description, {data(), "--check-ops=" + path("ops")});
    ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
    outcome = runToy(description, {"--check-trace=" + path("ops")});
    EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("ok    train: launch, "), std::string::npos);
  }
  // A trace must be rejected by a program that executes the micro-batches in
  // another order.
  Outcome outcome = runToy(describe(), {data(), "--check-ops=" + path("ops")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  toy::Options options;
  options.order = "F1 B1 F0 B0";
  outcome = runToy(describe(options), {"--check-trace=" + path("ops")});
  EXPECT_EQ(outcome.exitCode, 3) << outcome.out;
  EXPECT_NE(outcome.err.find("the micro-batch in the record of commands[1] is "
                             "0, expected 1"),
            std::string::npos)
      << outcome.err;
}

//===----------------------------------------------------------------------===//
// Copies between micro-batches
//===----------------------------------------------------------------------===//

std::string refusal(const Json &description) {
  Result<ProgramFile> file = read(description);
  return file.ok() ? "" : file.status().message();
}

TEST(CopiesOfMicrobatchesTest, TokensOfRingsAreThoseOfMicrobatches) {
  Json description = offload(inFlight());
  Json &train = description["programs"]["train"];
  EXPECT_EQ(refusal(description), "");
  commandAt(train, 3)["token"] = commandAt(train, 6)["token"] = 0;
  EXPECT_NE(refusal(description).find("but no transfer has token 1"),
            std::string::npos)
      << refusal(description);
  // Give token 1 to another copy, so that all tokens are used and only the
  // copies of 'hidden' are invalid.
  commandAt(train, 13)["token"] = commandAt(train, 16)["token"] = 1;
  commandAt(train, 19)["token"] = commandAt(train, 21)["token"] = 4;
  commandAt(train, 20)["token"] = commandAt(train, 22)["token"] = 5;
  EXPECT_NE(
      refusal(description)
          .find("(copy_start 'hidden' for micro-batch 1) uses token 0 while "
                "copy_start 'hidden' for micro-batch 0 at commands[3], which "
                "has the same token, is in flight"),
      std::string::npos)
      << refusal(description);
}

TEST(CopiesOfMicrobatchesTest, InstancesStayLiveUntilTheWait) {
  Json description = offload(inFlight());
  findSlot(description["programs"]["train"], "hidden")["last"] = 5;
  EXPECT_NE(refusal(description)
                .find("(copy_wait 'hidden' for micro-batch 0) waits for "
                      "copy_start 'hidden' for micro-batch 0 at commands[3], "
                      "but the bytes that this copy reads are in no slot that "
                      "is live from its start to this copy_wait"),
            std::string::npos)
      << refusal(description);
}

/// Each forward segment waits for the copy of the previous forward segment. The
/// first forward segment waits for a copy of no bytes, which the segment
/// "begin" starts.
TEST(CopiesOfMicrobatchesTest, OneMicrobatchWaitsForTheCopyOfAnother) {
  Json description = offload(inFlight());
  Json &train = description["programs"]["train"];
  for (std::size_t i : {3, 6})
    commandAt(train, i)["token"] = 0;
  Json first = commandAt(train, 3), wait = commandAt(train, 6);
  first["name"] = "nothing";
  first["from"] = {0, 0};
  first["to"] = {0, 0, "host"};
  first["bytes"] = 0;
  first["token"] = 1;
  Json waitForFirst = wait;
  waitForFirst["token"] = 1;
  insertCommand(train, "forward", 0, wait);
  insertCommand(train, "begin", 1, first);
  insertCommand(train, "begin", 2, waitForFirst);
  first["token"] = 0;
  insertCommand(train, "begin", 3, first);
  EXPECT_EQ(refusal(description), "");
  Json &hidden = findSlot(train, "hidden");
  ASSERT_EQ(hidden["first"], 5);
  hidden["last"] = 7;
  EXPECT_NE(refusal(description)
                .find("(copy_wait 'hidden' for micro-batch 1) waits for "
                      "copy_start 'hidden' for micro-batch 0 at commands[7], "
                      "but the bytes that this copy reads are in no slot that "
                      "is live from its start to this copy_wait"),
            std::string::npos)
      << refusal(description);
}

//===----------------------------------------------------------------------===//
// Damaged descriptions
//===----------------------------------------------------------------------===//

class DamagedMicrobatchesTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedMicrobatchesTest, IsOneClearError) {
  expectOneClearError(inFlight(), "/programs/train", GetParam());
}

// The slots 10, 11 and 12 are 'hidden', 'row_loss' and 'logits'.
INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedMicrobatchesTest,
    testing::Values(
        Damage{"NoForward", "/order/1/forward", "discarded",
               "'programs.train.order[1].forward' is missing"},
        Damage{"NoBackward", "/order/1/backward", "discarded",
               "'programs.train.order[1].backward' is missing"},
        Damage{"NoSuchSegment", "/order/1/forward", "backwards",
               "'programs.train.order[1].forward' is 'backwards', expected the "
               "name of a segment"},
        Damage{"OneSegment", "/order/1/backward", "forward",
               "'programs.train.order[1].backward' is 'forward', which 'order' "
               "contains twice, but a segment of the micro-batches may occur "
               "only once"},
        Damage{"SegmentBefore", "/order/0", "forward",
               "'programs.train.order[1].forward' is 'forward', which 'order' "
               "contains twice, but a segment of the micro-batches may occur "
               "only once"},
        Damage{"SegmentAfter", "/order/2", "backward",
               "'programs.train.order[2]' is 'backward', which 'order' "
               "contains twice, but a segment of the micro-batches may occur "
               "only once"},
        Damage{"Second",
               "/order/2",
               {{"forward", "end"}},
               "'programs.train.order[2]' is the second entry with "
               "micro-batches, expected at most one"},
        Damage{"Count", "/order/1/microbatches", 0, "at least 1"},
        Damage{"CountMissing", "/order/1/microbatches", "discarded",
               "'programs.train.order[1].microbatches' is missing"},
        Damage{"CountHuge", "/order/1/microbatches", INT64_MAX,
               "expected at most 1048576"},
        Damage{"Slots", "/order/1/slots", 0, "at least 1"},
        Damage{"SlotsMissing", "/order/1/slots", "discarded",
               "'programs.train.order[1].slots' is missing"},
        Damage{"FewSlots", "/order/1/slots", 1,
               "'programs.train.order[1].slots' is 1, expected 2 to 2, because "
               "up to 2 of 2 micro-batches are in flight"},
        Damage{"ManySlots", "/order/1/slots", INT64_MAX, "expected 2 to 2"},
        Damage{"OrderMissing", "/order/1/order", "discarded",
               "'programs.train.order[1].order' is missing"},
        Damage{"OrderType", "/order/1/order", 1, "must be a string"},
        Damage{"OrderText", "/order/1/order", "alternating",
               "'programs.train.order[1].order' is invalid: the order has the "
               "entry 'alternating'"},
        Damage{
            "OrderOfOneMicrobatch", "/order/1/order", "F0 B0",
            "the order lacks F1; every micro-batch needs an F and a B entry, "
            "and the step has 2 micro-batches"},
        Damage{"BackwardFirst", "/order/1/order", "F0 B1 F1 B0",
               "the order executes B1 before F1"},
        Damage{"StrideOutside",
               "/segments/3/commands/0/args/0",
               {0, 4},
               "'programs.train.segments[3].commands[0].args[0][1]' is 4, "
               "expected 0 in a segment that is not repeated for each "
               "micro-batch"},
        Damage{"RingOutside",
               "/segments/3/commands/0/args/0",
               {0, 0, 4},
               "args[0][2]' is 4, expected 0 in a segment"},
        Damage{"RingNegative",
               "/segments/1/commands/0/args/0",
               {64, 0, -4},
               "args[0][2]' is -4, expected at least 0"},
        Damage{"RingEnd",
               "/segments/1/commands/0/args/0",
               {64, 0, INT64_MAX},
               "args[0][2]' moves the reference outside the arena in the last "
               "slot of the ring"},
        Damage{"RefOfFour",
               "/segments/1/commands/0/args/0",
               {64, 0, 0, 0},
               "is not [offset, stride] or [offset, stride, ring], "
               "optionally followed by \"host\""},
        Damage{"RefOfText",
               "/segments/1/commands/0/args/0",
               {"host"},
               "is not [offset, stride]"},
        Damage{"ImmediateSum",
               "/segments/1/commands/0/imm/0",
               {INT64_MAX, 1},
               "is too large: value + after_first exceeds 64 bits"},
        Damage{"WhenOutside", "/segments/3/commands/0/when", "last",
               "'programs.train.segments[3].commands[0].when' is given, but "
               "only a command in a segment of micro-batches may have 'when'"},
        Damage{"WhenForwardSecond", "/segments/1/commands/0/when", "second",
               "is 'second', expected first or last"},
        Damage{"WhenSecond", "/segments/2/commands/0/when", "second",
               "is 'second', expected first or last"},
        Damage{"SlotRingSmall", "/slots/10/ring", 64,
               "'programs.train.slots[10].ring' is 64, expected at least the "
               "bytes of the slot, 1024"},
        Damage{"SlotRingEnd", "/slots/10/ring", 1 << 20,
               "which places the last of 2 instances outside the arena"},
        Damage{"SlotRingHuge", "/slots/10/ring", INT64_MAX,
               "which places the last of 2 instances outside the arena"},
        Damage{"SlotRingZero", "/slots/10/ring", 0, "expected at least 1"},
        Damage{"SlotRingLife", "/slots/10/first", 0,
               "'programs.train.slots[10]' is live from commands[0] to "
               "commands[5], but a slot with a ring may be live only in a "
               "micro-batch, from commands[1] to commands[7]"},
        Damage{"SlotRingBackwards", "/slots/10/last", 0, "a slot with a ring"},
        Damage{"SlotWithoutRing", "/slots/10/ring", "discarded",
               "'programs.train.slots[10]' is live from the forward to the "
               "backward segment of a micro-batch, so it must have a 'ring', "
               "because 2 micro-batches may be in flight"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

TEST(DamagedMicrobatchesTest, RingsNeedMicrobatches) {
  Json json = inFlight();
  json["programs"]["evaluate"]["slots"][0]["ring"] = 1 << 10;
  EXPECT_NE(refusal(json).find("'programs.evaluate.slots[0].ring' is given, "
                               "but the program has no micro-batches"),
            std::string::npos)
      << refusal(json);
}

TEST(DamagedMicrobatchesTest, ShortDescriptionsOfLongPrograms) {
  Json json = describe();
  Json &evaluate = json["programs"]["evaluate"];
  Json fill = {{"op", "fill"},
               {"name", "fill"},
               {"ref", {0, 0}},
               {"bytes", 0},
               {"queue", "compute"}};
  evaluate.update(
      toy::inMicrobatches(Json::array_t(17, fill), {0, 8, 17, 1 << 20}));
  EXPECT_NE(refusal(json).find(
                "'programs.evaluate.order' executes 17825792 commands, "
                "expected at most 16777216"),
            std::string::npos)
      << refusal(json);
}

TEST(DamagedMicrobatchesTest, ShortDescriptionsOfManyTokens) {
  // Each copy is started only once, but reserves a token (the number by which a
  // wait identifies its copy) for every micro-batch in flight.
  Json json = describeOffloaded();
  Json &evaluate = json["programs"]["evaluate"];
  Json commands = Json::array();
  const int64_t copies = 1025, slots = 1 << 14;
  for (int64_t i = 0; i < copies; ++i)
    commands.push_back({{"op", "copy_start"},
                        {"name", "copy"},
                        {"from", {0, 0}},
                        {"to", {0, 0, "host"}},
                        {"bytes", 0},
                        {"token", {i * slots, 1}},
                        {"when", "first"},
                        {"queue", "copy_out"}});
  evaluate.update(toy::inMicrobatches(
      commands, {0, 0, std::size_t(copies), slots, "alternate", slots}));
  EXPECT_NE(refusal(json).find("uses token 16793599, expected a token below "
                               "16777216"),
            std::string::npos)
      << refusal(json);
}

TEST(DamagedMicrobatchesTest, AnyReplacedValueIsHandled) {
  Json json = inFlight();
  json["programs"].erase("evaluate");
  json["programs"].erase("generate");
  const Json replacements[] = {
      nullptr,       -1, INT64_MAX, "F0 B0", "one-forward-one-backward:2",
      Json::array(), 0,  1,         1 << 20, 1e300,
      Json::object()};
  Json flat = json.flatten();
  for (auto &[path, unused] : flat.items()) {
    if (path.rfind("/programs/train/order", 0) != 0 &&
        path.rfind("/programs/train/slots", 0) != 0)
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
