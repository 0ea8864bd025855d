//===- CopyOrderTest.cpp - Tests of descriptions with asynchronous copies -===//
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
  EXPECT_EQ(train.copies, 6);
  EXPECT_EQ(file->programs[0].copies, 0);
  EXPECT_EQ(train.slots.back().arena, ArenaKind::Host);
  EXPECT_EQ(copyDirection(train.commands[4]), CopyDirection::Out);
  EXPECT_EQ(copyDirection(train.commands[8]), CopyDirection::In);
  ASSERT_TRUE(train.commands[20].call.has_value());
  EXPECT_EQ(train.commands[20].call->args[0].arena, ArenaKind::Host);
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

#define TRAIN "/programs/train/segments/0/commands/"
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
        Damage{"RefArena", TRAIN "4/to/2", "device", "is not \"host\""},
        Damage{"RefEnd", TRAIN "4/to/0", 66000, "beyond the host arena"},
        Damage{"RefStride", TRAIN "4/to/1", 1 << 20, "last iteration"},
        Damage{"LinkRate",
               "/link",
               {{"out_bytes_per_second", 0}, {"in_bytes_per_second", 1}},
               "'link.out_bytes_per_second' is not a positive finite"},
        Damage{"LinkOneWay",
               "/link",
               {{"out_bytes_per_second", 1}},
               "'link.in_bytes_per_second' is missing"},
        Damage{"SameArena",
               TRAIN "4/to",
               {0, 0},
               "'programs.train.segments[0].commands[4]' must copy from"},
        Damage{"CopySize", TRAIN "4/bytes", -1, "bytes"},
        Damage{"TokenMissing", TRAIN "4/token", "discarded", "token"},
        Damage{"TokenHigh", TRAIN "4/token", 6,
               "has token 6, expected a token below 6, the number of copies"},
        Damage{"TokenInTransit", TRAIN "15/token", 2,
               "uses token 2 while copy_start 'grad_U' at commands[14], which "
               "has the same token, is in flight; the copy_wait of that copy "
               "must come before this command"},
        Damage{"WaitNotStarted", TRAIN "7/token", 1,
               "waits for token 1, but no earlier copy_start has this token"},
        Damage{"WaitHigh", TRAIN "7/token", 6,
               "waits for token 6, but no earlier copy_start has this token"},
        Damage{"WaitForAnother", TRAIN "10/token", 0,
               "is in flight; the copy_wait of that copy must come before this "
               "command"},
        Damage{"NoWait",
               TRAIN "24",
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
               "a parameter with the same dtype and in the same arena as the "
               "mirror"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

TEST(DamagedHostTest, AMirrorIsTheSamePartAsItsParameter) {
  Json json = describeOffloaded();
  Json &mirror = json["states"][4];
  const Json shape = mirror["shape"], other = {shape[1], shape[0]};
  mirror["shape"] = mirror["global_shape"] = other;
  EXPECT_NE(refusal(json).find("'states[4].of' is a parameter whose shape "
                               "differs from that of the mirror"),
            std::string::npos)
      << refusal(json);
  mirror["shape"] = shape;
  mirror["global_shape"] = {shape[0], 2 * shape[1].get<int64_t>()};
  EXPECT_NE(refusal(json).find(
                "a parameter whose shard differs from that of the mirror"),
            std::string::npos)
      << refusal(json);
  mirror["shard"] = {0, shape[1]};
  json["states"][1]["global_shape"] = mirror["global_shape"];
  EXPECT_NE(refusal(json).find(
                "a parameter whose shard differs from that of the mirror"),
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
  // ProgramTest.cpp checks the members that this description shares with the
  // toy.
  auto isNew = [&](const std::string &path) {
    const std::string commands = "/programs/train/segments/0/commands/";
    if (path.rfind(commands, 0) != 0)
      return path.find("arena") != std::string::npos ||
             path.rfind("/link", 0) == 0 || path.rfind("/states/4", 0) == 0;
    std::string place = path.substr(0, path.find('/', commands.size()));
    std::string op = json[Json::json_pointer(place)]["op"];
    return op.rfind("copy_", 0) == 0 || path.rfind(commands + "20/", 0) == 0;
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

class CopyOrderTest : public testing::Test {
protected:
  Json &commands() { return commandsOf(json_["programs"]["train"]); }
  Json &slot(const char *name) {
    return findSlot(json_["programs"]["train"], name);
  }
  int64_t place(const char *name) { return slot(name)["offset"]; }
  /// Moves command `from` to the position of command `to`.
  void move(size_t from, size_t to) {
    Json command = commands()[from];
    commands().erase(from);
    commands().insert(commands().begin() + long(to), command);
  }
  void replace(size_t index, Json command) { commands()[index] = command; }
  /// Adds queues and waits to the description, and returns the error message of
  /// the reader.
  std::string refusal() const { return ::refusal(withQueues(json_)); }
  void refuses(const std::string &message) {
    EXPECT_NE(refusal().find(message), std::string::npos)
        << message << "\nbut: " << refusal();
  }
  Json json_ = describeOffloaded();
};

TEST_F(CopyOrderTest, WriteOfTheSourceByAProduct) {
  // The gradient of U is computed again while it is copied out.
  Json product = commands()[11];
  product["beta"] = 1;
  replace(15, product);
  refuses("'programs.train.segments[0].commands[15]' (gemm 'd_U') writes the "
          "source of copy_start 'grad_U' at commands[14] while that copy is in "
          "flight");
}

TEST_F(CopyOrderTest, WriteOfTheSourceByAKernel) {
  move(23, 24); // The order of waits is arbitrary.
  move(17, 18);
  EXPECT_EQ(refusal(), "");
  // The update of E's moment runs before the copy of the moment is complete.
  move(19, 17);
  refuses("'programs.train.segments[0].commands[17]' (launch 'update_E') "
          "writes the destination of copy_start 'moment_E' at commands[15] "
          "while that copy is in flight");
}

TEST_F(CopyOrderTest, ReadOfTheDestinationByAKernel) {
  // The update of U runs before the copy of its gradient is complete.
  move(20, 17);
  refuses("'programs.train.segments[0].commands[17]' (launch 'update_U') reads "
          "the destination of copy_start 'grad_U' at commands[14] while that "
          "copy is in flight");
}

TEST_F(CopyOrderTest, ReadOfTheDestination) {
  // hidden_back is read before its copy is complete.
  move(10, 11);
  refuses("'programs.train.segments[0].commands[10]' (gemm 'd_U') reads the "
          "destination of copy_start 'hidden_back' at commands[8] while that "
          "copy is in flight");
}

TEST_F(CopyOrderTest, WriteOfTheDestination) {
  replace(9, {{"op", "fill"},
              {"name", "zero"},
              {"ref", {place("hidden_back") + 8, 0}},
              {"bytes", 4}});
  refuses("(fill 'zero') writes the destination of copy_start 'hidden_back'");
}

TEST_F(CopyOrderTest, NeighboursAreLeftAlone) {
  int64_t begin = place("hidden_back");
  int64_t bytes = slot("hidden_back")["bytes"];
  for (int64_t offset : {begin - 4, begin + bytes}) {
    replace(9, {{"op", "fill"}, {"ref", {offset, 0}}, {"bytes", 4}});
    EXPECT_EQ(refusal(), "");
  }
  for (int64_t offset : {begin - 3, begin + bytes - 1}) {
    replace(9, {{"op", "fill"}, {"ref", {offset, 0}}, {"bytes", 4}});
    refuses("(fill 'fill') writes the destination");
  }
}

TEST_F(CopyOrderTest, ReadOfTheSourceIsFine) {
  Json product = commands()[11];
  product["a"]["ref"] = {place("hidden"), 0};
  slot("hidden")["last"] = 11;
  replace(5, product);
  EXPECT_EQ(refusal(), "");
}

TEST_F(CopyOrderTest, ASlotThatReachesIntoTheSource) {
  // The buffer of row_loss begins before hidden and ends inside hidden, so that
  // a launch that writes row_loss writes hidden while hidden is copied.
  slot("row_loss")["offset"] = place("hidden") - 64;
  commands()[5]["args"][3] = {place("hidden") - 64, 0};
  refuses("'programs.train.segments[0].commands[5]' (launch 'loss') writes the "
          "source of copy_start 'hidden' at commands[4]");
}

TEST_F(CopyOrderTest, PartsOfOneSlotAreSeparate) {
  // hidden and the row losses are slices of one slot.
  int64_t bytes = slot("row_loss")["bytes"];
  int64_t rowLoss = place("hidden") - bytes;
  slot("hidden")["offset"] = rowLoss;
  slot("hidden")["bytes"] = slot("hidden")["bytes"].get<int64_t>() + bytes;
  commands()[5]["args"][3] = {rowLoss, 0};
  EXPECT_EQ(refusal(), "");
  // An argument conflicts with the copy if it begins inside the copied bytes.
  commands()[5]["args"][3] = {rowLoss + bytes, 0};
  refuses("(launch 'loss') writes the source");
}

TEST_F(CopyOrderTest, StatesAreBlocksToo) {
  // Copy a part of U's moment to the slot of E's moment. The copy is in flight
  // during both updates.
  replace(15, {{"op", "copy_start"},
               {"name", "moment_U"},
               {"from", {2 * offloadedTableBytes + 64, 0, "host"}},
               {"to", {place("moment_E"), 0}},
               {"bytes", 64},
               {"token", 3}});
  move(18, 20);
  // 'update_U' also writes U's moment, the source of the copy. This is not
  // reported, because the argument of 'update_U' begins before the copied
  // bytes, so the argument and the copied bytes may be separate slices of the
  // moment. 'update_E' writes the destination of the copy.
  refuses("(launch 'update_E') writes the destination of copy_start 'moment_U' "
          "at commands[15]");
}

TEST_F(CopyOrderTest, ScratchIsWritten) {
  commands()[5]["scratch"][0] = place("hidden");
  json_["arena"]["bytes"] = json_["arena"]["bytes"].get<int64_t>() + 4096;
  refuses("(launch 'loss') writes the source of copy_start 'hidden'");
}

TEST_F(CopyOrderTest, CopiesInFlightMayShareOnlyWhatBothRead) {
  // The copy 'moment_E_back' is in flight at the same time as 'mirror'.
  Json second = commands()[21];
  second["from"] = commands()[22]["to"];
  replace(21, second);
  refuses("'programs.train.segments[0].commands[22]' (copy_start 'mirror') "
          "writes the source of copy_start 'moment_E_back' at commands[21]");
  // Two copies may read the same bytes.
  json_ = describeOffloaded();
  replace(21, {{"op", "copy_start"},
               {"name", "again"},
               {"from", commands()[22]["from"]},
               {"to", {place("moment_E"), 0}},
               {"bytes", offloadedTableBytes},
               {"token", 4}});
  EXPECT_EQ(refusal(), "");
  commands()[21]["to"] = commands()[22]["to"];
  refuses("(copy_start 'mirror') writes the destination of copy_start 'again'");
}

TEST_F(CopyOrderTest, TokensMayBeUsedAgain) {
  commands()[15]["token"] = commands()[18]["token"] = 0;
  EXPECT_EQ(refusal(), "");
}

TEST_F(CopyOrderTest, WaitsMayBeRepeated) {
  Json wait = commands()[17];
  commands().insert(commands().begin() + 19, wait);
  EXPECT_EQ(refusal(), "");
}

TEST_F(CopyOrderTest, CopiesMayBeInFlightWhereLoopsBeginAndEnd) {
  Json start = commands()[14], wait = commands()[17];
  start["from"] = {place("moment_E"), 0};
  start["token"] = 6;
  wait["token"] = 6;
  const Json whole = commands();
  auto between = [&](int startsAt, int waitsAt) {
    commands() = whole;
    commands().insert(commands().begin() + startsAt, start);
    commands().insert(commands().begin() + waitsAt, wait);
    return refusal();
  };
  EXPECT_EQ(between(1, 3), "");
  EXPECT_EQ(between(1, 15), "");
  // The second iteration starts the copy again while the copy of the first
  // iteration is in flight.
  EXPECT_NE(between(5, 15).find(
                "'programs.train.segments[0].commands[5]' (copy_start "
                "'grad_U') writes the destination of copy_start 'grad_U' at "
                "commands[5] while that copy is in flight; the copy_wait of "
                "that copy must come before this command"),
            std::string::npos)
      << between(5, 15);
}

TEST_F(CopyOrderTest, StridesMatterInLoopsAlone) {
  // Outside a loop, the strides of arguments have no effect, so the same
  // conflict is reported for every stride.
  replace(15, {{"op", "copy_start"},
               {"name", "moment_U"},
               {"from", {2 * offloadedTableBytes + 64, 0, "host"}},
               {"to", {place("moment_E"), 0}},
               {"bytes", 64},
               {"token", 3}});
  move(18, 20);
  std::string message = refusal();
  EXPECT_NE(message, "");
  for (int64_t stride : {int64_t(4), INT64_MIN, INT64_MAX}) {
    for (std::size_t update : {18, 19})
      for (Json &argument : commands()[update]["args"])
        argument[1] = stride;
    EXPECT_EQ(refusal(), message);
  }
}

TEST_F(CopyOrderTest, ReferencesThatMeetInALaterIteration) {
  // In iteration i, the copy writes [i * 64, (i + 1) * 64) of the tail of the
  // host arena. The tests below let 'clear' access different bytes of the tail
  // in the two iterations.
  int64_t tail = json_["arena"]["host_bytes"];
  json_["arena"]["host_bytes"] = tail + 1024;
  commands()[4]["to"] = {tail, 64, "host"};
  commands()[4]["bytes"] = 64;
  commands()[8]["from"] = {tail, 64, "host"};
  commands()[8]["bytes"] = 64;
  Json fill = {{"op", "fill"}, {"name", "clear"}, {"bytes", 64}};
  fill["ref"] = {tail + 128, 64, "host"};
  commands().insert(commands().begin() + 5, fill);
  EXPECT_EQ(refusal(), "");
  commands()[5]["ref"] = {tail + 128, 0, "host"};
  EXPECT_EQ(refusal(), "");
  commands()[5]["ref"] = {tail + 65, 0, "host"};
  refuses("(fill 'clear') writes the destination of copy_start 'hidden'");
  commands()[5]["ref"] = {tail + 128, -64, "host"};
  refuses("(fill 'clear')");
  commands()[5]["ref"] = {tail + 192, -64, "host"};
  EXPECT_EQ(refusal(), "");
  // The same offset in the device arena is a different location.
  commands()[5]["ref"] = {tail, 0};
  EXPECT_EQ(refusal(), "");
}

} // namespace
