//===- SafeTensorsMalformedTest.cpp - Malformed .safetensors files --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Contains one test per case of S01 to S44, a list of malformed files. (Cases
// that must be accepted are in SafeTensorsTest, and those about sharded models
// are in ModelWeightsTest.) Each case must be rejected with its own message,
// without an allocation larger than a small multiple of the file.
//
//===----------------------------------------------------------------------===//

#include "AllocationCounter.h"
#include "TestFiles.h"
#include "kiln/Support/SafeTensors.h"
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln::support;
using namespace kiln;

namespace {

void expectRejected(std::string_view bytes, std::string_view fragment,
                    SafeTensorsLimits limits = {}) {
  TestDirectory directory;
  std::string path = directory.put("bad.safetensors", bytes);
  resetAllocations();
  Result<SafeTensorsFile> file = SafeTensorsFile::open(path, limits);
  std::size_t largest = allocations().largest;
  ASSERT_FALSE(file.ok()) << "expected: " << fragment;
  expectBadInput(file.status(), fragment);
  EXPECT_NE(file.status().message().find("bad.safetensors"), std::string::npos);
  EXPECT_LE(largest, 4096 + 4 * bytes.size());
}

void expectHeaderRejected(std::string_view header, std::string_view fragment,
                          std::string_view data = "",
                          SafeTensorsLimits limits = {}) {
  expectRejected(safeTensors(header, data), fragment, limits);
}

std::string entry(std::string_view name, std::string_view type,
                  std::string_view shape, std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(type) +
         "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}";
}

/// Expects an error for a file with the single tensor "x".
void expectTensorRejected(std::string_view type, std::string_view shape,
                          std::string_view offsets, std::string_view fragment,
                          std::string_view data = "abcdefgh") {
  expectHeaderRejected("{" + entry("x", type, shape, offsets) + "}", fragment,
                       data);
}

const std::string kValid =
    safeTensors("{" + entry("a", "U8", "[2]", "[0,2]") + "," +
                    entry("b", "F32", "[1]", "[2,6]") + "}",
                "xyabcd");

TEST(SafeTensorsMalformed, S01_Empty) { expectRejected("", "it is empty"); }

TEST(SafeTensorsMalformed, S02_BelowEightBytes) {
  expectRejected("1234567", "it has only 7 bytes");
}

TEST(SafeTensorsMalformed, S03_HeaderLengthZero) {
  expectRejected(littleEndian(0, 8) + "{}", "header length 0 is too small");
}

TEST(SafeTensorsMalformed, S04_HeaderLengthOne) {
  expectRejected(littleEndian(1, 8) + "{}", "header length 1 is too small");
}

TEST(SafeTensorsMalformed, S05_HeaderLengthWraps) {
  expectRejected(littleEndian(UINT64_MAX, 8) + "{}",
                 "header length 18446744073709551615 is above the limit");
}

TEST(SafeTensorsMalformed, S06_HeaderAboveLimit) {
  expectRejected(littleEndian(100'000'001, 8) + "{}",
                 "header length 100000001 is above the limit of 100000000");
}

TEST(SafeTensorsMalformed, S07_HeaderBeyondTheFile) {
  expectRejected(littleEndian(3, 8) + "{}",
                 "header length 3 does not fit into the file");
}

TEST(SafeTensorsMalformed, S08_TruncatedAtEveryByte) {
  TestDirectory directory;
  ASSERT_TRUE(
      SafeTensorsFile::open(directory.put("good.safetensors", kValid)).ok());
  for (std::size_t length = 0; length < kValid.size(); ++length)
    expectRejected(kValid.substr(0, length),
                   length < 8 ? "is not a valid safetensors file"
                   : length < kValid.size() - 6 ? "does not fit into the file"
                                                : "data ends at ");
}

TEST(SafeTensorsMalformed, S09_InvalidUtf8) {
  expectHeaderRejected("{" + entry("\xff", "U8", "[0]", "[0,0]") + "}",
                       "ill-formed UTF-8");
}

TEST(SafeTensorsMalformed, S10_NotJson) {
  expectHeaderRejected("hello", "invalid literal");
  expectHeaderRejected("{\"a\":1,}", "tensor 'a': is a number");
  expectHeaderRejected("{" + entry("a", "U8", "[0]", "[0,0]") + ",}",
                       "unexpected '}'; expected string literal");
  expectHeaderRejected("{\"a\":NaN}", "while parsing value - invalid literal");
  expectHeaderRejected("/* x */{}", "invalid literal; last read: '/'");
  expectHeaderRejected("{'a':1}", "while parsing object key - invalid literal");
}

TEST(SafeTensorsMalformed, S11_TopLevelIsNotAnObject) {
  expectHeaderRejected("[]", "the header is an array, expected an object");
  expectHeaderRejected("\"{}\"", "the header is a string, expected an object");
  expectHeaderRejected("null", "the header is null, expected an object");
  expectHeaderRejected("17", "the header is a number, expected an object");
}

TEST(SafeTensorsMalformed, S12_JunkAfterTheObject) {
  expectHeaderRejected("{}{}", "expected end of input");
  expectHeaderRejected(std::string_view("{}\0x", 4), "zero byte");
}

TEST(SafeTensorsMalformed, S13_DepthBomb) {
  expectHeaderRejected(std::string(100'000, '['), "the header is an array");
  expectHeaderRejected("{\"x\":{\"q\":" + std::string(100'000, '['),
                       "nesting is deeper than 8");
}

TEST(SafeTensorsMalformed, S14_TooManyTensors) {
  std::string header = "{";
  header.reserve(60'000'000);
  for (int i = 0; i <= 1'000'000; ++i) {
    header += i ? ",\"" : "\"";
    header += std::to_string(i) +
              "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  }
  expectHeaderRejected(header + "}", "more than 1000000 tensors");
}

TEST(SafeTensorsMalformed, S15_DuplicateTensor) {
  expectHeaderRejected("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                           entry("b", "U8", "[1]", "[1,2]") + "," +
                           entry("a", "U8", "[1]", "[2,3]") + "}",
                       "tensor 'a': appears twice", "xyz");
}

TEST(SafeTensorsMalformed, S16_DuplicateInnerKey) {
  expectHeaderRejected(
      R"({"x":{"dtype":"U8","shape":[1],"dtype":"I8","data_offsets":[0,1]}})",
      "tensor 'x': duplicate key 'dtype'", "A");
  expectHeaderRejected(R"({"__metadata__":{"k":"1","k":"2"}})",
                       "duplicate key 'k' in '__metadata__'");
  expectHeaderRejected(R"({"__metadata__":{},"__metadata__":{}})",
                       "duplicate key '__metadata__'");
}

TEST(SafeTensorsMalformed, S17_MetadataOfWrongKind) {
  expectHeaderRejected(R"({"__metadata__":[]})",
                       "'__metadata__' is an array, expected an object");
  expectHeaderRejected(R"({"__metadata__":{"k":1}})",
                       "value of 'k' in '__metadata__' is a number");
  expectHeaderRejected(R"({"__metadata__":{"k":{"n":"x"}}})",
                       "value of 'k' in '__metadata__' is an object");
}

TEST(SafeTensorsMalformed, S18_MissingKey) {
  expectHeaderRejected(R"({"x":{"shape":[1],"data_offsets":[0,1]}})",
                       "tensor 'x': has no 'dtype'", "A");
  expectHeaderRejected(R"({"x":{"dtype":"U8","data_offsets":[0,1]}})",
                       "tensor 'x': has no 'shape'", "A");
  expectHeaderRejected(R"({"x":{"dtype":"U8","shape":[1]}})",
                       "tensor 'x': has no 'data_offsets'", "A");
  expectHeaderRejected(R"({"x":[]})", "tensor 'x': is an array");
}

TEST(SafeTensorsMalformed, S19_UnknownKeyWhenStrict) {
  SafeTensorsLimits limits;
  limits.strict = true;
  expectHeaderRejected(
      R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"q":1}})",
      "tensor 'x': unknown key 'q'", "A", limits);
}

TEST(SafeTensorsMalformed, S20_UnknownType) {
  expectTensorRejected("F128", "[1]", "[0,16]", "unknown dtype 'F128'");
  expectTensorRejected("f32", "[2]", "[0,8]", "unknown dtype 'f32'");
  expectTensorRejected("", "[2]", "[0,8]", "unknown dtype ''");
  expectHeaderRejected(R"({"x":{"dtype":7}})", "'dtype' is a number");
}

TEST(SafeTensorsMalformed, S21_DimensionOfWrongKind) {
  auto reject = [](std::string_view dim, std::string_view found) {
    expectTensorRejected("U8", "[" + std::string(dim) + "]", "[0,8]",
                         "a dimension is " + std::string(found));
  };
  reject("-8", "a negative number");
  reject("-0", "a negative number");
  reject("8.0", "a number that is not an integer");
  reject("8e0", "a number that is not an integer");
  reject("1e3", "a number that is not an integer");
  reject("\"8\"", "a string");
  reject("true", "a boolean");
  reject("null", "null");
  reject("[8]", "an array");
  reject("{}", "an object");
  expectTensorRejected("U8", "8", "[0,8]", "'shape' is a number");
  expectTensorRejected("U8", "[8]", "[0,\"8\"]", "a data offset is a string");
  expectTensorRejected("U8", "[8]", "[0,8.0]",
                       "a data offset is a number that");
}

TEST(SafeTensorsMalformed, S22_DimensionBecomesFloat) {
  expectTensorRejected("U8", "[18446744073709551616]", "[0,8]",
                       "not an integer below 2^64");
  expectTensorRejected("U8", "[281474976710656]", "[0,8]", "not below 2^48");
  expectTensorRejected("U8", "[1,1,1,1,1,1,1,1,8]", "[0,8]",
                       "more than 8 dimensions");
}

TEST(SafeTensorsMalformed, S23_ElementsOverflow) {
  expectTensorRejected("U8", "[2,18446744073709551614]", "[0,8]",
                       "dimension 18446744073709551614");
  expectTensorRejected("U8", "[140737488355328,131072]", "[0,8]",
                       "number of elements of shape [140737488355328, 131072]");
  expectTensorRejected("U8", "[140737488355328,131072,0]", "[0,0]",
                       "number of elements of shape", "");
}

TEST(SafeTensorsMalformed, S24_BitsOverflow) {
  expectTensorRejected("F64", "[140737488355328,65535]", "[0,8]",
                       "size of shape [140737488355328, 65535] overflows");
}

TEST(SafeTensorsMalformed, S25_PartialBytes) {
  expectTensorRejected("F4", "[3]", "[0,2]",
                       "3 elements of F4 do not fill whole bytes", "ab");
  expectTensorRejected("F6_E2M3", "[5]", "[0,4]",
                       "5 elements of F6_E2M3 do not fill whole bytes", "abcd");
}

TEST(SafeTensorsMalformed, S26_BeginAfterEnd) {
  expectTensorRejected("U8", "[8]", "[8,0]", "begins at 8, after its end at 0");
}

TEST(SafeTensorsMalformed, S27_EndBeyondData) {
  expectTensorRejected("U8", "[9]", "[0,9]",
                       "data ends at 9, beyond the end of the file");
  expectTensorRejected("U8", "[1]",
                       "[18446744073709551614,18446744073709551615]",
                       "data ends at 18446744073709551615");
}

TEST(SafeTensorsMalformed, S28_SizeDiffersFromShape) {
  expectTensorRejected("U8", "[7]", "[0,8]",
                       "has 8 bytes of data, expected 7 for U8 [7]");
  expectTensorRejected("F32", "[8]", "[0,8]", "expected 32 for F32 [8]");
}

TEST(SafeTensorsMalformed, S29_Hole) {
  expectTensorRejected("U8", "[7]", "[1,8]",
                       "data begins at 1, expected 0, since the bytes between");
  expectHeaderRejected("{" + entry("a", "U8", "[2]", "[0,2]") + "," +
                           entry("b", "U8", "[4]", "[4,8]") + "}",
                       "data begins at 4, expected 2, since the bytes between",
                       "abcdefgh");
}

TEST(SafeTensorsMalformed, S30_Overlap) {
  expectHeaderRejected("{" + entry("a", "U8", "[8]", "[0,8]") + "," +
                           entry("b", "U8", "[8]", "[0,8]") + "}",
                       "tensor 'b': data begins at 0, before", "abcdefgh");
  expectHeaderRejected("{" + entry("a", "U8", "[5]", "[0,5]") + "," +
                           entry("b", "U8", "[4]", "[4,8]") + "}",
                       "data begins at 4, before", "abcdefgh");
  // An empty tensor inside the data of another tensor.
  expectHeaderRejected("{" + entry("a", "U8", "[8]", "[0,8]") + "," +
                           entry("z", "U8", "[0]", "[3,3]") + "}",
                       "tensor 'z': data begins at 3, before", "abcdefgh");
}

TEST(SafeTensorsMalformed, S31_TrailingBytes) {
  expectTensorRejected("U8", "[7]", "[0,7]",
                       "1 bytes after the last tensor belong to no tensor");
  expectHeaderRejected("{}", "3 bytes after the last tensor", "PK\x03");
}

TEST(SafeTensorsMalformed, S32_MissingBytes) {
  expectTensorRejected("U8", "[8]", "[0,8]",
                       "data ends at 8, beyond the end of the file, which has "
                       "7 bytes of data",
                       "abcdefg");
}

TEST(SafeTensorsMalformed, S33_OffsetsLength) {
  expectTensorRejected("U8", "[8]", "[]", "'data_offsets' has 0 numbers");
  expectTensorRejected("U8", "[8]", "[8]", "'data_offsets' has 1 numbers");
  expectTensorRejected("U8", "[8]", "[0,8,8]", "more than two numbers");
  expectTensorRejected("U8", "[8]", "8", "'data_offsets' is a number");
}

TEST(SafeTensorsMalformed, S34_Names) {
  auto reject = [](const std::string &name, std::string_view fragment) {
    expectHeaderRejected("{" + entry(name, "U8", "[0]", "[0,0]") + "}",
                         fragment);
  };
  reject("", "tensor name '' is empty");
  reject(std::string(1 << 20, 'x'), "is too long");
  reject("a\\u0000b", "contains a control character");
  reject("a\\nb", "tensor name 'a\\x0ab' contains a control character");
  reject("../../etc/passwd", "contains a '..' path component");
  reject("a/..", "contains a '..' path component");
  TestDirectory directory;
  EXPECT_TRUE(
      SafeTensorsFile::open(
          directory.put(
              "ok.safetensors",
              safeTensors("{" + entry("a/b..c/d", "U8", "[0]", "[0,0]") + "}")))
          .ok());
}

TEST(SafeTensorsMalformed, S39_EscapedNameCollides) {
  expectHeaderRejected("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                           entry("\\u0061", "U8", "[1]", "[1,2]") + "}",
                       "tensor 'a': appears twice", "xy");
}

TEST(SafeTensorsMalformed, S40_LoneSurrogate) {
  expectHeaderRejected("{" + entry("\\ud800", "U8", "[0]", "[0,0]") + "}",
                       "surrogate");
  expectHeaderRejected(
      "{" + entry("\\udc00\\ud800", "U8", "[0]", "[0,0]") + "}", "surrogate");
}

TEST(SafeTensorsMalformed, S43_FileChangesAfterOpen) {
  TestDirectory directory;
  std::string path = directory.put("x.safetensors", kValid);
  Result<SafeTensorsFile> file = SafeTensorsFile::open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path.c_str(), kValid.size() - 2), 0);
  float value;
  expectBadInput(file->read("b", ElementType::F32, &value, 4),
                 "changed while it was in use");
}

TEST(SafeTensorsMalformed, S44_NotARegularFile) {
  TestDirectory directory;
  expectBadInput(SafeTensorsFile::open(directory.path()).status(),
                 "is a directory, expected a regular file");
  expectBadInput(SafeTensorsFile::open("/dev/zero").status(),
                 "is a device or socket, expected a regular file");
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  expectBadInput(SafeTensorsFile::open(directory / "fifo").status(),
                 "is a pipe, expected a regular file");
}

} // namespace
