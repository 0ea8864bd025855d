//===- EngineTest.cpp - Tests of the engine on a GPU ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes every kind of command individually and in a CUDA graph, and compares
// the results with host computations. Inputs change between runs.
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

using namespace kiln::runtime::devicetest;
using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t count = 1000, bytes = 4 * count;
/// The number of bytes from one buffer to the next.
constexpr int64_t step = 4096;

Json buffer(int64_t index) { return device(index * step); }
Json hostBuffer(int64_t index) { return host(index * step); }

/// Returns a launch whose arguments have the sizes `extents`, in bytes.
Json launch(const char *name, int64_t kernel, Json args,
            const std::vector<int64_t> &extents, int64_t written,
            Json immediates, int64_t units) {
  Json command =
      deviceLaunch(name, kernel, std::move(args), bytes, Json::array({written}),
                   std::move(immediates), units);
  command["extents"] = extents;
  return command;
}

Json slotAt(const char *name, const char *kind, int64_t index, int64_t first,
            int64_t last, bool onHost = false, int64_t size = bytes) {
  return slot(name, kind, index * step, size, first, last, onHost);
}

/// Runs the program on three inputs: first as commands, then twice as a graph.
/// Checks that output i for the input `in` is expected(in, i).
void checkRuns(
    const Json &description, int64_t outputs,
    const std::function<std::vector<float>(const std::vector<float> &, int64_t)>
        &expected) {
  std::unique_ptr<Engine> engine = startEngine(description);
  ASSERT_TRUE(engine);
  for (int64_t run = 0; run < 3; ++run) {
    std::vector<float> in = numbers(count, uint64_t(run));
    std::copy(in.begin(), in.end(), input(*engine, 0));
    for (int64_t i = 0; i < outputs; ++i)
      std::fill_n(output(*engine, std::size_t(i)), expected(in, i).size(), NAN);
    Status status = engine->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < outputs; ++i) {
      std::vector<float> want = expected(in, i);
      EXPECT_EQ(std::memcmp(output(*engine, std::size_t(i)), want.data(),
                            4 * want.size()),
                0)
          << "run " << run << ", output " << i;
    }
  }
}

/// Computes out = 3 (3 in + 5) + 6 with copies to the host and back between the
/// kernels.
TEST(EngineTest, KernelsBetweenCopies) {
  Json commands = {
      launch("first", Scale, {buffer(0), buffer(1)}, {bytes, bytes}, 1,
             {{5, 0}}, count),
      copyStart("out", buffer(1), hostBuffer(0), bytes, 0),
      copyWait("out", 0),
      {{"op", "fill"}, {"name", "zero"}, {"ref", buffer(1)}, {"bytes", bytes}},
      copyStart("in", hostBuffer(0), buffer(2), bytes, 1),
      launch("zeros", Scale, {buffer(1), buffer(3)}, {bytes, bytes}, 1,
             {{-1, 0}}, count),
      copyWait("in", 1),
      launch("second", Scale, {buffer(2), buffer(4)}, {bytes, bytes}, 1,
             {{6, 0}}, count)};
  Json slots = {slotAt("i", "input", 0, 0, 0),
                slotAt("a", "activation", 1, 0, 5),
                slotAt("h", "activation", 0, 1, 6, true),
                slotAt("b", "activation", 2, 4, 7),
                slotAt("z", "output", 3, 5, 8),
                slotAt("o", "output", 4, 7, 8)};
  checkRuns(
      handProgram(commands, slots, {value("i", 0, count)},
                  {value("o", 4 * step, count), value("z", 3 * step, count)},
                  5 * step),
      2, [](const std::vector<float> &in, int64_t which) {
        std::vector<float> out;
        for (float x : in)
          out.push_back(which ? -1.0f
                              : std::fma(std::fma(x, 3.0f, 5.0f), 3.0f, 6.0f));
        return out;
      });
}

TEST(EngineTest, SharedMemoryAndShuffles) {
  constexpr int64_t blocks = (count + 31) / 32;
  Json commands = {launch("sums", BlockSum, {buffer(0), buffer(1)},
                          {bytes, 4 * blocks}, 1, Json::array(), count)};
  Json slots = {slotAt("i", "input", 0, 0, 0),
                slotAt("o", "output", 1, 0, 1, false, 4 * blocks)};
  checkRuns(handProgram(commands, slots, {value("i", 0, count)},
                        {value("o", step, blocks)}, 2 * step),
            1, [](const std::vector<float> &in, int64_t) {
              std::vector<float> out;
              for (int64_t block = 0; block < blocks; ++block) {
                float parts[32] = {};
                for (int64_t i = 0; i < 32 && 32 * block + i < count; ++i)
                  parts[31 - i] = in[std::size_t(32 * block + i)];
                for (int64_t half = 16; half > 0; half /= 2)
                  for (int64_t i = 0; i < half; ++i)
                    parts[i] += parts[i + half];
                out.push_back(parts[0]);
              }
              return out;
            });
}

/// The forward segment of micro-batch i applies Scale to quarter i of the input
/// and writes the result to a buffer that has an instance per micro-batch in
/// flight. The immediate of Scale differs for the first execution. The backward
/// segment copies the result to quarter i of the output.
TEST(EngineTest, MicrobatchesAreOrdered) {
  constexpr int64_t part = count / 4;
  const std::pair<const char *, int64_t> orders[] = {
      {"alternate", 1},
      {"all-forward-first", 4},
      {"one-forward-one-backward:2", 2},
      {"F0 F3 B3 F1 F2 B0 B2 B1", 3}};
  for (auto [order, slots] : orders) {
    Json scaled = device(2 * step);
    Json planned = {slotAt("i", "input", 0, 0, 0),
                    slotAt("o", "output", 1, 1, 2),
                    slotAt("scaled", "activation", 2, 0, 1, false, 4 * part)};
    if (slots > 1) {
      scaled.push_back(step);
      planned[2]["ring"] = step;
    }
    Json commands = {launch("part", Scale, {device(0, 4 * part), scaled},
                            {4 * part, 4 * part}, 1, {{10, 3}}, part),
                     {{"op", "copy"},
                      {"name", "store"},
                      {"from", scaled},
                      {"to", device(step, 4 * part)},
                      {"bytes", 4 * part}}};
    checkRuns(handProgram(inMicrobatches(commands, {0, 1, 2, 4, order, slots}),
                          planned, {value("i", 0, count)},
                          {value("o", step, count)}, (2 + slots) * step),
              1, [](const std::vector<float> &in, int64_t) {
                std::vector<float> out;
                for (int64_t i = 0; i < count; ++i)
                  out.push_back(std::fma(in[std::size_t(i)], 3.0f,
                                         float(i < part ? 10 : 13)));
                return out;
              });
  }
}

/// A host kernel divides by a scalar that the device has computed in an earlier
/// command of the same run.
TEST(EngineTest, KernelsOfTheHost) {
  Json divide = kernelLaunch("divide", HostDivide, {buffer(2), hostBuffer(0)},
                             bytes, Json::array({1}), Json::array(), count);
  divide["extents"] = {4, bytes};
  Json commands = {
      copyStart("out", buffer(0), hostBuffer(0), bytes, 0),
      launch("scalar", Scale, {buffer(1), buffer(2)}, {4, 4}, 1, {{1, 0}}, 1),
      copyWait("out", 0),
      divide,
      copyStart("in", hostBuffer(0), buffer(3), bytes, 1),
      copyWait("in", 1),
      {{"op", "copy"},
       {"name", "result"},
       {"from", buffer(3)},
       {"to", buffer(4)},
       {"bytes", bytes}}};
  Json slots = {slotAt("i", "input", 0, 0, 2),
                slotAt("d", "input", 1, 0, 1, false, 4),
                slotAt("s", "activation", 2, 1, 3, false, 4),
                slotAt("h", "activation", 0, 0, 5, true),
                slotAt("b", "activation", 3, 4, 6),
                slotAt("o", "output", 4, 6, 7)};
  Json description =
      handProgram(commands, slots, {value("i", 0, count), value("d", step, 1)},
                  {value("o", 4 * step, count)}, 5 * step);
  std::unique_ptr<Engine> engine = startEngine(description);
  ASSERT_TRUE(engine);
  for (int run = 0; run < 4; ++run) {
    std::vector<float> in = numbers(count, uint64_t(run));
    std::copy(in.begin(), in.end(), input(*engine, 0));
    *input(*engine, 1) = float(run);
    Status status = engine->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(output(*engine, 0)[i], in[std::size_t(i)] / float(3 * run + 1))
          << run << " " << i;
  }
}

/// Returns a program with a matmul, a kernel and a copy to the host.
Json mixedProgram() {
  Json operand = {
      {"ref", buffer(0)}, {"ld", 25}, {"trans", false}, {"batch_stride", 0}};
  Json other = operand, result = operand;
  other["trans"] = true;
  result["ref"] = buffer(1);
  result["ld"] = 40;
  Json gemm = {{"op", "gemm"},
               {"name", "product"},
               {"dtype", "f32"},
               {"m", 25},
               {"n", 25},
               {"k", 25},
               {"batch", 1},
               {"a", operand},
               {"b", other},
               {"c", result},
               {"beta", 0},
               {"grid", {1, 1}},
               {"flops", 2 * 25 * 25 * 25},
               {"epilogue", nullptr}};
  Json commands = {
      {{"op", "fill"}, {"name", "zero"}, {"ref", buffer(1)}, {"bytes", bytes}},
      gemm,
      launch("scale", Scale, {buffer(1), buffer(2)}, {bytes, bytes}, 1,
             {{2, 0}}, count),
      copyStart("out", buffer(2), hostBuffer(0), bytes, 0),
      copyWait("out", 0)};
  Json slots = {
      slotAt("i", "input", 0, 0, 1), slotAt("c", "activation", 1, 0, 2),
      slotAt("o", "output", 2, 2, 5), slotAt("h", "activation", 0, 3, 4, true)};
  return handProgram(commands, slots, {value("i", 0, count)},
                     {value("o", 2 * step, count)}, 3 * step);
}

TEST(EngineTest, EveryWayToRunGivesTheSameBits) {
  std::unique_ptr<Engine> engine = startEngine(mixedProgram());
  ASSERT_TRUE(engine);
  std::vector<std::vector<float>> results;
  auto keep = [&](const Status &status) {
    ASSERT_TRUE(status.ok()) << status.message();
    results.emplace_back(output(*engine, 0), output(*engine, 0) + count);
    std::fill_n(output(*engine, 0), count, NAN);
  };
  std::vector<float> in = numbers(count, 3);
  std::copy(in.begin(), in.end(), input(*engine, 0));
  for (int run = 0; run < 100; ++run)
    keep(engine->run(0));
  std::vector<TraceEvent> events;
  keep(engine->runTraced(0, events));
  std::set<std::string> observed;
  const char *seen = nullptr;
  keep(engine->runObserved(0, [&](const OpResult &result) {
    observed.insert(result.name + " " + result.buffer);
    if (result.buffer == "o")
      seen = result.data;
  }));
  EXPECT_EQ(observed,
            (std::set<std::string>{"zero c", "product c", "scale o", "out h"}));
  ASSERT_EQ(seen, engine->observedOutput(0, 0));
  EXPECT_EQ(std::memcmp(seen, results[0].data(), bytes), 0);
  for (std::size_t i = 1; i < results.size(); ++i)
    ASSERT_EQ(std::memcmp(results[i].data(), results[0].data(), bytes), 0) << i;

  // The trace has an event for each command, and the events of a stream do not
  // overlap.
  ASSERT_EQ(events.size(), 4u);
  double end = 0;
  for (const TraceEvent &event : events) {
    EXPECT_GE(event.durationUs, 0) << event.name;
    if (event.track != TraceEvent::Track::Commands)
      continue;
    EXPECT_GE(event.startUs, end) << event.name;
    end = event.startUs + event.durationUs;
  }
  EXPECT_GT(end, 0);
}

TEST(EngineTest, ItsMemoryIsWhatIsPlanned) {
  Json description = mixedProgram();
  // Make the arena larger than the memory that the driver may already have
  // reserved.
  description["arena"]["bytes"] = int64_t(64) << 20;
  std::unique_ptr<Engine> engine = startEngine(description);
  ASSERT_TRUE(engine);
  std::vector<MemoryCheckLine> lines;
  Status status = engine->checkPlan(
      [&](size_t) {
        std::fill_n(input(*engine, 0), count, 1.0f);
        return Status();
      },
      lines);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_GE(lines.size(), 4u);
  for (const MemoryCheckLine &line : lines)
    EXPECT_TRUE(line.ok) << line.check << ": expected " << line.expected
                         << ", found " << line.found;
}

TEST(EngineTest, ManyEnginesOneAfterTheOther) {
  for (int i = 0; i < 10; ++i) {
    std::unique_ptr<Engine> engine = startEngine(mixedProgram());
    ASSERT_TRUE(engine);
    std::fill_n(input(*engine, 0), count, 1.0f);
    for (int run = 0; run < 3; ++run) {
      Status status = engine->run(0);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    EXPECT_EQ(*output(*engine, 0), 3.0f * 25 + 2);
  }
}

} // namespace
