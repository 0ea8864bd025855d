//===- EmuEngineTest.cpp - Tests of the emulated GPU's engine -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Gpu/EmuEngine.h"
#include "EmuTesting.h"
#include "HandProgram.h"

#include <functional>
#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t elements = 64;
constexpr int64_t bytes = elements * 4;

int64_t unit() { return blockId() * 32 + threadId(); }

/// Computes y = a x + b with the arguments (x, y) and the immediates (a, b).
void scale(char *const *args, const int64_t *immediates, int64_t units) {
  if (unit() < units)
    store(args[1], unit(),
          float(immediates[0]) * load<float>(args[0], unit()) +
              float(immediates[1]));
}

/// Computes sum += x with the arguments (x, sum).
void accumulate(char *const *args, const int64_t *, int64_t units) {
  if (unit() < units)
    store(args[1], unit(),
          load<float>(args[1], unit()) + load<float>(args[0], unit()));
}

/// Writes x in reverse order to y.
void reverse(char *const *args, const int64_t *, int64_t units) {
  if (unit() < units)
    store(args[1], units - 1 - unit(), load<float>(args[0], unit()));
}

/// Shifts x in place, which is a race between blocks.
void shift(char *const *args, const int64_t *immediates, int64_t units) {
  if (unit() + immediates[0] < units)
    store(args[0], unit(), load<float>(args[0], unit() + immediates[0]));
}

/// Computes y = x + s[0] on the host with the arguments (x, s, y).
void addOnHost(char *const *args, const int64_t *, int64_t begin, int64_t end,
               char *) {
  for (int64_t i = begin; i < end; ++i)
    reinterpret_cast<float *>(args[2])[i] =
        reinterpret_cast<const float *>(args[0])[i] +
        reinterpret_cast<const float *>(args[1])[0];
}

enum Kernel { Scale, Accumulate, Reverse, Shift, AddOnHost, KernelCount };

const void *const kernels[] = {reinterpret_cast<const void *>(scale),
                               reinterpret_cast<const void *>(accumulate),
                               reinterpret_cast<const void *>(reverse),
                               reinterpret_cast<const void *>(shift),
                               reinterpret_cast<const void *>(addOnHost)};

Json device1(const char *name, Kernel kernel, Json args, int64_t written,
             Json immediates = Json::array()) {
  return deviceLaunch(name, kernel, std::move(args), bytes,
                      Json::array({written}), std::move(immediates), elements);
}

Json imm(int64_t value, int64_t stride = 0) {
  return Json::array({value, stride});
}

class EmuEngineTest : public ::testing::Test {
protected:
  /// Runs the program twice. Stores the output of the second run and returns
  /// the error message, if any.
  std::string run(const Json &description, uint64_t seed,
                  std::vector<float> &output) {
    Result<std::unique_ptr<Engine>> made =
        createEmuEngine(description.dump(), kernels, KernelCount);
    if (!made.ok())
      return made.status().message();
    engine_ = std::move(*made);
    Status status = engine_->shuffle(seed);
    if (status.ok())
      status = engine_->start(1);
    for (int i = 0; i < 2 && status.ok(); ++i) {
      for (std::size_t input = 0;
           input < engine_->description().programs[0].inputs.size(); ++input)
        for (int64_t j = 0; j < elements; ++j)
          reinterpret_cast<float *>(engine_->inputData(0, input))[j] = float(j);
      status = engine_->run(0);
    }
    if (!status.ok())
      return status.message();
    const auto *data = reinterpret_cast<float *>(engine_->outputData(0, 0));
    output.assign(data, data + elements);
    return "";
  }
  void computes(const Json &description,
                const std::function<float(int64_t)> &expected) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<float> output;
      ASSERT_EQ(run(description, seed, output), "");
      for (int64_t i = 0; i < elements; ++i)
        ASSERT_EQ(output[std::size_t(i)], expected(i))
            << "element " << i << ", seed " << seed;
    }
  }
  /// Expects that a run fails with `message` for each of several seeds.
  void fails(const Json &description, const std::string &message) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<float> output;
      std::string found = run(description, seed, output);
      EXPECT_NE(found.find(message), std::string::npos)
          << message << "\nbut: " << found;
    }
  }
  std::unique_ptr<Engine> engine_;
};

/// Returns a program of four launches, in which two slots share an offset.
Json chain() {
  Json commands = {
      device1("one", Scale, {device(0), device(256)}, 1, {imm(2), imm(1)}),
      device1("two", Reverse, {device(256), device(512)}, 1),
      device1("three", Scale, {device(512), device(256)}, 1, {imm(1), imm(3)}),
      device1("four", Reverse, {device(256), device(768)}, 1)};
  Json slots = {slot("x", "input", 0, bytes, 0, 0),
                slot("a", "activation", 256, bytes, 0, 1),
                slot("b", "activation", 512, bytes, 1, 2),
                slot("c", "activation", 256, bytes, 2, 3),
                slot("y", "output", 768, bytes, 3, 4)};
  return handProgram(commands, slots, {value("x", 0, elements)},
                     {value("y", 768, elements)}, 1024);
}

TEST_F(EmuEngineTest, LaunchesReuseSlots) {
  computes(chain(), [](int64_t i) { return float(2 * i + 1 + 3); });
  SectorCounts counts = engine_->sectors(0).value_or(SectorCounts());
  EXPECT_EQ(counts.read, 4 * bytes / 32);
  EXPECT_EQ(counts.written, 4 * bytes / 32);
}

TEST_F(EmuEngineTest, AnEarlierSlotsBytesAreNoValue) {
  Json description = chain();
  toy::commandsOf(description["programs"]["run"])[2]["units"] = elements / 2;
  fails(description, "kernel 'four', block 1, thread ");
  fails(description, "argument 0 ('c') + ");
}

TEST_F(EmuEngineTest, APartOfTheOutputIsMissing) {
  Json description = chain();
  toy::commandsOf(description["programs"]["run"])[3]["units"] = elements / 2;
  fails(description,
        "the caller of program 'run' for 'y' reads 256 bytes of global memory, "
        "but the byte at offset 128 of these bytes has not been written");
}

TEST_F(EmuEngineTest, ALaunchThatRacesWithItself) {
  Json description = chain();
  Json &command = toy::commandsOf(description["programs"]["run"])[3];
  command = device1("three and a half", Shift, {device(256)}, 0, {imm(16)});
  fails(withQueues(description), "race in global memory");
}

/// Returns a program that computes 3 x on the device, copies 3 x to the host,
/// computes 3 x + 7 there, and copies 3 x + 7 back to the offset of 3 x.
Json thereAndBack() {
  Json commands = {
      device1("x", Scale, {device(0), device(256)}, 1, {imm(3), imm(0)}),
      device1("s", Scale, {device(0), device(512)}, 1, {imm(0), imm(7)}),
      copyStart("out", device(256), host(0), bytes, 0),
      device1("t", Reverse, {device(0), device(768)}, 1), copyWait("out", 0),
      device1("u", Scale, {device(768), device(256)}, 1, {imm(1), imm(1)}),
      kernelLaunch("add", AddOnHost, {host(0), device(512), host(256)}, bytes,
                   {2}, Json::array(), elements),
      device1("v", Reverse, {device(256), device(768)}, 1),
      copyStart("in", host(256), device(256), bytes, 1),
      // Overwrites s after the host has read it.
      device1("w", Scale, {device(768), device(512)}, 1, {imm(1), imm(0)}),
      copyWait("in", 1),
      device1("sum", Accumulate, {device(256), device(512)}, 1)};
  Json slots = {slot("x", "input", 0, bytes, 0, 3),
                slot("x3", "activation", 256, bytes, 0, 4),
                slot("s", "activation", 512, bytes, 1, 6),
                slot("t", "activation", 768, bytes, 3, 5),
                slot("u", "activation", 256, bytes, 5, 7),
                slot("v", "activation", 768, bytes, 7, 9),
                slot("w", "output", 512, bytes, 9, 12),
                slot("back", "activation", 256, bytes, 8, 11),
                slot("x_host", "activation", 0, bytes, 2, 6, true),
                slot("y_host", "activation", 256, bytes, 6, 10, true)};
  return handProgram(commands, slots, {value("x", 0, elements)},
                     {value("w", 512, elements)}, 1024);
}

TEST_F(EmuEngineTest, CopiesAndTheHostKeepTheirPlaces) {
  computes(thereAndBack(), [](int64_t i) { return float(i + 1 + 3 * i + 7); });
  CopyCounts counts = engine_->copies(0).value_or(CopyCounts());
  EXPECT_EQ(counts.outBytes, bytes);
  EXPECT_EQ(counts.inBytes, bytes);
}

TEST_F(EmuEngineTest, HostKernelOfBytesThatNobodyWrote) {
  Json description = thereAndBack();
  toy::commandsOf(description["programs"]["run"])[2]["bytes"] = 128;
  fails(description,
        "'add', operand 'x_host', reads 256 bytes of global memory, but the "
        "byte at offset 128 of these bytes has not been written; in program "
        "'run', launch 'add' (commands[6])");
}

/// Returns a program that computes the sum of 2 x[i] over three micro-batches
/// i, plus 1 for each micro-batch except the first one. Each x[i] has 64
/// elements. With more than one slot, 2 x[i] is in a buffer with one instance
/// per slot until the backward segment reads it.
Json inThreeMicrobatches(const char *order, int64_t slots) {
  int64_t ring = slots > 1 ? bytes : 0;
  Json part = {1280, 0, ring};
  Json commands = {
      {{"op", "fill"},
       {"name", "zero"},
       {"ref", device(1024)},
       {"bytes", bytes}},
      device1("part", Scale, {device(0, bytes), part}, 1, {imm(2), imm(0, 1)}),
      device1("add", Accumulate, {part, device(1024)}, 1)};
  Json planned = {slot("x", "input", 0, 3 * bytes, 0, 2),
                  slot("part", "activation", 1280, bytes, 1, 2),
                  slot("sum", "output", 1024, bytes, 0, 3)};
  if (slots > 1)
    planned[1]["ring"] = ring;
  Json inputs = {value("x0", 0, elements), value("x1", bytes, elements),
                 value("x2", 2 * bytes, elements)};
  return handProgram(inMicrobatches(commands, {1, 2, 3, 3, order, slots}),
                     planned, inputs, {value("sum", 1024, elements)},
                     1280 + slots * bytes);
}

TEST_F(EmuEngineTest, MicrobatchesMoveArgumentsAndImmediates) {
  auto expected = [](int64_t i) { return float(6 * i + 0 + 1 + 1); };
  computes(inThreeMicrobatches("alternate", 1), expected);
  computes(inThreeMicrobatches("all-forward-first", 3), expected);
  computes(inThreeMicrobatches("one-forward-one-backward:2", 2), expected);
  computes(inThreeMicrobatches("F0 F2 B2 F1 B1 B0", 2), expected);
}

TEST_F(EmuEngineTest, AReadBeforeTheWriteOfItsMicrobatch) {
  Json description = inThreeMicrobatches("alternate", 1);
  Json &program = description["programs"]["run"];
  std::swap(toy::commandAt(program, 1), toy::commandAt(program, 2));
  fails(description, "kernel 'add', block ");
  fails(description, "argument 0 ('part') + ");
}

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

struct Damage {
  const char *name;
  const char *pointer; ///< JSON pointer into thereAndBack().
  Json value;
  const char *message;
};

class DamagedGpuProgramTest : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedGpuProgramTest, IsOneClearError) {
  Json json = thereAndBack();
  json[Json::json_pointer(GetParam().pointer)] = GetParam().value;
  Result<std::unique_ptr<Engine>> engine =
      createEmuEngine(json.dump(), kernels, KernelCount);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), ExitCode::Error);
  EXPECT_NE(engine.status().message().find(GetParam().message),
            std::string::npos)
      << engine.status().message();
  EXPECT_EQ(engine.status().message().find('\n'), std::string::npos);
}

#define COMMANDS "/programs/run/segments/0/commands/"
INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedGpuProgramTest,
    ::testing::Values(
        Damage{"Kind", "/target/kind", "rocm", "'rocm', expected cpu"},
        Damage{"OtherKind", "/target/kind", "cuda", "not for cuda-emu"},
        Damage{"Cpu", "/target/kind", "cpu", "the target has no GPU"},
        Damage{"Threads", COMMANDS "0/threads", 1025, "expected at most 1024"},
        Damage{"NoThreads", COMMANDS "0/threads", 0, "expected at least 1"},
        Damage{"Shared", COMMANDS "0/shared", 166913, "at most 166912"},
        Damage{"SharedOnHost", COMMANDS "6/shared", 64, "without 'threads'"},
        Damage{"Blocks", COMMANDS "0/units", INT64_MAX, "2^31 - 1 blocks"},
        Damage{"NoExtents", COMMANDS "0/extents", nullptr, "must be an array"},
        Damage{"FewExtents",
               COMMANDS "0/extents",
               {256},
               "has 1 elements, expected one for each of 2 args"},
        Damage{"Extent",
               COMMANDS "0/extents",
               {256, 1024},
               "makes the buffer end at byte 1280, beyond the arena of 1024 "
               "bytes"},
        Damage{"NegativeExtent", COMMANDS "0/extents/1", -1, "at least 0"},
        Damage{"Scratch", COMMANDS "0/scratch", {0, 64}, "a GPU kernel has"},
        Damage{"ScratchOnHost",
               COMMANDS "6/scratch",
               {0, 64},
               "is in device memory, which a host kernel cannot use"},
        Damage{"HostArgument",
               COMMANDS "0/args/0",
               {0, 0, "host"},
               "which a GPU kernel cannot access"},
        Damage{"HostWrites",
               COMMANDS "6/writes",
               {1},
               "is in device memory, which a host kernel cannot write"},
        Damage{"Copy", COMMANDS "2/op", "copy", "use copy_start and copy_wait"},
        Damage{"CopyInFlight",
               COMMANDS "3/args/1",
               {256, 0},
               "copy_start 'out' at commands[2] while that copy is in flight"}),
    [](const ::testing::TestParamInfo<Damage> &info) {
      return info.param.name;
    });

TEST(DamagedGpuProgramTest, TooManyActions) {
  Json fill = {
      {"op", "fill"}, {"name", "zero"}, {"ref", device(0)}, {"bytes", 0}};
  Json description =
      handProgram(inMicrobatches(Json::array_t(5, fill), {0, 2, 5, 1 << 20}),
                  Json::array(), Json::array(), Json::array(), 64);
  Result<std::unique_ptr<Engine>> engine =
      createEmuEngine(description.dump(), kernels, KernelCount);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.status().message().find(
                "'programs.run.order' executes 5242880 commands, expected at "
                "most 4194304 for a GPU"),
            std::string::npos)
      << engine.status().message();
}

TEST(DamagedGpuProgramTest, AnyReplacedValueIsHandled) {
  Json json = thereAndBack();
  const Json replacements[] = {nullptr,       -1, INT64_MAX, "host",
                               Json::array(), 0,  1e300,     Json::object()};
  Json flat = json.flatten();
  for (auto &[path, unused] : flat.items()) {
    for (const Json &replacement : replacements) {
      Json damaged = json;
      damaged[Json::json_pointer(path)] = replacement;
      Result<std::unique_ptr<Engine>> engine =
          createEmuEngine(damaged.dump(), kernels, KernelCount);
      EXPECT_TRUE(engine.ok() || !engine.status().message().empty());
    }
  }
}

} // namespace
