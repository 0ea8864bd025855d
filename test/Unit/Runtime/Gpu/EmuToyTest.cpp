//===- EmuToyTest.cpp - Tests of training on the emulated GPU -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuToy.h"
#include "RunToy.h"

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

class EmuToyTest : public ToyTest {
protected:
  Outcome runEmu(const Json &description, std::vector<std::string> flags) {
    return runToy(description, std::move(flags), makeEmuEngine);
  }
  Json plain_ = emulated(describe());
  Json offloaded_ = emulated(describeOffloaded());
};

std::string weightsOf(const std::string &checkpoint) {
  return readFile(checkpoint + "/model.safetensors") +
         readFile(checkpoint + "/optimizer.safetensors");
}

TEST_F(EmuToyTest, TrainsLikeTheCpuForEverySeed) {
  auto flags = [&](const std::string &name) {
    return std::vector<std::string>{data(),
                                    "--steps=3",
                                    "--seed=3",
                                    "--log=" + path(name + ".jsonl"),
                                    "--val-data=" + path("text.txt"),
                                    "--val-batches=1"};
  };
  Outcome outcome = runToy(flags("cpu"));
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  std::vector<std::string> losses = lossTexts(path("cpu.jsonl"));
  ASSERT_EQ(losses.size(), 3u);
  for (int seed = 0; seed < 20; ++seed) {
    for (const Json *description : {&plain_, &offloaded_}) {
      std::string name = (description == &plain_ ? "plain-" : "offloaded-") +
                         std::to_string(seed);
      std::vector<std::string> all = flags(name);
      all.push_back("--emu-seed=" + std::to_string(seed));
      outcome = runEmu(*description, all);
      ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
      EXPECT_EQ(lossTexts(path(name + ".jsonl")), losses) << name;
    }
  }
}

TEST_F(EmuToyTest, TrainsLikeTheCpuInEveryOrder) {
  auto losses = [&](const Outcome &outcome) {
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    return lossTexts(path("log"));
  };
  std::vector<std::string> flags = {data(), "--steps=3", "--seed=3",
                                    "--log=" + path("log")};
  std::vector<std::string> expected = losses(runToy(flags));
  ASSERT_EQ(expected.size(), 3u);
  for (const char *order : {"alternate", "all-forward-first",
                            "one-forward-one-backward:2", "F1 F0 B0 B1"}) {
    toy::Options options;
    options.order = order;
    options.slots = 2;
    Json plain = emulated(describe(options)),
         offloaded = emulated(offload(describe(options)));
    for (const Json &description : {plain, offloaded}) {
      for (int seed = 0; seed < 5; ++seed) {
        std::vector<std::string> all = flags;
        all.push_back("--emu-seed=" + std::to_string(seed));
        EXPECT_EQ(losses(runEmu(description, all)), expected) << order;
      }
      Outcome outcome = runEmu(description, {data(), "--check-memory"});
      EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
    }
  }
}

TEST_F(EmuToyTest, SavesWhatTheCpuSaves) {
  auto flags = [&](const std::string &name) {
    return std::vector<std::string>{data(), "--steps=2",
                                    "--save=" + path(name)};
  };
  ASSERT_EQ(runToy(flags("cpu")).exitCode, 0);
  ASSERT_EQ(runEmu(plain_, flags("plain")).exitCode, 0);
  ASSERT_EQ(runEmu(offloaded_, flags("offloaded")).exitCode, 0);
  std::string weights = weightsOf(path("cpu/checkpoint-2"));
  ASSERT_FALSE(weights.empty());
  EXPECT_TRUE(weightsOf(path("plain/checkpoint-2")) == weights);
  EXPECT_TRUE(weightsOf(path("offloaded/checkpoint-2")) == weights);
}

TEST_F(EmuToyTest, LogsWhatWasMoved) {
  Outcome outcome =
      runEmu(offloaded_, {data(), "--steps=2", "--log=" + path("log.jsonl")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  Json end = readLog(path("log.jsonl")).back();
  EXPECT_EQ(end["copied_out_bytes_per_step"], copiedOutBytes);
  EXPECT_EQ(end["copied_in_bytes_per_step"], copiedInBytes);
  EXPECT_GT(end["emu_read_sectors_per_step"].get<int64_t>(), 0);
  EXPECT_GT(end["emu_write_sectors_per_step"].get<int64_t>(), 0);

  outcome = runToy({data(), "--steps=1", "--log=" + path("cpu.jsonl")});
  EXPECT_FALSE(
      readLog(path("cpu.jsonl")).back().contains("emu_read_sectors_per_step"));
}

TEST_F(EmuToyTest, ItsPlanIsChecked) {
  for (const Json &description : {plain_, offloaded_}) {
    Outcome outcome = runEmu(description, {data(), "--check-memory"});
    EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("train: races, accesses out of bounds"),
              std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("each command changes only its results"),
              std::string::npos);
  }
}

TEST_F(EmuToyTest, TracesOpsAsTheCpuDoes) {
  std::string flag = "--check-ops=" + path("emu.trace");
  Outcome outcome = runEmu(emulated(describe()), {data(), flag});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(readFile(path("emu.trace")).substr(0, 8), "KILNOPS1");
}

TEST_F(EmuToyTest, SeedsAreForEmulatedDevicesAlone) {
  Outcome outcome = runToy({data(), "--steps=1", "--emu-seed=1"});
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_NE(outcome.err.find("--target=cuda-emu"), std::string::npos);
  outcome = runEmu(plain_, {data(), "--steps=1", "--stress-copies=1"});
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_NE(outcome.err.find("--emu-seed"), std::string::npos);
}

TEST_F(EmuToyTest, EnginesRefuseEachOthersPrograms) {
  EXPECT_FALSE(makeEngine(plain_).ok());
  EXPECT_FALSE(makeEmuEngine(describe()).ok());
}

//===----------------------------------------------------------------------===//
// Injected faults
//===----------------------------------------------------------------------===//

class EmuFaultTest : public EmuToyTest {
protected:
  Json &train() { return plain_["programs"]["train"]; }
  Json &command(const char *op, const char *name) {
    return commandAt(train(), findCommand(train(), op, name));
  }
  void finds(const Json &description, const std::string &message) {
    Outcome outcome = runEmu(
        description, {data(), "--steps=1", "--save=" + path("checkpoints")});
    EXPECT_EQ(outcome.exitCode, 1) << outcome.err;
    EXPECT_NE(outcome.err.find(message), std::string::npos)
        << message << "\nbut: " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
    EXPECT_FALSE(std::filesystem::exists(path("checkpoints/checkpoint-1")));
  }
};

TEST_F(EmuFaultTest, OutOfBounds) {
  Json &extent = command("launch", "gather")["extents"][2];
  extent = extent.get<int64_t>() - 4;
  finds(plain_, "kernel 'gather', block 0, thread 0: out of bounds: write of "
                "1024 bytes at argument 2 ('hidden') + 0, but the argument has "
                "1020 bytes; in program 'train', launch 'gather' "
                "(commands[1] for micro-batch 0)");
}

TEST_F(EmuFaultTest, WriteOfWhatIsOnlyRead) {
  command("launch", "gather")["writes"] = Json::array();
  finds(plain_, "which the launch only reads");
}

TEST_F(EmuFaultTest, ProductOfBytesThatNobodyWrote) {
  command("launch", "gather")["units"] = 0;
  finds(plain_, "'logits', operand 'hidden', reads");
}

TEST_F(EmuFaultTest, KernelOfBytesThatNobodyWrote) {
  command("fill", "zero")["bytes"] = 64;
  finds(plain_, "kernel 'scatter', block 0, thread 0: uninitialised global "
                "memory: read of 16384 bytes at argument 2 ('grad_E') + 0, but "
                "nothing wrote the byte at argument 2 ('grad_E') + 64");
}

} // namespace
