//===- TransferOrderTest.cpp - Tests of descriptions with asynchronous copies -===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlaceQueues.h"
#include "ToyOffload.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

/// Returns the error message, or an empty string if the description is valid.
std::string refusal(const Json &description) {
  Result<ProgramFile> file = parseProgramFile(description.dump(), 7);
  if (file.ok())
    return "";
  EXPECT_EQ(file.status().code(), ExitCode::Error);
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
  return file.status().message();
}

TEST(HostArenaTest, ReadsTheOffloadedToy) {
  Json json = describeOffloaded();
  json["link"] = {{"out_bytes_per_second", 1e8}, {"in_bytes_per_second", 2}};
  Result<ProgramFile> file = parseProgramFile(json.dump(), 7);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->hostArenaBytes, json["arena"]["host_bytes"]);
  EXPECT_EQ(file->description.hostArenaBytes, file->hostArenaBytes);
  EXPECT_EQ(file->hostStateBytes, 3 * offloadedTableBytes);
  EXPECT_EQ(file->description.link.outBytesPerSecond, 1e8);
  EXPECT_EQ(file->description.link.inBytesPerSecond, 2);
  EXPECT_EQ(file->statePlaces[0].arena, ArenaKind::Device);
  EXPECT_EQ(file->statePlaces[3].arena, ArenaKind::Host);
  EXPECT_EQ(file->description.states[4].role, StateRole::Mirror);
  EXPECT_EQ(file->description.states[4].of, "U");
  const Program &train = file->programs[2];
  EXPECT_EQ(train.tokens, 6);
  EXPECT_EQ(file->programs[0].tokens, 0);
  EXPECT_EQ(train.slots.back().arena, ArenaKind::Host);
  EXPECT_EQ(transferKind(train.commands[3]), TransferKind::CopyOut);
  EXPECT_EQ(transferKind(train.commands[7]), TransferKind::CopyIn);
  ASSERT_TRUE(train.commands[18].call.has_value());
  EXPECT_EQ(train.commands[18].call->args[0].arena, ArenaKind::Host);
}

struct Damage {
  const char *name;
  const char *pointer; ///< JSON pointer into the offloaded toy's description.
  Json value;          ///< New value; "discarded" removes the member.
  const char *message;
};

class DamagedHostTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedHostTest, IsOneClearError) {
  Json json = describeOffloaded();
  Json::json_pointer pointer(GetParam().pointer);
  if (GetParam().value == "discarded")
    json[pointer.parent_pointer()].erase(pointer.back());
  else
    json[pointer] = GetParam().value;
  EXPECT_NE(refusal(json).find(GetParam().message), std::string::npos)
      << refusal(json);
}

#define FORWARD "/programs/train/segments/1/commands/"
#define BACKWARD "/programs/train/segments/2/commands/"
#define END "/programs/train/segments/3/commands/"
INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedHostTest,
    testing::Values(
        Damage{"StatePrefix", "/arena/host_state_bytes", 64,
               "the bytes of the arena that are reserved for states"},
        Damage{"StatesAlone", "/arena/host_state_bytes", 1 << 30,
               "more than the whole host arena"},
        Damage{"NoHost", "/arena/host_bytes", "discarded",
               "more than the whole host arena"},
        Damage{"StateArena", "/states/1/arena", "attic",
               "'attic', expected device or host"},
        Damage{"StateEnd", "/states/1/offset", 1 << 20,
               "beyond the host arena of 66560 bytes"},
        Damage{"SlotEnd", "/programs/train/slots/19/offset", 1 << 20,
               "beyond the host arena"},
        Damage{"SlotArena", "/programs/train/slots/19/arena", 1, "string"},
        Damage{"RefArena", FORWARD "2/to/2", "device", "is not \"host\""},
        Damage{"RefEnd", FORWARD "2/to/0", 66000, "beyond the host arena"},
        Damage{"RefStride", FORWARD "2/to/1", 1 << 20, "last micro-batch"},
        Damage{"LinkRate",
               "/link",
               {{"out_bytes_per_second", 0}, {"in_bytes_per_second", 1}},
               "'link.out_bytes_per_second' is not a positive finite"},
        Damage{"LinkOneWay",
               "/link",
               {{"out_bytes_per_second", 1}},
               "'link.in_bytes_per_second' is missing"},
        Damage{"SameArena",
               FORWARD "2/to",
               {0, 0},
               "'programs.train.segments[1].commands[2]' must copy from"},
        Damage{"CopySize", FORWARD "2/bytes", -1, "bytes"},
        Damage{"TokenMissing", FORWARD "2/token", "discarded", "token"},
        Damage{"TokenHigh", FORWARD "2/token", 6,
               "has token 1, but no transfer has token 0; tokens must be "
               "numbered from 0 without gaps"},
        Damage{"TokenInTransit", END "8/token", 4,
               "(copy_start 'mirror') uses token 4 while copy_start "
               "'moment_E_back' at commands[19], which has the same token, is "
               "in flight; the copy_wait of that copy must come before this "
               "command"},
        Damage{"TokenOfARing",
               FORWARD "2/token",
               {0, 2},
               "'programs.train.segments[1].commands[2].token[1]' is 2, "
               "expected 1"},
        Damage{"TokenOfThreeNumbers",
               FORWARD "2/token",
               {0, 1, 2},
               "is not a transfer token: expected a number, or [number, 1] if "
               "each micro-batch in flight has its own token"},
        Damage{"TokenOutside",
               END "0/token",
               {2, 1},
               "is [number, 1] (a separate transfer token for each micro-batch "
               "in flight), but the segment is not repeated for each "
               "micro-batch: expected a number"},
        Damage{"TokenHuge",
               FORWARD "2/token",
               {INT64_MAX, 1},
               "is too large: the numbers of the transfer tokens exceed 64 "
               "bits"},
        Damage{"WaitNotStarted", BACKWARD "2/token", 1,
               "(copy_wait 'hidden' for micro-batch 0) waits for token 1, but "
               "no earlier transfer has this token"},
        Damage{
            "OwnerOfTheStartOnly", FORWARD "2/owner", 0,
            "but the ranks that wait are not the ranks that execute the copy: "
            "both commands must have the same 'owner'"},
        Damage{"OwnerOfASlot", "/programs/train/slots/0/owner", 1,
               "'programs.train.slots[0].owner' is 1, expected the index of "
               "one of the 1 ranks of data parallelism"},
        Damage{"WaitHigh", BACKWARD "2/token", 6,
               "waits for token 6, but no earlier transfer has this token"},
        Damage{"WaitForAnother", BACKWARD "5/token", 0,
               "is in flight; the copy_wait of that copy must come before this "
               "command"},
        Damage{"NoWait",
               END "10",
               {{"op", "fill"},
                {"ref", {200, 0}},
                {"bytes", 0},
                {"queue", "compute"}},
               "(copy_start 'mirror') has no copy_wait"},
        Damage{"MirrorInit",
               "/states/4/init",
               {{"kind", "constant"}, {"value", 0}},
               "is initialized with the values of its parameter"},
        Damage{"MirrorOf", "/states/4/of", "U.m",
               "'U.m', which is not a parameter"},
        Damage{"MirrorOfNothing", "/states/4/of", "discarded", "missing"},
        Damage{"MirrorOfDevice", "/states/4/of", "E", "another"},
        Damage{"MirrorOnHost", "/states/4/arena", "host",
               "must be a parameter whose dtype or arena differs from that of "
               "this mirror"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

TEST(DamagedHostTest, AMirrorIsTheSamePartAsItsParameter) {
  Json json = describeOffloaded();
  Json &mirror = json["states"][4];
  const Json shape = mirror["shape"], other = {shape[1], shape[0]};
  mirror["shape"] = mirror["global_shape"] = other;
  EXPECT_NE(refusal(json).find("'states[4].of' must be a parameter with the "
                               "shape of this mirror"),
            std::string::npos)
      << refusal(json);
  mirror["shape"] = shape;
  mirror["global_shape"] = {shape[0], 2 * shape[1].get<int64_t>()};
  EXPECT_NE(
      refusal(json).find("must be a parameter with the shard of this mirror"),
      std::string::npos)
      << refusal(json);
  mirror["shard"] = {0, shape[1]};
  json["states"][1]["global_shape"] = mirror["global_shape"];
  EXPECT_NE(
      refusal(json).find("must be a parameter with the shard of this mirror"),
      std::string::npos)
      << refusal(json);
  json["states"][1]["shard"] = mirror["shard"];
  EXPECT_EQ(refusal(json), "");
}

TEST(DamagedHostTest, AnyReplacedValueIsHandled) {
  Json json = describeOffloaded();
  json["link"] = {{"out_bytes_per_second", 1e8}, {"in_bytes_per_second", 2}};
  json["programs"].erase("evaluate");
  json["programs"].erase("generate");
  // Test only what differs from the toy without offloading. ProgramTest.cpp
  // tests the rest.
  auto isNew = [&](const std::string &path) {
    const std::string commands = "/commands/";
    std::size_t list = path.find(commands);
    if (list == std::string::npos)
      return path.find("arena") != std::string::npos ||
             path.rfind("/link", 0) == 0 || path.rfind("/states/4", 0) == 0;
    Json command = json[Json::json_pointer(
        path.substr(0, path.find('/', list + commands.size())))];
    return command["op"].get<std::string>().rfind("copy_", 0) == 0 ||
           command["name"] == "update_U";
  };
  Json flat = json.flatten();
  const Json replacements[] = {nullptr,       -1, INT64_MAX, "host",
                               Json::array(), 0,  1e300,     Json::object()};
  for (auto &[path, unused] : flat.items()) {
    if (!isNew(path))
      continue;
    for (const Json &replacement : replacements) {
      Json damaged = json;
      damaged[Json::json_pointer(path)] = replacement;
      refusal(damaged);
    }
  }
}

//===----------------------------------------------------------------------===//
// Commands during a copy
//===----------------------------------------------------------------------===//

class TransferOrderTest : public testing::Test {
protected:
  Json &train() { return json_["programs"]["train"]; }
  Json &command(size_t index) { return commandAt(train(), index); }
  Json &slot(const char *name) { return findSlot(train(), name); }
  int64_t place(const char *name) { return slot(name)["offset"]; }
  /// Moves command `from` to the position of command `to`.
  void move(size_t from, size_t to) {
    Json command = commandAt(train(), from);
    eraseCommand(train(), from);
    insertCommand(train(), to, command);
  }
  void replace(size_t index, Json command) {
    commandAt(train(), index) = command;
  }
  /// Adds queues and waits to the description, and returns the error message of
  /// the reader.
  std::string refusal() const { return ::refusal(withQueues(json_)); }
  void refuses(const std::string &message) {
    EXPECT_NE(refusal().find(message), std::string::npos)
        << message << "\nbut: " << refusal();
  }
  Json json_ = describeOffloaded();
};

TEST_F(TransferOrderTest, WriteOfTheSourceByAProduct) {
  // The gradient of U is computed again while it is copied out.
  Json product = command(10);
  product["beta"] = 1;
  replace(13, product);
  // No copy uses token 3 now. Decrement the larger tokens, because all tokens
  // must be used.
  command(19)["token"] = command(21)["token"] = 3;
  command(20)["token"] = command(22)["token"] = 4;
  refuses("'programs.train.segments[3].commands[1]' (gemm 'd_U') writes the "
          "source of copy_start 'grad_U' at commands[12] while that copy is in "
          "flight");
}

TEST_F(TransferOrderTest, WriteOfTheSourceByAKernel) {
  move(21, 22); // The order of waits is arbitrary.
  move(15, 16);
  EXPECT_EQ(refusal(), "");
  // The update of E's moment runs before the copy of the moment is complete.
  move(17, 15);
  refuses("'programs.train.segments[3].commands[3]' (launch 'update_E') "
          "writes the destination of copy_start 'moment_E' at commands[13] "
          "while that copy is in flight");
}

TEST_F(TransferOrderTest, ReadOfTheDestinationByAKernel) {
  // The update of U runs before the copy of its gradient is complete.
  move(18, 15);
  refuses("'programs.train.segments[3].commands[3]' (launch 'update_U') reads "
          "the destination of copy_start 'grad_U' at commands[12] while that "
          "copy is in flight");
}

TEST_F(TransferOrderTest, ReadOfTheDestination) {
  // hidden_back is read before its copy is complete.
  move(9, 10);
  refuses(
      "'programs.train.segments[2].commands[5]' (gemm 'd_U' for micro-batch 0) "
      "reads the destination of copy_start 'hidden_back' for micro-batch 0 "
      "at commands[7] while that "
      "copy is in flight");
}

TEST_F(TransferOrderTest, WriteOfTheDestination) {
  replace(8, {{"op", "fill"},
              {"name", "zero"},
              {"ref", {place("hidden_back") + 8, 0}},
              {"bytes", 4}});
  refuses("(fill 'zero' for micro-batch 0) writes the destination of "
          "copy_start 'hidden_back'");
}

TEST_F(TransferOrderTest, NeighboursAreLeftAlone) {
  int64_t begin = place("hidden_back");
  int64_t bytes = slot("hidden_back")["bytes"];
  for (int64_t offset : {begin - 4, begin + bytes}) {
    replace(8, {{"op", "fill"}, {"ref", {offset, 0}}, {"bytes", 4}});
    EXPECT_EQ(refusal(), "");
  }
  for (int64_t offset : {begin - 3, begin + bytes - 1}) {
    replace(8, {{"op", "fill"}, {"ref", {offset, 0}}, {"bytes", 4}});
    refuses("(fill 'fill' for micro-batch 0) writes the destination");
  }
}

TEST_F(TransferOrderTest, ReadOfTheSourceIsFine) {
  Json product = command(10);
  product["a"]["ref"] = {place("hidden"), 0};
  slot("hidden")["last"] = 11;
  replace(4, product);
  EXPECT_EQ(refusal(), "");
}

TEST_F(TransferOrderTest, ASlotThatReachesIntoTheSource) {
  // The buffer of row_loss begins before hidden and ends inside hidden, so that
  // a launch that writes row_loss writes hidden while hidden is copied.
  slot("row_loss")["offset"] = place("hidden") - 64;
  command(4)["args"][3] = {place("hidden") - 64, 0};
  refuses(
      "'programs.train.segments[2].commands[0]' (launch 'loss' for micro-batch "
      "0) writes the source of copy_start 'hidden' for micro-batch 0 at "
      "commands[3]");
}

TEST_F(TransferOrderTest, PartsOfOneSlotAreSeparate) {
  // hidden and the row losses are slices of one slot.
  int64_t bytes = slot("row_loss")["bytes"];
  int64_t rowLoss = place("hidden") - bytes;
  slot("hidden")["offset"] = rowLoss;
  slot("hidden")["bytes"] = slot("hidden")["bytes"].get<int64_t>() + bytes;
  command(4)["args"][3] = {rowLoss, 0};
  EXPECT_EQ(refusal(), "");
  // An argument conflicts with the copy if it begins inside the copied bytes.
  command(4)["args"][3] = {rowLoss + bytes, 0};
  refuses("(launch 'loss' for micro-batch 0) writes the source");
}

TEST_F(TransferOrderTest, StatesAreBlocksToo) {
  // Copy a part of U's moment to the slot of E's moment. The copy is in flight
  // during both updates.
  replace(13, {{"op", "copy_start"},
               {"name", "moment_U"},
               {"from", {2 * offloadedTableBytes + 64, 0, "host"}},
               {"to", {place("moment_E"), 0}},
               {"bytes", 64},
               {"token", 3}});
  move(16, 18);
  // 'update_U' also writes U's moment, the source of the copy. This is not
  // reported, because the argument of 'update_U' begins before the copied
  // bytes, so the argument and the copied bytes may be separate slices of the
  // moment. 'update_E' writes the destination of the copy.
  refuses("(launch 'update_E') writes the destination of copy_start 'moment_U' "
          "at commands[13]");
}

TEST_F(TransferOrderTest, ScratchIsWritten) {
  command(4)["scratch"][0] = place("hidden");
  json_["arena"]["bytes"] = json_["arena"]["bytes"].get<int64_t>() + 4096;
  refuses("(launch 'loss' for micro-batch 0) writes the source of copy_start "
          "'hidden'");
}

TEST_F(TransferOrderTest, CopiesInFlightMayShareOnlyWhatBothRead) {
  // The copy 'moment_E_back' is in flight at the same time as 'mirror'.
  Json second = command(19);
  second["from"] = command(20)["to"];
  replace(19, second);
  refuses("'programs.train.segments[3].commands[8]' (copy_start 'mirror') "
          "writes the source of copy_start 'moment_E_back' at commands[19]");
  // Two copies may read the same bytes.
  json_ = describeOffloaded();
  replace(19, {{"op", "copy_start"},
               {"name", "again"},
               {"from", command(20)["from"]},
               {"to", {place("moment_E"), 0}},
               {"bytes", offloadedTableBytes},
               {"token", 4}});
  EXPECT_EQ(refusal(), "");
  command(19)["to"] = command(20)["to"];
  refuses("(copy_start 'mirror') writes the destination of copy_start 'again'");
}

TEST_F(TransferOrderTest, TokensMayBeUsedAgain) {
  command(13)["token"] = command(16)["token"] = 0;
  command(19)["token"] = command(21)["token"] = 3;
  command(20)["token"] = command(22)["token"] = 4;
  EXPECT_EQ(refusal(), "");
}

TEST_F(TransferOrderTest, WaitsMayBeRepeated) {
  insertCommand(train(), 17, Json(command(15)));
  EXPECT_EQ(refusal(), "");
}

TEST_F(TransferOrderTest, CopiesMayBeInFlightFromSegmentToSegment) {
  Json start = command(12), wait = command(15);
  start["from"] = {place("moment_E"), 0};
  start["token"] = wait["token"] = 6;
  // The copy is in flight from the segment "begin" to the first micro-batch.
  // The second micro-batch repeats the wait.
  const Json whole = json_;
  auto fromBegin = [&](const char *segment) {
    insertCommand(train(), "begin", 1, start);
    insertCommand(train(), segment, 0, wait);
  };
  fromBegin("forward");
  refuses("(copy_wait 'grad_U' for micro-batch 0) waits for copy_start "
          "'grad_U' at commands[1], but the bytes that this copy reads are in "
          "no slot that is live from its start to this copy_wait");
  slot("moment_E")["first"] = 0;
  refuses("but the bytes that this copy writes are in no slot that is live");
  slot("host_grad_U")["first"] = 0;
  EXPECT_EQ(refusal(), "");
  json_ = whole;
  fromBegin("end");
  slot("moment_E")["first"] = slot("host_grad_U")["first"] = 0;
  EXPECT_EQ(refusal(), "");
  // The second micro-batch starts the copy again while the copy of the first
  // micro-batch is in flight.
  json_ = whole;
  insertCommand(train(), 4, start);
  insertCommand(train(), "end", 0, wait);
  refuses("'programs.train.segments[2].commands[0]' (copy_start 'grad_U' for "
          "micro-batch 1) writes the destination of copy_start 'grad_U' for "
          "micro-batch 0 at commands[4] while that copy is in flight; the "
          "copy_wait of that copy must come before this command");
}

TEST_F(TransferOrderTest, ReferencesThatMeetInALaterMicrobatch) {
  // For micro-batch i, copy_start 'hidden' writes the bytes [i * 64,
  // (i + 1) * 64) of the slot 'tail' of the host arena. The fill 'clear' is
  // inserted after it. The tests below vary the bytes that the fill writes.
  int64_t tail = json_["arena"]["host_bytes"];
  json_["arena"]["host_bytes"] = tail + 1024;
  Json slotOfTail = slot("host_hidden");
  slotOfTail["name"] = "tail";
  slotOfTail["offset"] = tail;
  slotOfTail["bytes"] = 1024;
  train()["slots"].push_back(slotOfTail);
  command(3)["to"] = {tail, 64, "host"};
  command(3)["bytes"] = 64;
  command(7)["from"] = {tail, 64, "host"};
  command(7)["bytes"] = 64;
  Json fill = {{"op", "fill"}, {"name", "clear"}, {"bytes", 64}};
  fill["ref"] = {tail + 128, 64, "host"};
  insertCommand(train(), 4, fill);
  EXPECT_EQ(refusal(), "");
  command(4)["ref"] = {tail + 128, 0, "host"};
  EXPECT_EQ(refusal(), "");
  command(4)["ref"] = {tail + 65, 0, "host"};
  refuses("(fill 'clear' for micro-batch 1) writes the destination of "
          "copy_start 'hidden'");
  command(4)["ref"] = {tail + 128, -64, "host"};
  refuses("(fill 'clear' for micro-batch 1)");
  command(4)["ref"] = {tail + 192, -64, "host"};
  EXPECT_EQ(refusal(), "");
  // The same offset in the device arena is a different location.
  command(4)["ref"] = {tail, 0};
  EXPECT_EQ(refusal(), "");
}

} // namespace
