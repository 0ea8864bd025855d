//===- SafeTensorsTest.cpp - Tests of the safetensors reader and writer ---===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the reader accepts the writer's files and valid files of other
// writers, and that types are converted on load.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/SafeTensors.h"
#include "FaultInjection.h"
#include "TestFiles.h"
#include "kiln/Support/ElementConversion.h"
#include <cerrno>
#include <cstring>
#include <numeric>

using namespace kiln::support;
using namespace kiln;

namespace {

Result<SafeTensorsFile> open(const TestDirectory &directory,
                             std::string_view bytes) {
  return SafeTensorsFile::open(directory.put("t.safetensors", bytes));
}

void expectAccepted(std::string_view header, std::string_view data = "") {
  TestDirectory directory;
  Result<SafeTensorsFile> file = open(directory, safeTensors(header, data));
  EXPECT_TRUE(file.ok()) << file.status().message();
}

TEST(SafeTensors, RoundTrip) {
  TestDirectory directory;
  std::string path = directory / "t.safetensors";
  std::vector<float> a(6);
  std::iota(a.begin(), a.end(), 0.5f);
  std::vector<double> b = {1.25};
  {
    Result<SafeTensorsWriter> writer =
        SafeTensorsWriter::create(path,
                                  {{"a \"quoted\"", ElementType::F32, {2, 3}},
                                   {"empty", ElementType::I8, {0, 4}},
                                   {"b", ElementType::F64, {}}},
                                  {{"step", "7\n"}});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    // Write pieces of 1, 29 and 2 bytes, which do not begin and end where the
    // tensors do.
    std::string all(reinterpret_cast<char *>(a.data()), 24);
    all.append(reinterpret_cast<char *>(b.data()), 8);
    expectOk(writer->write(all.data(), 1));
    expectOk(writer->write(all.data() + 1, 29));
    expectOk(writer->write(all.data() + 30, 2));
    EXPECT_FALSE(std::filesystem::exists(path));
    expectOk(writer->finish());
    EXPECT_EQ(writer->fileBytes(), std::filesystem::file_size(path));
  }
  Result<SafeTensorsFile> file = SafeTensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->metadata().at("step"), "7\n");
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->find("a \"quoted\"")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->find("none"), nullptr);
  std::vector<float> readA(6);
  expectOk(file->read("a \"quoted\"", ElementType::F32, readA.data(), 24));
  EXPECT_EQ(readA, a);
  float readB;
  expectOk(file->read("b", ElementType::F32, &readB, 4));
  EXPECT_EQ(readB, 1.25f);
  expectOk(file->read("empty", ElementType::I8, nullptr, 0));

  std::string bytes = readBytes(path);
  uint64_t headerBytes;
  std::memcpy(&headerBytes, bytes.data(), 8);
  EXPECT_EQ((8 + headerBytes) % 64, 0u);
  EXPECT_EQ(bytes[8], '{');
}

TEST(SafeTensors, MovedFileStillFinds) {
  TestDirectory directory;
  Result<SafeTensorsFile> file = open(
      directory,
      safeTensors(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                  "A"));
  ASSERT_TRUE(file.ok());
  SafeTensorsFile moved = std::move(*file);
  ASSERT_NE(moved.find("x"), nullptr);
  uint8_t value;
  expectOk(moved.read("x", ElementType::U8, &value, 1));
  EXPECT_EQ(value, 'A');
}

TEST(SafeTensors, ConvertsLongTensorsInChunks) {
  TestDirectory directory;
  constexpr int64_t count = 100'001;
  std::vector<uint16_t> stored(count);
  for (int64_t i = 0; i < count; ++i)
    stored[i] = doubleToBfloat(i % 256 - 128);
  std::string path = directory / "t.safetensors";
  Result<SafeTensorsWriter> writer = SafeTensorsWriter::create(
      path, {{"pad", ElementType::U8, {3}}, {"x", ElementType::BF16, {count}}});
  expectOk(writer->write("abc", 3));
  expectOk(writer->write(stored.data(), 2 * count));
  expectOk(writer->finish());
  Result<SafeTensorsFile> file = SafeTensorsFile::open(path);
  ASSERT_TRUE(file.ok());
  std::vector<float> values(count);
  expectOk(file->read("x", ElementType::F32, values.data(), 4 * count));
  for (int64_t i = 0; i < count; ++i)
    ASSERT_EQ(values[i], float(i % 256 - 128));
  std::vector<double> part(10);
  expectOk(file->readElements(*file->find("x"), 50'000, 10, ElementType::F64,
                              part.data()));
  EXPECT_EQ(part[3], double(50'003 % 256 - 128));
}

TEST(SafeTensors, ReadRefusesWrongUses) {
  TestDirectory directory;
  Result<SafeTensorsFile> file =
      open(directory,
           safeTensors(
               R"({"x":{"dtype":"F8_E8M0","shape":[4],"data_offsets":[0,4]}})",
               "abcd"));
  ASSERT_TRUE(file.ok());
  float values[4];
  expectBadInput(file->read("y", ElementType::F32, values, 16),
                 "no tensor 'y'");
  expectBadInput(file->read("x", ElementType::F32, values, 12),
                 "has shape [4], expected a shape that takes 12 bytes with the "
                 "type F32");
  expectBadInput(file->read("x", ElementType::F32, values, 16),
                 "dtype F8_E8M0, which cannot be converted to F32");
  expectOk(file->read("x", ElementType::F8_E8M0, values, 4));
}

TEST(SafeTensors, S35_ZeroSizeTensorsShareAnOffset) {
  const char *zero = R"("shape":[0,3],"data_offsets":[2,2]})";
  const char *a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const char *d = R"("d":{"dtype":"U8","shape":[1],"data_offsets":[2,3]})";
  std::string b = R"("b":{"dtype":"F32",)" + std::string(zero);
  std::string c = R"("c":{"dtype":"I64",)" + std::string(zero);
  for (std::vector<std::string> order :
       {std::vector<std::string>{a, b, c, d}, {d, c, b, a}, {c, a, d, b}})
    expectAccepted("{" + order[0] + "," + order[1] + "," + order[2] + "," +
                       order[3] + "}",
                   "xyz");
}

TEST(SafeTensors, S36_Rank0) {
  expectAccepted(R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                 "abcd");
}

TEST(SafeTensors, S37_NoTensors) {
  expectAccepted("{}");
  expectAccepted(R"({"__metadata__":{}})");
}

TEST(SafeTensors, S38_WhitespaceAroundTheHeader) {
  expectAccepted(" \n\t {}   \n");
}

TEST(SafeTensors, S19_UnknownKeyIsAWarning) {
  TestDirectory directory;
  Result<SafeTensorsFile> file = open(
      directory,
      safeTensors(R"({"x":{"dtype":"U8","q":{"shape":[{}, 1.5]},"shape":[1],)"
                  R"("data_offsets":[0,1],"n":null}})",
                  "A"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->warnings().size(), 2u);
  EXPECT_EQ(file->warnings()[0], "tensor 'x': unknown key 'q' is ignored");
}

TEST(SafeTensorsWriter, RefusesWrongUses) {
  TestDirectory directory;
  std::string path = directory / "t.safetensors";
  auto refused = [&](std::vector<TensorDeclaration> tensors,
                     std::string_view fragment) {
    Result<SafeTensorsWriter> writer =
        SafeTensorsWriter::create(path, std::move(tensors));
    ASSERT_FALSE(writer.ok());
    EXPECT_NE(writer.status().message().find(fragment), std::string::npos)
        << writer.status().message();
  };
  refused({{"a", ElementType::F32, {1}}, {"a", ElementType::F32, {1}}},
          "appears twice");
  refused({{"a\xff", ElementType::F32, {1}}}, "not valid UTF-8");
  refused({{"a", ElementType::F32, {-1}}}, "overflows");
  refused({{"a", ElementType::F4, {3}}}, "do not fill whole bytes");
  {
    Result<SafeTensorsWriter> writer =
        SafeTensorsWriter::create(path, {{"a", ElementType::U8, {2}}});
    expectOk(writer->write("x", 1));
    EXPECT_FALSE(writer->finish().ok());
    EXPECT_FALSE(writer->write("yz", 2).ok());
  }
  EXPECT_TRUE(directory.names().empty());
}

TEST(SafeTensorsWriter, KnowsItsSizeBeforehand) {
  TestDirectory directory;
  std::vector<TensorDeclaration> tensors = {{"a", ElementType::F64, {33}}};
  std::vector<double> data(33);
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(directory / "t", tensors);
  expectOk(writer->write(data.data(), 33 * 8));
  expectOk(writer->finish());
  Result<uint64_t> size = safeTensorsFileBytes(tensors);
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(*size, std::filesystem::file_size(directory / "t"));
}

TEST(SafeTensorsWriter, EveryFaultLeavesNothing) {
  bool fired = true;
  for (int call = 1; fired; ++call) {
    TestDirectory directory;
    Status status;
    {
      Fault fault(call, ENOSPC);
      Result<SafeTensorsWriter> writer = SafeTensorsWriter::create(
          directory / "t", {{"a", ElementType::U8, {4}}});
      status = writer.ok() ? writer->write("abcd", 4) : writer.status();
      if (status.ok())
        status = writer->finish();
      fired = fault.fired();
    }
    EXPECT_EQ(status.ok(), !fired) << call;
    // If the sync of the directory fails, the complete file remains. After any
    // other failure, there is no file.
    bool whole = std::filesystem::exists(directory / "t") &&
                 SafeTensorsFile::open(directory / "t").ok();
    EXPECT_EQ(directory.names().size(), whole ? 1u : 0u) << call;
  }
}

} // namespace
