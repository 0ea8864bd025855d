//===- MachineFileTest.cpp - Parsing of machine files -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Machine.h"
#include "kiln/Support/Json.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

using namespace kiln;
using nlohmann::json;

static Machine smallMachine() {
  Machine machine;
  machine.name = "a \"quoted\" name";
  machine.origin = {true, "", "2026-01-31", "CPU", "OpenBLAS 0.3.21", 2};
  machine.deviceBytes = machine.hostBytes = int64_t(24) << 30;
  machine.launchSeconds = 1.1e-6;
  machine.vectorFlops = 1e11 / 3;
  machine.gemm[ElementType::F64] = {{64, 256}, {64}, {64}, {1e9, 2e9}};
  machine.gemm[ElementType::F32] = {
      {64, 256}, {64, 300}, {64}, {1e9, 2e9, 3e9, 1e10 / 3}};
  machine.bandwidth = {{65536, 1 << 28}, {1e11, 2e10}};
  machine.attention = {{64, 1024}, {0.3, 0.7}, {0.4, 0.75}};
  machine.link = {1e10, 1.2e10, 1e-5, true};
  return machine;
}

/// Returns a valid machine file. The round value of vectorFlops makes the
/// messages in the tests below readable.
static json goodFile() {
  Machine machine = smallMachine();
  machine.vectorFlops = 1e11;
  return json::parse(printMachine(machine), nullptr, false);
}

static std::string complaint(const json &file) {
  Result<Machine> machine = parseMachine(file.dump(), "m.json");
  if (machine.ok())
    return "none";
  EXPECT_EQ(machine.status().code(), ExitCode::BadInput);
  EXPECT_EQ(machine.status().message().find('\n'), std::string::npos);
  return machine.status().message();
}

static std::string refused(const std::string &text) {
  return "machine 'm.json': " + text +
         ": correct it, or measure this machine with kilnc --measure-machine";
}

TEST(MachineFile, RoundTrip) {
  for (const std::string &name : shippedMachines()) {
    Result<Machine> machine = loadMachine(name);
    ASSERT_TRUE(machine.ok());
    std::string text = printMachine(*machine);
    Result<Machine> again = parseMachine(text, "again");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(printMachine(*again), text);
    EXPECT_EQ(again->hash(), machine->hash());
    EXPECT_EQ(again->hash().size(), 16u);
  }
  Machine machine = smallMachine();
  Result<Machine> again = parseMachine(printMachine(machine), "again");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->name, machine.name);
  EXPECT_EQ(again->vectorFlops, machine.vectorFlops);
  EXPECT_EQ(again->gemm[ElementType::F32].flops,
            machine.gemm[ElementType::F32].flops);
  EXPECT_EQ(again->origin.date, machine.origin.date);
  EXPECT_TRUE(again->link.duplex);
  machine.link.toHost *= 1.0001;
  EXPECT_NE(again->hash(), machine.hash());
}

TEST(MachineFile, HostOfAGpu) {
  json file = goodFile();
  file["host"] = {{"bytes_per_s", 5e10}, {"vector_flop_per_s", 1e11}};
  EXPECT_NE(complaint(file).find("'host' is unknown"), std::string::npos);
  file["kind"] = "gpu";
  Result<Machine> machine = parseMachine(file.dump(), "m.json");
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_DOUBLE_EQ(machine->hostKernelSeconds(1e10), 0.2);
  EXPECT_DOUBLE_EQ(machine->hostKernelSeconds(1e10, 1e11), 1);
  EXPECT_EQ(parseMachine(printMachine(*machine), "again")->hash(),
            machine->hash());
  file["host"]["bytes_per_s"] = 0;
  EXPECT_EQ(complaint(file),
            refused("'host.bytes_per_s' is 0, expected a number from 1e+06 to "
                    "1e+16"));
  file.erase("host");
  EXPECT_NE(complaint(file).find("'host'"), std::string::npos);
  // A machine without the member `host` is a CPU, whose kernels all run on the
  // host.
  Machine cpu = smallMachine();
  EXPECT_EQ(cpu.hostKernelSeconds(1e6, 1e6), cpu.kernelSeconds(1e6, 1e6));
}

TEST(MachineFile, WriteAndLoad) {
  llvm::SmallString<128> path;
  ASSERT_FALSE(
      llvm::sys::fs::createTemporaryFile("kiln-machine", "json", path));
  llvm::FileRemover remover(path);
  ASSERT_TRUE(writeMachine(smallMachine(), path.str().str()).ok());
  Result<Machine> machine = loadMachine(path.str().str());
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->hash(), smallMachine().hash());

  std::error_code error;
  llvm::raw_fd_ostream(path, error) << std::string(3 << 20, ' ');
  EXPECT_EQ(loadMachine(path.str().str()).status().message(),
            "'" + path.str().str() +
                "' has 3145728 bytes, expected at most 2097152");
  EXPECT_EQ(loadMachine("./nowhere.json").status().message(),
            "cannot open './nowhere.json': No such file or directory");
  EXPECT_FALSE(loadMachine("./").ok());
}

TEST(MachineFile, NotAMachineFile) {
  EXPECT_EQ(complaint(json::array()),
            "machine 'm.json' is an array of 0, expected an object, as in "
            "the files that kilnc --measure-machine writes");
  EXPECT_FALSE(parseMachine("", "m.json").ok());
  EXPECT_FALSE(parseMachine("{", "m.json").ok());
  EXPECT_FALSE(parseMachine("not JSON", "m.json").ok());
  EXPECT_FALSE(parseMachine(std::string(100000, '['), "m.json").ok());
  EXPECT_EQ(complaint(json::object()),
            refused("'format' is missing, expected 'kiln-machine'"));
  json file = goodFile();
  EXPECT_EQ(complaint(file), "none");
  file["version"] = 2;
  EXPECT_EQ(complaint(file),
            refused("'version' is 2, expected a whole number from 1 to 1"));
}

TEST(MachineFile, EveryMissingKeyIsNamed) {
  json good = goodFile();
  int checked = 0;
  // Remove keys at every depth.
  std::function<void(json &, const std::string &, json &)> removeEach =
      [&](json &node, const std::string &path, json &root) {
        std::vector<std::string> keys;
        for (const auto &[key, value] : node.items())
          keys.push_back(key);
        for (const std::string &key : keys) {
          json removed = node[key];
          node.erase(key);
          std::string message = complaint(root);
          EXPECT_NE(message.find("'" + path + key + "' is missing"),
                    std::string::npos)
              << message;
          ++checked;
          node[key] = removed;
          if (removed.is_object())
            removeEach(node[key], path + key + ".", root);
        }
      };
  removeEach(good, "", good);
  EXPECT_EQ(checked, 37);
}

TEST(MachineFile, EveryUnknownKeyIsNamed) {
  for (const char *place : {"", "/origin", "/gemm", "/gemm/fp32", "/bandwidth",
                            "/attention", "/link"}) {
    json file = goodFile();
    file[json::json_pointer(std::string(place) + "/turbo")] = 1;
    EXPECT_NE(
        complaint(file).find("turbo' is unknown, expected one of the keys "),
        std::string::npos)
        << complaint(file);
  }
}

TEST(MachineFile, AbsurdFigures) {
  struct Case {
    const char *place;
    json value;
    const char *message;
  };
  const Case cases[] = {
      {"/format", "other", "'format' is 'other', expected 'kiln-machine'"},
      {"/name", "",
       "'name' is '', expected a text of 1 to 100 printable bytes"},
      {"/kind", "tpu", "'kind' is 'tpu', expected 'cpu' or 'gpu'"},
      {"/origin", 3, "'origin' is 3, expected an object"},
      {"/origin/how", "guessed",
       "'origin.how' is 'guessed', expected 'measured' or 'data-sheet'"},
      {"/origin/threads", 0,
       "'origin.threads' is 0, expected a whole number from 1 to 1024"},
      {"/device_bytes", -1,
       "'device_bytes' is -1, expected a whole number from 1048576 to "
       "1125899906842624"},
      {"/device_bytes", 1e9,
       "'device_bytes' is 1e+09, expected a whole number from 1048576 to "
       "1125899906842624"},
      {"/host_bytes", "24GB",
       "'host_bytes' is '24GB', expected a whole number from 1048576 to "
       "1125899906842624"},
      {"/launch_s", 0, "'launch_s' is 0, expected a number from 1e-09 to 0.1"},
      {"/launch_s", nullptr,
       "'launch_s' is null, expected a number from 1e-09 to 0.1"},
      {"/vector_flop_per_s", 100,
       "'vector_flop_per_s' is 100, expected a number from 1e+06 to 1e+18"},
      {"/gemm/fp32/m", json::array(),
       "'gemm.fp32.m' is an array of 0, expected an array of 1 to 64 rising "
       "whole numbers from 1 to 1073741824"},
      {"/gemm/fp32/m/1", 64,
       "'gemm.fp32.m[1]' is 64, expected a whole number from 1 to "
       "1073741824 that is larger than the preceding entry"},
      {"/gemm/fp32/flop_per_s/1", 5,
       "'gemm.fp32.flop_per_s[1]' is 5, expected an array of 2 elements, one "
       "per point of the axis"},
      {"/gemm/fp32/flop_per_s/1/0/0", -2e9,
       "'gemm.fp32.flop_per_s[1][0][0]' is -2e+09, expected a number from "
       "1e+06 to 1e+18"},
      {"/gemm/fp32/flop_per_s/1/0/0", 5e9,
       "'gemm.fp32.flop_per_s[1][0][0]' is 5e+09, expected at most 4 times "
       "the rate 1e+09 of the next smaller size, so that a larger GEMM does "
       "not take less time"},
      {"/gemm/fp32/flop_per_s", json::array({5, 6}),
       "'gemm.fp32.flop_per_s[0]' is 5, expected an array of 2 elements, "
       "one per point of the axis"},
      {"/gemm/fp64/flop_per_s", json::array({1e9, 2e9}),
       "'gemm.fp64.flop_per_s[0]' is 1e+09, expected an array of 1 elements, "
       "one per point of the axis"},
      {"/bandwidth/bytes_per_s/0", 0,
       "'bandwidth.bytes_per_s[0]' is 0, expected a number from 1e+06 to "
       "1e+16"},
      {"/bandwidth/bytes_per_s", json::array({1e9}),
       "'bandwidth.bytes_per_s' is an array of 1, expected an array of 2 "
       "elements, one per point of the axis"},
      {"/attention/forward/0", 17,
       "'attention.forward[0]' is 17, expected a number from 0.001 to 2"},
      {"/attention/backward/0", 0.001,
       "'attention.backward[1]' is 0.75, expected at most 16 times the "
       "rate 0.001 of the next smaller size, so that a larger size does not "
       "take less time"},
      {"/link/to_host_bytes_per_s", 0,
       "'link.to_host_bytes_per_s' is 0, expected a number from 1000 to "
       "1e+14"},
      {"/link/latency_s", -1,
       "'link.latency_s' is -1, expected a number from 0 to 10"},
      {"/link/duplex", 1, "'link.duplex' is 1, expected true or false"},
  };
  for (const Case &one : cases) {
    json file = goodFile();
    file[json::json_pointer(one.place)] = one.value;
    EXPECT_EQ(complaint(file), refused(one.message));
  }
  // Try texts that are not numbers.
  std::string text = printMachine(smallMachine());
  for (const char *value : {"NaN", "Infinity", "-Infinity", "1e999", "0x10"}) {
    std::string bad = text;
    std::size_t at = bad.find("1.1e-06");
    ASSERT_NE(at, std::string::npos);
    bad.replace(at, 7, value);
    EXPECT_FALSE(parseMachine(bad, "m.json").ok()) << value;
  }
}

TEST(MachineFile, MutationsNeverCrash) {
  std::string good = printMachine(smallMachine());
  std::mt19937 random(1);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (unsigned change = random() % 3 + 1; change > 0; --change) {
      std::size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text[at] = char(random());
        break;
      case 1:
        text.erase(at, random() % 9);
        break;
      case 2:
        text.insert(at, 1, "0123456789eE+-.,:[]{}\""[random() % 21]);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), random() % 30));
        break;
      }
      if (text.empty())
        text = "{";
    }
    Result<Machine> machine = parseMachine(text, "mutated");
    if (!machine.ok()) {
      EXPECT_EQ(machine.status().message().find('\n'), std::string::npos);
      continue;
    }
    ++accepted;
    // A file that the parser accepts must give positive times and must be
    // accepted again after being printed.
    EXPECT_GT(machine->gemmSeconds(ElementType::BF16, 2, 100, 100, 100), 0);
    EXPECT_GT(machine->memorySeconds(1e7), 0);
    EXPECT_TRUE(parseMachine(printMachine(*machine), "again").ok());
  }
  EXPECT_GT(accepted, 100);
}
