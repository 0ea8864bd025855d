//===- MachineTest.cpp - Queries of machine files ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Machine.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kiln;

static Machine load(const std::string &name) {
  Result<Machine> machine = loadMachine(name);
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  return machine.ok() ? *machine : Machine();
}

static constexpr ElementType types[] = {ElementType::F64, ElementType::F32,
                                        ElementType::BF16, ElementType::F16};

TEST(Machine, EveryShippedMachineLoads) {
  std::vector<std::string> names = shippedMachines();
  std::vector<std::string> expected = {"a100-40", "a100-80", "default-cpu",
                                       "h100",    "h200",    "v100-16",
                                       "v100-32"};
  EXPECT_EQ(names, expected);
  for (const std::string &name : names) {
    Machine machine = load(name);
    EXPECT_EQ(machine.kind == MachineKind::Cpu, name == defaultMachine);
    EXPECT_FALSE(machine.origin.measured) << name;
    EXPECT_GT(machine.origin.source.size(), 50u) << name;
  }
}

TEST(Machine, TableIsExactAtItsPoints) {
  for (const std::string &name : shippedMachines()) {
    Machine machine = load(name);
    for (const auto &[type, curve] : machine.gemm) {
      auto flops = curve.flops.begin();
      for (int64_t m : curve.m)
        for (int64_t n : curve.n)
          for (int64_t k : curve.k) {
            double expected =
                2.0 * double(m) * double(n) * double(k) / *flops++;
            EXPECT_DOUBLE_EQ(machine.gemmSeconds(type, 1, m, n, k), expected);
          }
    }
    for (std::size_t i = 0; i < machine.bandwidth.bytes.size(); ++i) {
      auto bytes = double(machine.bandwidth.bytes[i]);
      EXPECT_DOUBLE_EQ(machine.memorySeconds(bytes),
                       bytes / machine.bandwidth.bytesPerSecond[i]);
    }
  }
}

/// Returns sizes below, between and above the sizes in the tables of machines.
static std::vector<int64_t> sizes() {
  std::vector<int64_t> all;
  for (double size = 1; size < 200000; size *= 1.37)
    if (all.empty() || int64_t(size) > all.back())
      all.push_back(int64_t(size));
  return all;
}

TEST(Machine, LargerProductsNeverTakeLess) {
  const double tolerance = 1 - 1e-12;
  for (const std::string &name : shippedMachines()) {
    Machine machine = load(name);
    for (ElementType type : types)
      for (int64_t other : {1, 20, 64, 700, 5000})
        for (int d = 0; d < 4; ++d) {
          double last = 0;
          for (int64_t size : sizes()) {
            int64_t shape[4] = {other, 96, other, 3};
            shape[d] = size;
            double seconds = machine.gemmSeconds(type, shape[3], shape[0],
                                                 shape[1], shape[2]);
            EXPECT_TRUE(std::isfinite(seconds));
            EXPECT_GE(seconds, last * tolerance)
                << name << " " << d << " " << size;
            last = seconds;
          }
        }
  }
}

TEST(Machine, RatesLieBetweenTheirNeighbours) {
  Machine machine = load("h200");
  double low = machine.gemmSeconds(ElementType::BF16, 1, 256, 256, 1024);
  double high = machine.gemmSeconds(ElementType::BF16, 1, 1024, 1024, 1024);
  double between = machine.gemmSeconds(ElementType::BF16, 1, 512, 512, 1024);
  EXPECT_GT(between, low);
  EXPECT_LT(between, high);
}

TEST(Machine, BeyondTheTableTheRateStays) {
  Machine machine = load("a100-80");
  const GemmCurve &curve = machine.gemmOf(ElementType::BF16);
  double last = machine.gemmSeconds(ElementType::BF16, 1, curve.m.back(),
                                    curve.n.back(), curve.k.back());
  EXPECT_NEAR(machine.gemmSeconds(ElementType::BF16, 1, 8 * curve.m.back(),
                                  curve.n.back(), 2 * curve.k.back()),
              16 * last, 1e-9 * last);
  // Below the first point, a GEMM takes as long as at the first point.
  EXPECT_DOUBLE_EQ(machine.gemmSeconds(ElementType::BF16, 1, 1, 16, 16),
                   machine.gemmSeconds(ElementType::BF16, 1, 16, 16, 16));
  EXPECT_EQ(machine.gemmSeconds(ElementType::BF16, 0, 16, 16, 16), 0);
  EXPECT_TRUE(std::isfinite(machine.gemmSeconds(
      ElementType::BF16, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX)));
}

TEST(Machine, ATypeWithoutACurveRunsAsF32) {
  Machine machine = load("v100-16");
  EXPECT_EQ(machine.gemm.count(ElementType::BF16), 0u);
  EXPECT_EQ(machine.gemmSeconds(ElementType::BF16, 1, 512, 512, 512),
            machine.gemmSeconds(ElementType::F32, 1, 512, 512, 512));
}

TEST(Machine, BatchesRunOneByOneOnACpuAndTogetherOnAGpu) {
  Machine cpu = load(defaultMachine), gpu = load("h100");
  auto seconds = [](const Machine &machine, int64_t batch) {
    return machine.gemmSeconds(ElementType::F32, batch, 64, 64, 64);
  };
  EXPECT_DOUBLE_EQ(seconds(cpu, 12), 12 * seconds(cpu, 1));
  EXPECT_LT(seconds(gpu, 12), 6 * seconds(gpu, 1));
}

TEST(Machine, MoreBytesAndOperationsNeverTakeLess) {
  for (const std::string &name : shippedMachines()) {
    Machine machine = load(name);
    double memory = 0, kernel = 0, link = 0;
    for (double bytes = 1; bytes < 1e12; bytes *= 1.7) {
      EXPECT_GT(machine.memorySeconds(bytes), memory) << name << " " << bytes;
      memory = machine.memorySeconds(bytes);
      EXPECT_GE(machine.kernelSeconds(bytes, bytes), kernel);
      kernel = machine.kernelSeconds(bytes, bytes);
      EXPECT_GE(kernel, machine.launchSeconds);
      EXPECT_GT(machine.linkSeconds(bytes, LinkDirection::ToHost), link);
      link = machine.linkSeconds(bytes, LinkDirection::ToHost);
    }
    EXPECT_EQ(machine.memorySeconds(0), 0);
    EXPECT_EQ(machine.kernelSeconds(0), machine.launchSeconds);
    // A small working set fits into a cache. A cache is at least as fast as
    // memory, so the accesses must not take longer than accesses to memory.
    EXPECT_LE(machine.memorySeconds(1e9, 1e5), machine.memorySeconds(1e9));
  }
}

TEST(Machine, LongerAttentionNeverTakesLess) {
  for (const std::string &name : shippedMachines()) {
    Machine machine = load(name);
    for (bool causal : {false, true})
      for (bool backward : {false, true}) {
        double last = 0;
        for (int64_t length : sizes()) {
          double seconds = machine.attentionSeconds(
              ElementType::F32, 12, length, 64, causal, backward);
          EXPECT_GE(seconds, last) << name << " " << length;
          last = seconds;
        }
      }
    EXPECT_LT(
        machine.attentionSeconds(ElementType::F32, 12, 1024, 64, true, false),
        machine.attentionSeconds(ElementType::F32, 12, 1024, 64, false, false));
    EXPECT_LT(
        machine.attentionSeconds(ElementType::F32, 12, 1024, 64, true, false),
        machine.attentionSeconds(ElementType::F32, 12, 1024, 64, true, true));
  }
}

TEST(Machine, CollectivesUseTheNetwork) {
  Machine machine = load(defaultMachine);
  machine.link = {/*toHost=*/2e9, /*toDevice=*/1e9, /*latency=*/1e-5, true};
  EXPECT_EQ(machine.ringSeconds(4e9, 1), 0);
  // In a ring of 4 ranks, each rank sends 3 messages of 1e9 bytes.
  EXPECT_DOUBLE_EQ(machine.ringSeconds(4e9, 4), 3 * (1e-5 + 1));
  machine.network = MachineNetwork{/*bytesPerSecond=*/5e9, /*latency=*/2e-5};
  EXPECT_DOUBLE_EQ(machine.ringSeconds(4e9, 4), 3 * (2e-5 + 0.2));
  Result<Machine> parsed = parseMachine(printMachine(machine), "test");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  ASSERT_TRUE(parsed->network);
  EXPECT_EQ(parsed->network->bytesPerSecond, 5e9);
  EXPECT_EQ(parsed->network->latency, 2e-5);
  machine.simulateNetwork(1e6);
  EXPECT_DOUBLE_EQ(machine.ringSeconds(4e6, 2), 2);
}

TEST(Machine, MismatchNamesWhatDiffers) {
  Machine machine = load(defaultMachine);
  ThisMachine here = {"CPU B", "OpenBLAS 0.3.21", 2};
  // The figures of the default machine are not measured, so they match any CPU.
  EXPECT_EQ(machine.mismatch(here), std::nullopt);
  machine.origin = {true, "", "2026-01-01", "CPU B", "OpenBLAS 0.3.21", 2};
  EXPECT_EQ(machine.mismatch(here), std::nullopt);
  machine.origin.cpu = "CPU A";
  EXPECT_EQ(machine.mismatch(here),
            "was measured on CPU 'CPU A', here it is 'CPU B'");
  machine.origin.threads = 8;
  EXPECT_EQ(machine.mismatch(here),
            "was measured on CPU 'CPU A', here it is 'CPU B', with 8 threads, "
            "here there are 2");
  machine.origin.cpu = "CPU B";
  machine.origin.blas = "BLIS";
  EXPECT_EQ(machine.mismatch(here),
            "was measured with BLAS 'BLIS', here it is 'OpenBLAS 0.3.21', with "
            "8 threads, here there are 2");
}

TEST(Machine, LinkSpeeds) {
  auto speed = [](const char *text) {
    Result<double> found = parseLinkSpeed(text, "--simulate-link");
    EXPECT_TRUE(found.ok()) << text;
    return found.ok() ? *found : 0;
  };
  EXPECT_EQ(speed("120MB/s"), 120e6);
  EXPECT_EQ(speed("1.5GiB/s"), 1.5 * (1 << 30));
  EXPECT_EQ(speed("4096B/s"), 4096);
  for (const char *bad :
       {"", "0", "0MB/s", "-1MB/s", "120", "120MB", "MB/s", "nanMB/s",
        "infGB/s", "1e99GB/s", "1 GB/s", "12mb/s", "120MB/s ", "0.1B/s"}) {
    Result<double> found = parseLinkSpeed(bad, "--simulate-link");
    ASSERT_FALSE(found.ok()) << bad;
    EXPECT_EQ(found.status().code(), ExitCode::Usage);
  }
  EXPECT_EQ(parseLinkSpeed("0MB/s", "--simulate-link").status().message(),
            "--simulate-link is '0MB/s', expected a rate from 1KB/s to "
            "100000GB/s such as 120MB/s (units B, KB, MB, GB, KiB, MiB, GiB "
            "per second)");
}

TEST(Machine, UnknownNamesListWhatExists) {
  for (const char *name : {"v100", "", "V100-16", "default", "h200.jsn"}) {
    Result<Machine> machine = loadMachine(name);
    ASSERT_FALSE(machine.ok());
    EXPECT_EQ(machine.status().code(), ExitCode::Usage);
    EXPECT_EQ(machine.status().message(),
              "--machine is '" + std::string(name) +
                  "', expected a file that ends in .json or one of a100-40, "
                  "a100-80, default-cpu, h100, h200, v100-16, v100-32");
  }
}
