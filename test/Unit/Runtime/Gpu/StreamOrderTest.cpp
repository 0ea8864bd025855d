//===- StreamOrderTest.cpp - Tests of streams and their events ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamOrder.h"
#include "EmuToy.h"
#include "FirstTouches.h"
#include "HandProgram.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// The actions on GPU streams that execute a program of a description.
class Streams {
public:
  Streams(const Json &description, const std::string &program = "run") {
    Result<ProgramFile> parsed =
        parseProgramFile(description.dump(), toy::emuKernelCount);
    if (!parsed.ok()) {
      ADD_FAILURE() << parsed.status().message();
      return;
    }
    file = std::move(*parsed);
    for (std::size_t i = 0; i < file.programs.size(); ++i)
      if (file.description.programs[i].name == program)
        index = i;
    streams = buildStreamProgram(file, file.programs[index]);
  }
  std::string check() const {
    BufferNames names(file, file.programs[index]);
    return checkStreamOrder(streams, names).message();
  }
  std::vector<std::vector<ByteRange>> touches() const {
    BufferNames names(file, file.programs[index]);
    return firstTouches(file, file.programs[index], streams, names);
  }
  /// Formats an action, such as "copy-in 4 < 0, 1 > 2": its stream, its
  /// command, the events it waits for, and the event it records.
  std::string text(std::size_t action) const {
    const StreamAction &info = streams.actions[action];
    std::string result =
        streamName(info.stream) + (" " + std::to_string(info.command));
    for (std::size_t i = 0; i < info.waits.size(); ++i)
      result += (i ? ", " : " < ") + std::to_string(info.waits[i]);
    return info.event < 0 ? result
                          : result + " > " + std::to_string(info.event);
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < streams.actions.size(); ++i)
      all.push_back(text(i));
    return all;
  }

  ProgramFile file;
  std::size_t index = 0;
  StreamProgram streams;
};

/// Returns a program that computes x on the device and copies x to the host,
/// where y is computed from x and from a scalar s of the device. After the host
/// has read s, the device computes s again. y is copied to the offset of x on
/// the device, and z is computed from y. All buffers have 256 bytes.
Json thereAndBack() {
  Json commands = {
      deviceLaunch("make_x", 0, {device(0)}, 256, {0}, Json::array(), 64),
      deviceLaunch("make_s", 0, {device(256)}, 256, {0}, Json::array(), 64),
      copyStart("x", device(0), host(0), 256, 0),
      deviceLaunch("make_w", 0, {device(512)}, 256, {0}, Json::array(), 64),
      copyWait("x", 0),
      kernelLaunch("make_y", 0, {host(0), device(256), host(256)}, 256, {2},
                   Json::array(), 64),
      copyStart("y", host(256), device(0), 256, 1),
      deviceLaunch("again_w", 0, {device(512)}, 256, {0}, Json::array(), 64),
      deviceLaunch("again_s", 0, {device(256)}, 256, {0}, Json::array(), 64),
      copyWait("y", 1),
      deviceLaunch("make_z", 0, {device(0), device(768)}, 256, {1},
                   Json::array(), 64)};
  Json slots = {slot("x", "activation", 0, 256, 0, 4),
                slot("s", "activation", 256, 256, 1, 5),
                slot("w", "activation", 512, 256, 3, 3),
                slot("x_host", "activation", 0, 256, 2, 5, true),
                slot("y_host", "activation", 256, 256, 5, 9, true),
                slot("y", "activation", 0, 256, 6, 10),
                slot("w2", "activation", 512, 256, 7, 7),
                slot("s2", "activation", 256, 256, 8, 8),
                slot("z", "output", 768, 256, 10, 11)};
  return handProgram(commands, slots, Json::array(), {value("z", 768, 64)},
                     1024);
}

TEST(StreamProgramTest, OrdersWhatCopiesAndKernelsOfTheHostNeed) {
  Streams streams(thereAndBack());
  std::vector<std::string> expected = {
      "compute 0",
      "compute 1 > 0",
      "copy-out 2 < 0 > 2",
      "compute 3 > 1",
      // Waits for 'compute', which writes s, and for the copy of x.
      "host 5 < 1, 2 > 3",
      // Waits for y, which implies all other waits.
      "copy-in 6 < 3 > 4",
      // Waits for the copy of x, as the copy_wait requires.
      "compute 7 < 2",
      // Waits for the host, which reads s.
      "compute 8 < 3",
      "compute 10 < 4",
  };
  EXPECT_EQ(streams.check(), "");
  EXPECT_EQ(streams.texts(), expected);
  EXPECT_EQ(streams.streams.events, 5);
}

TEST(StreamProgramTest, NoWaitIsLeftToTwoCopiesInARow) {
  Json commands = {
      deviceLaunch("make", 0, {device(0)}, 512, {0}, Json::array(), 128),
      copyStart("low", device(0), host(0), 256, 0),
      copyStart("high", device(256), host(256), 256, 1),
      copyWait("low", 0),
      copyWait("high", 1),
      copyStart("back", host(0), device(0), 256, 2),
      copyWait("back", 2),
      deviceLaunch("use", 0, {device(0)}, 512, {0}, Json::array(), 128)};
  Json slots = {slot("x", "activation", 0, 512, 0, 4),
                slot("h", "activation", 0, 512, 1, 6, true),
                slot("y", "activation", 0, 512, 5, 7)};
  Streams streams(
      handProgram(commands, slots, Json::array(), Json::array(), 512));
  std::vector<std::string> expected = {"compute 0 > 0", "copy-out 1 < 0",
                                       "copy-out 2 > 1", "copy-in 5 < 1 > 2",
                                       "compute 7 < 2"};
  EXPECT_EQ(streams.check(), "");
  EXPECT_EQ(streams.texts(), expected);
}

TEST(StreamOrderTest, NamesBothSidesOfAMissingEvent) {
  Streams streams(thereAndBack());
  streams.streams.actions[2].waits.clear();
  EXPECT_EQ(
      streams.check(),
      "missing event: launch 'make_x' (commands[0]) on the compute stream "
      "writes 'x', and copy_start 'x' (commands[2]) on the copy-out stream "
      "reads 'x', but no event orders these two accesses to byte 0 of the "
      "device arena: stream copy-out must wait, before commands[2], for an "
      "event that stream compute records after commands[0]");
  streams.streams.actions[2].waits = {4};
  EXPECT_NE(streams.check().find("waits for event 4, which no earlier action"),
            std::string::npos);
}

TEST(StreamOrderTest, NamesTheScalarThatTheHostStillReads) {
  Streams streams(thereAndBack());
  streams.streams.actions[7].waits.clear();
  EXPECT_EQ(
      streams.check(),
      "missing event: launch 'make_y' (commands[5]) on the host stream reads "
      "'s', and launch 'again_s' (commands[8]) on the compute stream writes "
      "'s2', but no event orders these two accesses to byte 256 of the device "
      "arena: stream compute must wait, before commands[8], for an event that "
      "stream host records after commands[5]");
}

/// Removes one wait at a time. Returns the number of waits whose absence is
/// detected, and the number of idle waits, which order no conflicting accesses.
std::pair<int, int> removeEachWait(const Streams &whole) {
  int found = 0, idle = 0;
  for (std::size_t i = 0; i < whole.streams.actions.size(); ++i) {
    for (std::size_t j = 0; j < whole.streams.actions[i].waits.size(); ++j) {
      Streams damaged = whole;
      std::vector<int64_t> &waits = damaged.streams.actions[i].waits;
      waits.erase(waits.begin() + long(j));
      std::string message = damaged.check();
      if (message.empty()) {
        ++idle;
        continue;
      }
      ++found;
      EXPECT_NE(message.find("missing event: "), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
  return {found, idle};
}

TEST(StreamOrderTest, FindsEveryWaitThatIsMissing) {
  // Five waits are necessary. The other two only order the commands 'make_w'
  // and 'again_w', whose buffer w no other command accesses.
  EXPECT_EQ(removeEachWait(Streams(thereAndBack())), std::pair(5, 2));
  Streams train(toy::emulated(toy::describeOffloaded()), "train");
  EXPECT_EQ(train.check(), "");
  EXPECT_EQ(removeEachWait(train), std::pair(12, 5));
}

//===----------------------------------------------------------------------===//
// Order in the description
//===----------------------------------------------------------------------===//

/// Applies `damage` to the commands and returns the error of the stream order
/// check. The reader must accept the damaged description.
template <typename Damage> std::string checkWithout(Damage &&damage) {
  Json description = thereAndBack();
  damage(toy::commandsOf(description["programs"]["run"]));
  return Streams(description).check();
}

TEST(StreamProgramTest, AddsNoOrderToTheDescription) {
  // Without its wait, the copy of x could begin before x is computed.
  std::string message =
      checkWithout([](Json &commands) { commands[2].erase("after"); });
  EXPECT_NE(message.find("missing event: launch 'make_x' (commands[0]) on the "
                         "compute stream writes 'x', and copy_start 'x' "
                         "(commands[2]) on the copy-out stream reads 'x'"),
            std::string::npos)
      << message;
  // On the host, make_y waits for the copy of x, and therefore for make_x, but
  // not for make_s, although it must.
  message = checkWithout([](Json &commands) {
    commands[1].swap(commands[3]);
    for (std::size_t i : {1, 3})
      commands[i]["queue"] = "compute";
    commands[5].erase("after");
  });
  EXPECT_NE(message.find("launch 'make_s' (commands[3]) on the compute stream "
                         "writes 's', and launch 'make_y' (commands[5]) on "
                         "the host stream reads 's'"),
            std::string::npos)
      << message;
  message = checkWithout([](Json &commands) { commands[8].erase("after"); });
  EXPECT_NE(message.find("launch 'make_y' (commands[5]) on the host stream "
                         "reads 's', and launch 'again_s' (commands[8]) on "
                         "the compute stream writes 's2'"),
            std::string::npos)
      << message;
  // A copy_wait blocks the queues that it names and no others.
  message =
      checkWithout([](Json &commands) { commands[4]["queues"] = {"compute"}; });
  EXPECT_EQ(message, "") << "the host is after compute, which waits";
  message =
      checkWithout([](Json &commands) { commands[9]["queues"] = {"host"}; });
  EXPECT_NE(message.find("copy_start 'y' (commands[6]) on the copy-in stream "
                         "writes 'y', and launch 'make_z' (commands[10]) on "
                         "the compute stream reads 'y'"),
            std::string::npos)
      << message;
}

TEST(StreamProgramTest, HoldsUpLinksToo) {
  Json description = thereAndBack();
  Json &commands = toy::commandsOf(description["programs"]["run"]);
  // Only the copy_wait orders the copy of y after the copy of x.
  commands[4]["queues"] = {"copy_in", "host"};
  commands[6]["after"] = {"host"};
  Streams streams(description);
  EXPECT_EQ(streams.check(), "");
  // Blocking a queue without commands has no effect.
  description["queues"].push_back({{"name", "spare"}, {"engine", "link"}});
  commands[4]["queues"].push_back("spare");
  EXPECT_EQ(Streams(description).texts(), streams.texts());
}

TEST(StreamProgramTest, LinksOfOneDirectionShareAStream) {
  Json description = thereAndBack();
  description["queues"].push_back({{"name", "more"}, {"engine", "link"}});
  Streams whole(description);
  Json &commands = toy::commandsOf(description["programs"]["run"]);
  commands[6]["queue"] = "more";
  EXPECT_EQ(Streams(description).texts(), whole.texts());
}

//===----------------------------------------------------------------------===//
// FirstTouches
//===----------------------------------------------------------------------===//

std::string text(const std::vector<ByteRange> &ranges) {
  std::string result;
  for (const ByteRange &range : ranges)
    result += (range.arena == ArenaKind::Host ? "host " : "") +
              std::to_string(range.begin) + "-" + std::to_string(range.end) +
              " ";
  return result;
}

TEST(FirstTouchesTest, AreWhereLivesBegin) {
  Streams streams(thereAndBack());
  std::vector<std::string> expected = {
      "0-256 ", "256-512 ", "host 0-256 ", "512-768 ", "host 256-512 ",
      "0-256 ", "512-768 ", "256-512 ",    "768-1024 "};
  std::vector<std::string> found;
  for (const std::vector<ByteRange> &ranges : streams.touches())
    found.push_back(text(ranges));
  EXPECT_EQ(found, expected);
}

TEST(FirstTouchesTest, AreInEveryMicrobatchOrInOne) {
  Json commands = {
      deviceLaunch("part", 0, {device(0)}, 256, {0}, Json::array(), 64),
      // 'double' computes in place.
      deviceLaunch("double", 0, {device(0), device(0)}, 256, {1}, Json::array(),
                   64),
      deviceLaunch("keep", 0, {device(0), device(256, 256)}, 256, {1},
                   Json::array(), 64),
      deviceLaunch("end", 0, {device(256)}, 512, {0}, Json::array(), 128)};
  Json slots = {slot("part", "activation", 0, 256, 0, 1),
                slot("doubled", "activation", 0, 256, 1, 2),
                slot("kept", "activation", 256, 512, 2, 4)};
  Streams streams(handProgram(inMicrobatches(commands, {0, 1, 3, 2}), slots,
                              Json::array(), Json::array(), 768));
  std::vector<std::string> expected = {"0-256 ",   "", "256-512 ", "0-256 ", "",
                                       "512-768 ", ""};
  std::vector<std::string> found;
  for (const std::vector<ByteRange> &ranges : streams.touches())
    found.push_back(text(ranges));
  EXPECT_EQ(found, expected);
}

/// A slot with a ring has several instances, which the micro-batches use in
/// turn. Each instance has its own lifetime, also if the micro-batches of
/// several instances are in flight at the same time.
TEST(FirstTouchesTest, AreInEveryInstanceOfARing) {
  Json commands = {
      deviceLaunch("make", 0, {{0, 0, 256}}, 256, {0}, Json::array(), 64),
      deviceLaunch("use", 0, {{0, 0, 256}}, 256, {0}, Json::array(), 64)};
  Json slots = {slot("made", "activation", 0, 256, 0, 1)};
  slots[0]["ring"] = 256;
  Streams streams(handProgram(
      inMicrobatches(commands, {0, 1, 2, 3, "F0 F1 B0 F2 B1 B2", 2}), slots,
      Json::array(), Json::array(), 512));
  EXPECT_EQ(streams.check(), "");
  std::vector<std::string> expected = {"0-256 ", "256-512 ", "",
                                       "0-256 ", "",         ""};
  std::vector<std::string> found;
  for (const std::vector<ByteRange> &ranges : streams.touches())
    found.push_back(text(ranges));
  EXPECT_EQ(found, expected);
}

} // namespace
