//===- ProgramTest.cpp - Tests of the description reader ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/Program.h"
#include "Avx512Gemm.h"
#include "ToyProgram.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

TEST(ProgramTest, ReadsTheToy) {
  Result<ProgramFile> file = parseProgramFile(toy::describe().dump(), 7);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Description &description = file->description;
  EXPECT_EQ(description.model.vocabSize, 256);
  EXPECT_EQ(description.build.microbatches, 2);
  EXPECT_EQ(description.states.size(), 4u);
  EXPECT_EQ(description.states[1].sourceName, "head.weight");
  EXPECT_EQ(description.states[2].role, StateRole::Optimizer);
  EXPECT_EQ(description.model.files[1].bytes, std::string("\0\xff", 2));
  ASSERT_EQ(description.programs.size(), 3u);
  const Program &train = file->programs[2];
  EXPECT_EQ(description.programs[2].name, "train");
  EXPECT_EQ(train.commands.size(), 11u);
  EXPECT_EQ(train.commands[5].beta, GemmBeta::First);
  EXPECT_TRUE(train.commands[5].a.trans);
  ASSERT_TRUE(train.commands[10].call.has_value());
  EXPECT_EQ(train.commands[10].call->args.size(), 6u);
  EXPECT_EQ(train.commands[10].call->writes, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(train.commands[3].scratch.bytesPerThread, 1024);
}

struct Damage {
  const char *name;
  const char *pointer; ///< JSON pointer into the toy's description.
  Json value;          ///< New value; "discarded" removes the member.
  const char *message;
};

class DamagedProgramTest : public testing::TestWithParam<Damage> {};

TEST_P(DamagedProgramTest, IsOneClearError) {
  Json json = toy::describe();
  Json::json_pointer pointer(GetParam().pointer);
  if (GetParam().value == "discarded")
    json[pointer.parent_pointer()].erase(pointer.back());
  else
    json[pointer] = GetParam().value;
  Result<ProgramFile> file = parseProgramFile(json.dump(), 7);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), ExitCode::Error);
  EXPECT_NE(file.status().message().find(GetParam().message), std::string::npos)
      << file.status().message();
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
}

#define BEGIN "/programs/train/segments/0/commands/"
#define FORWARD "/programs/train/segments/1/commands/"
#define BACKWARD "/programs/train/segments/2/commands/"
INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedProgramTest,
    testing::Values(
        Damage{"Format", "/format", 1,
               "'format' is 1, expected 4; the executable is damaged or was "
               "made by another version of kiln: compile it again"},
        Damage{"NoModel", "/model", "discarded", "'model' is missing"},
        Damage{"Threads", "/options/max_threads", 0,
               "'options.max_threads' is 0, expected at least 1"},
        Damage{"ManyThreads", "/options/max_threads", 1 << 20, "4096"},
        Damage{"ThreadsBeyondInt", "/options/max_threads", (1ll << 32) + 1,
               "'options.max_threads' is 4294967297, expected at most 4096"},
        Damage{"Clip", "/options/clip", 1, "'options.clip' must be a boolean"},
        Damage{"Base64", "/model/files/1/base64", "A", "not base64"},
        Damage{"HostArena", "/arena/host_bytes", -1, "'arena.host_bytes'"},
        Damage{"SlotRows",
               "/programs/train/slots/0/rows",
               {8},
               "has 1 entries, expected [bytes of a row, pitch in bytes]"},
        Damage{"SlotRowsApart",
               "/programs/train/slots/0/rows",
               {8, 8},
               "has rows of 8 bytes with a pitch of 8 bytes"},
        Damage{"SlotRowsOver",
               "/programs/train/slots/0/rows",
               {8, 1ll << 40},
               "the last row must end at byte "},
        Damage{"StateBytes", "/states/0/bytes", 5, "'states[0].bytes'"},
        Damage{"StateOffset", "/states/0/offset", 1 << 30, "beyond the arena"},
        Damage{"StatePrefix", "/arena/state_bytes", 64,
               "the bytes of the arena that are reserved for states"},
        Damage{"StateTwice", "/states/1/name", "E", "another state"},
        Damage{"StateType", "/states/0/dtype", "f33", "'f33'"},
        Damage{"StateRole", "/states/0/role", "weight", "'weight'"},
        Damage{"StateShape", "/states/0/shape", {INT64_MAX, 2}, "2^57"},
        Damage{"StateInit", "/states/0/init/kind", "magic", "magic"},
        Damage{"Programs", "/programs", 3, "'programs'"},
        Damage{"Input", "/programs/train/inputs/0/offset", 1 << 30,
               "'programs.train.inputs[0].offset'"},
        Damage{"SlotType", "/programs/train/slots/0/dtype", "f33",
               "'programs.train.slots[0].dtype' is 'f33', which is not an "
               "element type"},
        Damage{"SlotTypeBytes",
               "/programs/train/slots/0",
               {{"name", "x"},
                {"class", "activation"},
                {"offset", 0},
                {"bytes", 6},
                {"first", 0},
                {"last", 0},
                {"dtype", "f32"}},
               "is f32, but the slot's 6 bytes are not a whole number of "
               "elements"},
        Damage{"Op", BEGIN "0/op", "jump", "'jump', which is not a command"},
        Damage{"Kernel", FORWARD "0/kernel", 7,
               "index below 7, the number of kernels"},
        Damage{"NegativeKernel", FORWARD "0/kernel", -1, "kernel"},
        Damage{"Ref", FORWARD "0/args/1", {1}, "[offset, stride]"},
        Damage{"RefArena", FORWARD "0/args/1", {1, 2, "attic"}, "not \"host\""},
        Damage{"RefOutside",
               FORWARD "0/args/1",
               {1 << 30, 0},
               "commands[0].args[1]"},
        Damage{"RefNegative", FORWARD "0/args/1", {-8, 0}, "at least 0"},
        Damage{
            "RefStride", FORWARD "0/args/1", {0, 1 << 30}, "last micro-batch"},
        Damage{"RefOverflow",
               FORWARD "0/args/1",
               {8, INT64_MAX},
               "last micro-batch"},
        Damage{"RefFloat", FORWARD "0/args/1", {0.5, 0}, "64-bit integer"},
        Damage{"Writes", FORWARD "0/writes", {3}, "index of an argument"},
        Damage{"Immediate", FORWARD "0/imm", {5}, "array"},
        Damage{"Units", FORWARD "0/units", -1, "units"},
        Damage{"Grain", FORWARD "0/grain", 0, "grain"},
        Damage{"Scratch", BACKWARD "0/scratch", {1, 64}, "multiple of 64"},
        Damage{"ScratchHuge",
               BACKWARD "0/scratch",
               {0, INT64_MAX / 64 * 64},
               "requires more than 2^63 - 1 bytes for all threads"},
        Damage{"GemmType", FORWARD "1/dtype", "f8E5M2",
               "expected bf16, f16, f32 or f64"},
        Damage{"GemmResult", FORWARD "1/result", "f64", "expected f32"},
        Damage{"GemmNarrow", FORWARD "1/dtype", "bf16", "bytes for this gemm"},
        Damage{"GemmKernel", FORWARD "1/gemm_kernel", "mkl",
               "is 'mkl', expected blas, avx512 or amx"},
        Damage{"GemmKernelType", FORWARD "1/gemm_kernel", "amx",
               "is 'amx', which multiplies only bf16"},
        Damage{"GemmKernelPacked", FORWARD "1/gemm_kernel", "avx512",
               hasAvx512Gemm(ElementType::F32) ? "bytes for this gemm"
                                               : "lacks AVX-512"},
        Damage{"QuantizedEncoding",
               "/states/0/quantized",
               {{"encoding", "int3"}, {"dtype", "f32"}, {"shape", {8, 8}}},
               "is 'int3', expected nf4 or int8"},
        Damage{"QuantizedBlock",
               "/states/0/quantized",
               {{"encoding", "int8"},
                {"dtype", "f32"},
                {"shape", {8, 8}},
                {"block", 3},
                {"outliers", 0},
                {"inputs", 0}},
               "has blocks of 3 elements, expected 64 or 8"},
        Damage{"QuantizedOutliers",
               "/states/0/quantized",
               {{"encoding", "int8"},
                {"dtype", "f32"},
                {"shape", {8, 8}},
                {"block", 64},
                {"outliers", 9},
                {"inputs", 1}},
               "has 9 outliers, expected 0 to 8"},
        Damage{"QuantizedInputs",
               "/states/0/quantized",
               {{"encoding", "int8"},
                {"dtype", "f32"},
                {"shape", {8, 8}},
                {"block", 64},
                {"outliers", 2}},
               "inputs"},
        Damage{"QuantizedInt8Bytes",
               "/states/0/quantized",
               {{"encoding", "int8"},
                {"dtype", "f32"},
                {"shape", {8, 8}},
                {"block", 64},
                {"outliers", 2},
                {"inputs", 1}},
               "expected 108 elements of i8"},
        Damage{"QuantizedType",
               "/states/0/quantized",
               {{"encoding", "nf4"}, {"dtype", "i8"}, {"shape", {8, 8}}},
               "which is not a floating-point type"},
        Damage{"QuantizedShape",
               "/states/0/quantized",
               {{"encoding", "nf4"}, {"dtype", "f32"}, {"shape", {8}}},
               "is not the shape of a matrix"},
        Damage{"QuantizedHuge",
               "/states/0/quantized",
               {{"encoding", "nf4"},
                {"dtype", "f32"},
                {"shape", {INT64_MAX, INT64_MAX}}},
               "is not the shape of a matrix"},
        Damage{"QuantizedBytes",
               "/states/0/quantized",
               {{"encoding", "nf4"}, {"dtype", "f32"}, {"shape", {8, 8}}},
               "expected 44 elements of i8"},
        Damage{"GemmWorkspace", FORWARD "1/workspace", {0}, "[offset, bytes]"},
        Damage{"GemmWorkspaceEnd",
               FORWARD "1/workspace",
               {64, INT64_MAX},
               "beyond the arena"},
        Damage{"GemmWorkspacePlace",
               FORWARD "1/workspace",
               {32, 64},
               "multiple of 64"},
        Damage{"GemmExtent", FORWARD "1/m", 0,
               "'programs.train.segments[1].commands[1].m'"},
        Damage{"GemmBig", FORWARD "1/k", int64_t(1) << 40, "2^31"},
        Damage{"GemmLd", FORWARD "1/a/ld", 3, "expected at least 16"},
        Damage{"GemmLdBig", FORWARD "1/a/ld", int64_t(1) << 40, "2^31"},
        Damage{"GemmTrans", FORWARD "1/c/trans", true, "cannot be transposed"},
        Damage{"GemmOutside", FORWARD "1/c/ref", {120000, 0}, "arena"},
        Damage{"GemmBatch", FORWARD "1/batch", 2, "has batch_stride 0"},
        Damage{"GemmGrid", FORWARD "1/grid", {1, 1000}, "more tiles"},
        Damage{"GemmBeta", FORWARD "1/beta", 0.5, "\"first\""},
        Damage{"FillSize", BEGIN "0/bytes", 1 << 30, "beyond the arena"},
        Damage{"SlotClass", "/programs/train/slots/0/class", "misc", "'misc'"},
        Damage{"SlotEnd", "/programs/train/slots/0/bytes", INT64_MAX,
               "beyond the arena"}),
    [](const testing::TestParamInfo<Damage> &info) { return info.param.name; });

TEST(DamagedProgramTest, FirstBetaNeedsMicrobatches) {
  Json json = toy::describe();
  toy::commandsOf(json["programs"]["evaluate"])[1]["beta"] = "first";
  Result<ProgramFile> file = parseProgramFile(json.dump(), 7);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(
      file.status().message().find("in a segment outside of the micro-batches"),
      std::string::npos);
}

TEST(DamagedProgramTest, TextThatIsNoJson) {
  EXPECT_FALSE(parseProgramFile("{\"format\": 2", 7).ok());
  EXPECT_FALSE(parseProgramFile("[]", 7).ok());
}

/// The reader must not crash for any replacement of any value.
TEST(DamagedProgramTest, AnyReplacedValueIsHandled) {
  Json json = toy::describe();
  Json flat = json.flatten();
  const Json replacements[] = {nullptr,       -1, INT64_MAX, "x", Json::array(),
                               Json::object()};
  for (auto &[path, unused] : flat.items()) {
    // Skip the other programs, because 'train' has the most diverse commands.
    if (path.rfind("/programs/evaluate", 0) == 0 ||
        path.rfind("/programs/generate", 0) == 0)
      continue;
    for (const Json &replacement : replacements) {
      Json damaged = json;
      damaged[Json::json_pointer(path)] = replacement;
      Result<ProgramFile> file = parseProgramFile(damaged.dump(), 7);
      if (!file.ok()) {
        EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
      }
    }
  }
}

} // namespace
