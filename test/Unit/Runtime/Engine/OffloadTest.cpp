//===- OffloadTest.cpp - A model with states and buffers on the host ------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunToy.h"
#include "ToyOffload.h"

#include <cstring>
#include <map>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

class OffloadTest : public ToyTest {
protected:
  Json offloaded_ = describeOffloaded();
};

/// Returns the files of a checkpoint except the manifest, which contains times.
std::string weightsOf(const std::string &checkpoint) {
  return readFile(checkpoint + "/model.safetensors") +
         readFile(checkpoint + "/optimizer.safetensors");
}

TEST_F(OffloadTest, TrainsLikeTheToyBitForBit) {
  auto run = [&](const Json &description, const std::string &name,
                 const char *threads) {
    Outcome outcome = runToy(
        description, {data(), "--steps=6", "--seed=3", threads,
                      "--log=" + path(name + ".jsonl"), "--save=" + path(name),
                      "--val-data=" + path("text.txt"), "--val-batches=1"});
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  };
  run(describe(), "plain", "--threads=1");
  run(offloaded_, "host", "--threads=1");
  run(offloaded_, "threads", "--threads=3");
  Json paced = offloaded_;
  paced["link"] = {{"out_bytes_per_second", 2e7}, {"in_bytes_per_second", 3e7}};
  run(paced, "paced", "--threads=2");
  std::vector<std::string> losses = lossTexts(path("plain.jsonl"));
  ASSERT_EQ(losses.size(), 6u);
  std::string weights = weightsOf(path("plain/checkpoint-6"));
  ASSERT_FALSE(weights.empty());
  for (const char *name : {"host", "threads", "paced"}) {
    EXPECT_EQ(lossTexts(path(std::string(name) + ".jsonl")), losses) << name;
    EXPECT_TRUE(weightsOf(path(std::string(name) + "/checkpoint-6")) == weights)
        << name;
  }
}

TEST_F(OffloadTest, ResumesFromACheckpointOfAnotherPlan) {
  auto run = [&](const Json &description, std::vector<std::string> flags) {
    flags.insert(flags.begin(), data());
    Outcome outcome = runToy(description, flags);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  };
  run(describe(), {"--steps=6", "--log=" + path("whole.jsonl")});
  run(offloaded_, {"--steps=3", "--save=" + path("host")});
  run(describe(), {"--steps=3", "--save=" + path("device")});
  run(offloaded_, {"--steps=6", "--resume=" + path("device"),
                   "--log=" + path("on-host.jsonl")});
  run(describe(), {"--steps=6", "--resume=" + path("host"),
                   "--log=" + path("on-device.jsonl")});
  std::vector<std::string> losses = lossTexts(path("whole.jsonl"));
  losses.erase(losses.begin(), losses.begin() + 3);
  EXPECT_EQ(lossTexts(path("on-host.jsonl")), losses);
  EXPECT_EQ(lossTexts(path("on-device.jsonl")), losses);
  // --init loads the weights, but no optimizer states, and updates the mirror,
  // the copy of a parameter on the device.
  std::string init = "--init=" + path("host/checkpoint-3/model.safetensors");
  run(offloaded_, {"--steps=2", init, "--log=" + path("init-host.jsonl")});
  run(describe(), {"--steps=2", init, "--log=" + path("init.jsonl")});
  EXPECT_EQ(lossTexts(path("init-host.jsonl")), lossTexts(path("init.jsonl")));
}

TEST_F(OffloadTest, LogsWhatWasCopied) {
  offloaded_["link"] = {{"out_bytes_per_second", 1e6},
                        {"in_bytes_per_second", 1e9}};
  Outcome outcome =
      runToy(offloaded_, {data(), "--steps=2", "--log=" + path("log.jsonl")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  std::vector<Json> log = readLog(path("log.jsonl"));
  const Json &end = log.back();
  EXPECT_EQ(end["host_arena_bytes"], offloaded_["arena"]["host_bytes"]);
  EXPECT_EQ(end["copied_out_bytes_per_step"], copiedOutBytes);
  EXPECT_EQ(end["copied_in_bytes_per_step"], copiedInBytes);
  // A step copies about 35 KiB at 1 MB/s and has almost nothing to compute, so
  // it must wait for copies.
  double wait = log[1]["copy_wait_ms"].get<double>();
  EXPECT_GT(wait, 5);
  EXPECT_LE(wait, log[1]["step_ms"].get<double>());

  outcome = runToy({data(), "--steps=1", "--log=" + path("plain.jsonl")});
  log = readLog(path("plain.jsonl"));
  EXPECT_FALSE(log[1].contains("copy_wait_ms"));
  EXPECT_EQ(log.back()["copied_out_bytes_per_step"], 0);
}

TEST_F(OffloadTest, IsDescribed) {
  offloaded_["link"] = {{"out_bytes_per_second", 120e6},
                        {"in_bytes_per_second", 2.5e9}};
  Outcome outcome = runToy(offloaded_, {"--describe"});
  EXPECT_NE(outcome.out.find("host arena: 66560 bytes\n"
                             "link to the host: 1.2e+08 bytes per second\n"
                             "link from the host: 2.5e+09 bytes per second\n"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("\nparameters: 8192\n"), std::string::npos);
  EXPECT_EQ(runToy({"--describe"}).out.find("host arena"), std::string::npos);
}

TEST_F(OffloadTest, TracesCopiesOnTheirOwnTracks) {
  Outcome outcome = runToy(
      offloaded_, {data(), "--steps=1", "--trace=" + path("trace.json")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  Json trace = Json::parse(readFile(path("trace.json")));
  std::map<int, std::vector<std::string>> bars;
  std::map<std::string, std::vector<double>> done, awaited;
  for (const Json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    bars[event["tid"]].push_back(event["name"]);
    double end = event["ts"].get<double>() + event["dur"].get<double>();
    if (event["tid"] != 0)
      done[event["name"]].push_back(end);
    else if (event["cat"] == "copy_wait")
      awaited[event["name"]].push_back(end);
  }
  // Every copy ends before the wait for the copy ends.
  for (auto &[name, ends] : done) {
    ASSERT_EQ(awaited[name].size(), ends.size()) << name;
    for (size_t i = 0; i < ends.size(); ++i)
      EXPECT_LE(ends[i], awaited[name][i]) << name;
  }
  EXPECT_EQ(bars[0].size(), 2 * 11u + 1 + 11);
  EXPECT_EQ(bars[1], (std::vector<std::string>{"hidden", "hidden", "grad_U",
                                               "moment_E_back"}));
  EXPECT_EQ(bars[2], (std::vector<std::string>{"hidden_back", "hidden_back",
                                               "moment_E", "mirror"}));
}

TEST_F(OffloadTest, PassesTheMemoryCheck) {
  Outcome outcome = runToy(offloaded_, {"--check-memory", "--threads=2"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(
                "train: bytes of the host arena up to the last byte written"),
            std::string::npos);
}

TEST_F(OffloadTest, TracesOpsOfBothArenas) {
  Outcome outcome = runToy(offloaded_, {"--check-ops=" + path("ops")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  std::string trace = readFile(path("ops"));
  size_t place = 8;
  auto number = [&] {
    uint64_t value = 0;
    if (place + 8 <= trace.size())
      std::memcpy(&value, trace.data() + place, 8);
    place += 8;
    return value;
  };
  ASSERT_EQ(trace.substr(0, 8), "KILNOPS1");
  auto deviceBytes = offloaded_["arena"]["bytes"].get<uint64_t>();
  auto hostBytes = offloaded_["arena"]["host_bytes"].get<uint64_t>();
  for (const char *name : {"evaluate", "generate", "train"}) {
    uint64_t length = number();
    EXPECT_EQ(trace.substr(place, length), name);
    place += length;
    EXPECT_EQ(number(), (deviceBytes + 63) / 64 * 64 + hostBytes);
    place += (deviceBytes + 63) / 64 * 64 + hostBytes;
    Json &program = offloaded_["programs"][name];
    const std::vector<Json *> commands = allCommands(program);
    for (uint64_t command; (command = number()) != UINT64_MAX;) {
      ASSERT_LT(command, commands.size());
      const Json &op = (*commands[command])["op"];
      EXPECT_NE(op, "copy_wait");
      number(); // Micro-batch.
      uint64_t slots = number();
      if (op == "copy_start") {
        // Commands 19 and 20 copy to states, and all other copies write a slot.
        EXPECT_EQ(slots, command == 19 || command == 20 ? 0u : 1u) << command;
      }
      for (; slots > 0; --slots)
        place += program["slots"][number()]["bytes"].get<uint64_t>();
    }
  }
  EXPECT_EQ(place, trace.size());
}

} // namespace
