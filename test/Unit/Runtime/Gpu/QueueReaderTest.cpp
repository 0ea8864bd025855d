//===- QueueReaderTest.cpp - Tests of the queues of descriptions ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuToy.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

Result<ProgramFile> read(const Json &description) {
  return parseProgramFile(description.dump(), toy::emuKernelCount);
}

/// Returns the description of a toy model that offloads to the host, for an
/// emulated GPU. The tests use these commands of its program `train`: 0 (a fill
/// on the device), 2 (a gemm), 3 (a copy out), 6 (a wait), 7 (a copy in), 17 (a
/// launch on the device) and 18 (a launch on the host).
Json onGpu() { return toy::emulated(toy::describeOffloaded()); }

TEST(QueueReaderTest, ReadsQueuesAndWaits) {
  Result<ProgramFile> file = read(onGpu());
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->queues.size(), 4u);
  EXPECT_EQ(file->queues[0].name, "compute");
  EXPECT_EQ(file->queues[0].engine, QueueEngine::Device);
  EXPECT_EQ(file->queues[1].engine, QueueEngine::Host);
  EXPECT_EQ(file->queues[2].engine, QueueEngine::Link);
  EXPECT_EQ(file->queues[2].transfers, TransferKind::CopyOut);
  EXPECT_EQ(file->queues[3].transfers, TransferKind::CopyIn);
  const std::vector<Command> &commands = file->programs[2].commands;
  EXPECT_EQ(commands[0].queue, 0);
  EXPECT_EQ(commands[3].queue, 2);
  EXPECT_EQ(commands[3].after, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(commands[6].queue, -1);
  EXPECT_EQ(commands[6].heldQueues, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(commands[7].queue, 3);
  EXPECT_EQ(commands[17].after, std::vector<int64_t>());
  // The host launch reads the gradient norm, which the device computes.
  EXPECT_EQ(commands[18].queue, 1);
  EXPECT_EQ(commands[18].after, std::vector<int64_t>{0});
}

TEST(QueueReaderTest, TheHostExecutesEverythingOfACpu) {
  Result<ProgramFile> file = read(toy::describeOffloaded());
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->queues.size(), 3u);
  EXPECT_EQ(file->queues[0].engine, QueueEngine::Host);
  for (const Command &command : file->programs[2].commands)
    if (command.queue >= 0 && !startsTransfer(command))
      EXPECT_EQ(command.queue, 0);
}

struct Damage {
  const char *name;
  bool onGpu;
  const char *pointer;
  Json value; ///< New value; "discarded" removes the field.
  const char *message;
};

class DamagedQueueTest : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedQueueTest, IsOneClearError) {
  Json json = GetParam().onGpu ? onGpu() : toy::describeOffloaded();
  Json::json_pointer pointer(GetParam().pointer);
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

#define BEGIN "/programs/train/segments/0/commands/"
#define FORWARD "/programs/train/segments/1/commands/"
#define BACKWARD "/programs/train/segments/2/commands/"
#define END "/programs/train/segments/3/commands/"
INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedQueueTest,
    ::testing::Values(
        Damage{"NoQueues", true, "/queues", "discarded", "'queues' is missing"},
        Damage{"NoName",
               true,
               "/queues/0",
               {{"engine", "device"}},
               "'queues[0].name' is missing"},
        Damage{"SameName", true, "/queues/1/name", "compute",
               "'queues[1].name' is 'compute', the name of another queue"},
        Damage{"Engine", true, "/queues/0/engine", "gpu",
               "'queues[0].engine' is 'gpu', expected device, host or link"},
        Damage{"DeviceOfACpu", false, "/queues/0/engine", "device",
               "'queues[0].engine' is device, but the target has no GPU"},
        Damage{"TwoDevices", true, "/queues/1/engine", "device",
               "'queues[1].engine' is device, which is already the engine of "
               "queue 'compute', expected at most one queue with this engine"},
        Damage{"NoQueue", true, BEGIN "0/queue", "discarded",
               "'programs.train.segments[0].commands[0].queue' is missing"},
        Damage{"NoQueueOfACpu", false, BEGIN "0/queue", "discarded",
               "'programs.train.segments[0].commands[0].queue' is missing"},
        Damage{"NoSuchQueue", true, FORWARD "1/queue", "compote",
               "commands[1].queue' is 'compote', expected the name of a queue"},
        Damage{"TransferOnTheDevice", true, FORWARD "2/queue", "compute",
               "commands[2].queue' is 'compute', whose engine is device, "
               "expected a queue of engine link"},
        Damage{"TransferOnTheHostOfACpu", false, FORWARD "2/queue", "compute",
               "whose engine is host, expected a queue of engine link"},
        Damage{"FillOnALink", true, BEGIN "0/queue", "copy_in",
               "commands[0].queue' is 'copy_in', whose engine is link, "
               "expected a queue of engine device"},
        Damage{"LaunchOnALinkOfACpu", false, FORWARD "0/queue", "copy_in",
               "whose engine is link, expected a queue of engine host"},
        Damage{"GemmOnTheHost", true, FORWARD "1/queue", "host",
               "commands[1].queue' is 'host', whose engine is host, expected a "
               "queue of engine device"},
        Damage{"KernelOfTheDeviceOnTheHost", true, END "5/queue", "host",
               "commands[5].queue' is 'host', whose engine is host, expected "
               "a queue of engine device"},
        Damage{"KernelOfTheHostOnTheDevice", true, END "6/queue", "compute",
               "commands[6].queue' is 'compute', whose engine is device, "
               "expected a queue of engine host"},
        Damage{"BothDirections", true, BACKWARD "3/queue", "copy_out",
               "commands[3].queue' is 'copy_out', which also executes copies "
               "in the opposite direction: use one queue for each direction"},
        Damage{
            "AfterNoQueue",
            true,
            FORWARD "2/after",
            {"compute", "hosts"},
            "commands[2].after[1]' is 'hosts', expected the name of a queue"},
        Damage{"AfterALink",
               true,
               BACKWARD "3/after",
               {"copy_out"},
               "commands[3].after[0]' is 'copy_out', whose engine is link: to "
               "wait for a transfer, use a copy_wait"},
        Damage{"AfterNoList", true, BACKWARD "3/after", "compute",
               "commands[3].after' must be an array"},
        Damage{"WaitOfNobody", true, BACKWARD "2/queues", "discarded",
               "commands[2].queues' is missing"},
        Damage{"WaitOfNone", true, BACKWARD "2/queues", Json::array(),
               "commands[2].queues' is empty"},
        Damage{"AfterTwice",
               true,
               FORWARD "2/after",
               {"compute", "compute"},
               "is 'compute', which is named twice"},
        Damage{"WaitTwice",
               true,
               BACKWARD "2/queues",
               {"host", "host"},
               "is 'host', which is named twice"},
        Damage{"WaitAfter",
               true,
               BACKWARD "2/after",
               {"compute"},
               "'programs.train.segments[2].commands[2].after' is given, but "
               "a copy_wait does not run on a queue"},
        Damage{"ManyQueues", true, "/queues",
               Json(Json::array_t(65, Json{{"name", "q"}, {"engine", "link"}})),
               "'queues' has 65 entries, expected at most 64"},
        Damage{
            "WaitOfNoQueue",
            true,
            BACKWARD "2/queues",
            {"gpu"},
            "commands[2].queues[0]' is 'gpu', expected the name of a queue"}),
    [](const ::testing::TestParamInfo<Damage> &info) {
      return info.param.name;
    });

TEST(DamagedQueueTest, AnyReplacedValueIsHandled) {
  const Json replacements[] = {nullptr,       -1, INT64_MAX, "compute",
                               Json::array(), 0,  1e300,     Json::object()};
  for (Json json : {onGpu(), toy::describeOffloaded()}) {
    json["programs"].erase("evaluate");
    json["programs"].erase("generate");
    Json flat = json.flatten();
    for (auto &[path, unused] : flat.items()) {
      if (path.find("queue") == std::string::npos &&
          path.find("after") == std::string::npos)
        continue;
      for (const Json &replacement : replacements) {
        Json damaged = json;
        damaged[Json::json_pointer(path)] = replacement;
        Result<ProgramFile> file = read(damaged);
        EXPECT_TRUE(file.ok() || !file.status().message().empty());
      }
    }
  }
}

} // namespace
