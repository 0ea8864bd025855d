//===- ModelWeightsTest.cpp - Tests of weights in one or more files -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Includes two of the cases S01 to S44 of malformed files: S41 and S42. The
// other cases are in SafeTensorsMalformedTest.cpp and SafeTensorsTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/ModelWeights.h"
#include "TestFiles.h"

using namespace kiln::support;
using namespace kiln;

namespace {

std::string bytesTensor(std::string_view name, char value) {
  return safeTensors(
      "{\"" + std::string(name) +
          R"(":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
      std::string(2, value));
}

constexpr const char *kIndex = "model.safetensors.index.json";

/// Writes a model with two shards: tensor "a" in one file and "b" in the other.
void putShards(const TestDirectory &directory,
               std::string_view index =
                   R"({"metadata":{"total_size":4},
                 "weight_map":{"a":"one.safetensors","b":"two.safetensors"}})") {
  directory.put("one.safetensors", bytesTensor("a", 'A'));
  directory.put("two.safetensors", bytesTensor("b", 'B'));
  directory.put(kIndex, index);
}

void expectRejected(std::string_view index, std::string_view fragment) {
  TestDirectory directory;
  putShards(directory, index);
  expectBadInput(ModelWeights::open(directory.path()).status(), fragment);
}

TEST(ModelWeights, OneFile) {
  TestDirectory directory;
  directory.put("model.safetensors", bytesTensor("a", 'A'));
  for (std::string path : {directory.path(), directory / "model.safetensors"}) {
    Result<ModelWeights> weights = ModelWeights::open(path);
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    EXPECT_EQ(weights->size(), 1u);
    float values[2];
    expectOk(weights->read("a", ElementType::F32, values, 8));
    EXPECT_EQ(values[1], 65.0f);
    expectBadInput(weights->read("b", ElementType::F32, values, 8),
                   "has no tensor 'b'");
  }
}

TEST(ModelWeights, Shards) {
  TestDirectory directory;
  putShards(directory);
  for (std::string path : {directory.path(), directory / kIndex}) {
    Result<ModelWeights> opened = ModelWeights::open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ModelWeights weights = std::move(*opened);
    EXPECT_EQ(weights.size(), 2u);
    EXPECT_TRUE(weights.warnings().empty());
    uint8_t values[2];
    expectOk(weights.read("b", ElementType::U8, values, 2));
    EXPECT_EQ(values[0], 'B');
    EXPECT_EQ(weights.find("a")->elements, 2);
    EXPECT_EQ(weights.find("c"), nullptr);
  }
}

TEST(ModelWeights, NothingThere) {
  TestDirectory directory;
  expectBadInput(ModelWeights::open(directory.path()).status(),
                 "has neither model.safetensors nor");
  expectBadInput(ModelWeights::open(directory / "none").status(), "No such");
}

TEST(ModelWeights, S41_ModelExpectsOtherTensors) {
  TestDirectory directory;
  putShards(directory);
  Result<ModelWeights> weights = ModelWeights::open(directory.path());
  ASSERT_TRUE(weights.ok());
  auto found = weights->match({{"x.b", {"y.b", "b"}, {2}}});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)[0]->name, "b");
  auto copied = weights->match({{"x.b", {"y.b"}, {2}, {"z.b", "b"}}});
  ASSERT_TRUE(copied.ok()) << copied.status().message();
  EXPECT_EQ((*copied)[0]->name, "b");
  expectBadInput(weights->match({{"a", {}, {2}}, {"c", {"d"}, {3}}}).status(),
                 "has no tensor 'c' of shape [3], which the model needs");
  expectBadInput(weights->match({{"a", {}, {1, 2}}}).status(),
                 "/one.safetensors': tensor 'a' has shape [2], the model "
                 "expects [1, 2]");
  directory.put(
      "f4.safetensors",
      safeTensors(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})",
                  "A"));
  Result<ModelWeights> narrow =
      ModelWeights::open(directory / "f4.safetensors");
  ASSERT_TRUE(narrow.ok());
  expectBadInput(narrow->match({{"a", {}, {2}}}).status(),
                 "dtype F4, which does not convert to F32");
}

TEST(ModelWeights, S42_ShardIndex) {
  expectRejected("[]", "the index is not a JSON object");
  expectRejected("{}", "has no object 'weight_map'");
  expectRejected(R"({"weight_map":[]})", "has no object 'weight_map'");
  expectRejected(R"({"weight_map":{"a":1}})",
                 "the shard of tensor 'a' is not a");
  expectRejected(R"({"weight_map":{"a":"none.safetensors"}})", "No such file");
  expectRejected(R"({"weight_map":{"a":"/etc/passwd"}})",
                 "shard '/etc/passwd' of tensor 'a' is invalid: expected the "
                 "name of a file");
  expectRejected(R"({"weight_map":{"a":"../one.safetensors"}})",
                 "shard '../one.safetensors' of tensor 'a'");
  expectRejected(R"({"weight_map":{"a":".."}})", "shard '..' of tensor 'a'");
  // A tensor is in the wrong shard, is missing from its shard, or is in a shard
  // but not in the index.
  expectRejected(
      R"({"weight_map":{"b":"one.safetensors","a":"two.safetensors"}})",
      "tensor 'a' should be in shard 'two.safetensors' but is in "
      "'one.safetensors'");
  expectRejected(
      R"({"weight_map":{"a":"one.safetensors","c":"one.safetensors"}})",
      "tensor 'c' is not in its shard 'one.safetensors'");
  expectRejected(R"({"weight_map":{"a":"one.safetensors","a":"x"}})",
                 "duplicate key 'a'");
}

TEST(ModelWeights, S42_TensorInTwoShards) {
  TestDirectory directory;
  putShards(directory);
  directory.put("two.safetensors", bytesTensor("a", 'B'));
  expectBadInput(ModelWeights::open(directory.path()).status(),
                 "tensor 'a' is in two shards");
}

TEST(ModelWeights, S42_TensorNotInTheIndex) {
  TestDirectory directory;
  putShards(directory);
  directory.put(
      "two.safetensors",
      safeTensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                  "BC"));
  expectBadInput(ModelWeights::open(directory.path()).status(),
                 "tensor 'c' is not listed in ");
}

TEST(ModelWeights, S42_WrongTotalIsAWarning) {
  TestDirectory directory;
  putShards(directory, R"({"metadata":{"total_size":5},"weight_map":
                          {"a":"one.safetensors","b":"two.safetensors"}})");
  Result<ModelWeights> weights = ModelWeights::open(directory.path());
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  ASSERT_EQ(weights->warnings().size(), 1u);
  EXPECT_NE(weights->warnings()[0].find("total_size is 5"), std::string::npos);
}

TEST(ModelWeights, S42_ShardIsALink) {
  TestDirectory directory, elsewhere;
  putShards(directory);
  std::filesystem::remove(directory / "two.safetensors");
  std::filesystem::create_symlink(
      elsewhere.put("two.safetensors", bytesTensor("b", 'B')),
      directory / "two.safetensors");
  expectBadInput(ModelWeights::open(directory.path()).status(),
                 "is a symbolic link, which is not followed");
}

} // namespace
