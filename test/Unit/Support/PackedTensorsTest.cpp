//===- PackedTensorsTest.cpp - Tests of quantized tensors in files --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/PackedTensors.h"
#include "TestFiles.h"
#include "kiln/Support/ModelWeights.h"
#include <cmath>
#include <cstring>

using namespace kiln::support;
using namespace kiln;

namespace {

constexpr const char *kGood =
    R"({"version":1,"format":"int8","tensors":{"w":[3,43]}})";

/// Writes a file with the matrix "w" and the vector "b". Element i of the
/// matrix is decoded to 0.5 * (i % 127).
void putFile(const std::string &path, const std::string &metadata = kGood,
             std::vector<TensorDeclaration> tensors =
                 {{"w.codes", ElementType::I8, {3, 43}},
                  {"w.scales", ElementType::F32, {3}},
                  {"b", ElementType::F32, {2}}},
             std::vector<float> scales = {0.5f, 0.5f, 0.5f}) {
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(path, tensors, {{packedMetadataKey, metadata}});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  uint64_t left = 0;
  for (const TensorDeclaration &tensor : tensors) {
    int64_t elements = 1;
    for (int64_t dimension : tensor.shape)
      elements *= dimension;
    left += uint64_t(bytesOf(tensor.type, elements));
  }
  std::string data(left, '\0');
  for (int i = 0; i < 129 && i < int(left); ++i)
    data[size_t(i)] = char(i % 127);
  if (left >= 129 + 4 * scales.size())
    std::memcpy(&data[129], scales.data(), 4 * scales.size());
  expectOk(writer->write(data.data(), data.size()));
  expectOk(writer->finish());
}

void expectRefused(const std::string &metadata, std::string_view fragment,
                   std::vector<TensorDeclaration> tensors = {
                       {"w.codes", ElementType::I8, {3, 43}},
                       {"w.scales", ElementType::F32, {3}}}) {
  TestDirectory directory;
  putFile(directory / packedFileName, metadata, std::move(tensors));
  expectBadInput(ModelWeights::open(directory.path()).status(), fragment);
}

TEST(PackedTensors, ReadsDecodedElements) {
  TestDirectory directory;
  putFile(directory / packedFileName);
  Result<ModelWeights> weights = ModelWeights::open(directory.path());
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(weights->names(), (std::vector<std::string>{"b", "w"}));
  ASSERT_TRUE(weights->packedFormat());
  EXPECT_EQ(weights->packedFormat()->name(), "int8");
  const TensorInfo *w = weights->find("w");
  ASSERT_TRUE(w);
  EXPECT_EQ(w->type, ElementType::F32);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{3, 43}));
  EXPECT_EQ(w->elements, 129);
  EXPECT_FALSE(weights->find("w.codes"));
  std::vector<float> values(129);
  expectOk(weights->read("w", ElementType::F32, values.data(), 4 * 129));
  for (int i = 0; i < 129; ++i)
    EXPECT_EQ(values[size_t(i)], 0.5f * float(i % 127)) << i;
  expectBadInput(weights->read("w", ElementType::F32, values.data(), 4 * 128),
                 "tensor 'w' has shape [3, 43], expected a shape that "
                 "takes 512 bytes");
  expectBadInput(weights->read("w", ElementType::I8, values.data(), 129),
                 "tensor 'w' is quantized and cannot be converted to I8");
  auto found = weights->match({{"w", {}, {3, 43}}, {"b", {}, {2}}});
  EXPECT_TRUE(found.ok());
  // Any range can be read in any type.
  for (auto [first, count] : {std::pair(0, 0), std::pair(5, 1),
                              std::pair(60, 10), std::pair(127, 2)}) {
    std::vector<double> part(size_t(count) + 1, -1);
    expectOk(weights->readElements("w", first, count, ElementType::F64,
                                   part.data()));
    for (int i = 0; i < count; ++i)
      EXPECT_EQ(part[size_t(i)], 0.5 * ((first + i) % 127));
    EXPECT_EQ(part.back(), -1);
  }
}

TEST(PackedTensors, RangesOfAllFormats) {
  // There are more elements than are decoded at once, and the last block is
  // short.
  constexpr int64_t elements = 3 * 64 * 128 + 21;
  std::vector<float> values(elements);
  for (int64_t i = 0; i < elements; ++i)
    values[size_t(i)] = std::sin(float(i)) * float(1 + i % 7);
  for (const char *name :
       {"int8", "int4", "kashin:2", "kashin:3", "kashin:4"}) {
    PackedFormat format = *PackedFormat::named(name);
    std::vector<uint8_t> codes(size_t(format.codeBytes(elements)));
    std::vector<float> scales(
        size_t(format.blocks(elements) * format.scalesPerBlock()));
    format.encode(values.data(), elements, codes.data(), scales.data());
    std::vector<float> decoded(elements);
    format.decode(codes.data(), scales.data(), elements, decoded.data());

    TestDirectory directory;
    Result<SafeTensorsWriter> writer = SafeTensorsWriter::create(
        directory / packedFileName, packedParts(format, "w", {elements}),
        {{packedMetadataKey,
          packedMetadata(format, {{"w", ElementType::F32, {elements}}})}});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    expectOk(writer->write(codes.data(), codes.size()));
    expectOk(writer->write(scales.data(), 4 * scales.size()));
    expectOk(writer->finish());
    Result<ModelWeights> weights = ModelWeights::open(directory.path());
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    std::vector<float> all(elements);
    expectOk(weights->read("w", ElementType::F32, all.data(), 4 * elements));
    EXPECT_EQ(all, decoded) << name;
    for (int64_t first : {0, 1, 127, 4095, 8000})
      for (int64_t count : {1, 65, 8192, 9000}) {
        std::vector<float> part(static_cast<size_t>(count));
        expectOk(weights->readElements("w", first, count, ElementType::F32,
                                       part.data()));
        EXPECT_TRUE(
            std::equal(part.begin(), part.end(), decoded.begin() + first))
            << name << " " << first << " " << count;
      }
  }
}

TEST(PackedTensors, Metadata) {
  expectRefused("{", "metadata 'kiln.packed'");
  expectRefused("[]", "metadata 'kiln.packed' is not a JSON object");
  expectRefused(R"({"format":"int8","tensors":{}})",
                "is not of version 1, the only one that this kiln reads; "
                "write the file again with kilnc --quantize");
  expectRefused(R"({"version":2,"format":"int8","tensors":{}})",
                "is not of version 1");
  expectRefused(R"({"version":1,"format":"int3","tensors":{}})",
                "has the unknown format 'int3', expected int8, int4, "
                "kashin:2, kashin:3 or kashin:4");
  expectRefused(R"({"version":1,"format":8,"tensors":{}})",
                "has the unknown format ''");
  expectRefused(R"({"version":1,"format":"int8"})", "has no object 'tensors'");
  expectRefused(R"({"version":1,"format":"int8","tensors":["w"]})",
                "has no object 'tensors'");
}

TEST(PackedTensors, Shapes) {
  for (const char *shape :
       {"[]", "[0]", "[3,-43]", "[3.0,43]", "3", "null", "[\"3\"]", "[[3]]",
        "[9223372036854775807,2]", "[9223372036854775807]",
        "[18446744073709551615]", "[1,1,1,1,1,1,1,1,129]"})
    expectRefused(
        std::string(R"({"version":1,"format":"int8","tensors":{"w":)") + shape +
            "}}",
        "shape of tensor 'w' is invalid, expected an array of "
        "positive integers");
}

TEST(PackedTensors, Parts) {
  expectRefused(kGood,
                "tensor 'w.scales' is missing, expected F32 [3] for a matrix "
                "of shape [3, 43] in int8",
                {{"w.codes", ElementType::I8, {3, 43}}});
  expectRefused(kGood, "tensor 'w.codes' is missing, expected I8 [3, 43]",
                {{"w.scales", ElementType::F32, {3}}});
  expectRefused(kGood,
                "tensor 'w.scales' is F32 [2], expected F32 [3] for a matrix "
                "of shape [3, 43] in int8",
                {{"w.codes", ElementType::I8, {3, 43}},
                 {"w.scales", ElementType::F32, {2}}});
  expectRefused(kGood, "tensor 'w.scales' is F16 [3], expected F32 [3]",
                {{"w.codes", ElementType::I8, {3, 43}},
                 {"w.scales", ElementType::F16, {3}}});
  expectRefused(kGood, "tensor 'w.codes' is U8 [3, 43], expected I8 [3, 43]",
                {{"w.codes", ElementType::U8, {3, 43}},
                 {"w.scales", ElementType::F32, {3}}});
  expectRefused(
      kGood,
      "tensor 'w' is stored both unquantized and quantized, expected only one",
      {{"w.codes", ElementType::I8, {3, 43}},
       {"w.scales", ElementType::F32, {3}},
       {"w", ElementType::F32, {3, 43}}});
}

TEST(PackedTensors, Scales) {
  for (auto [scale, text] :
       {std::pair(INFINITY, "is inf"), std::pair(-INFINITY, "is -inf"),
        std::pair(NAN, "is nan"), std::pair(-1.f, "is -1.000000")}) {
    TestDirectory directory;
    putFile(directory / packedFileName, kGood,
            {{"w.codes", ElementType::I8, {3, 43}},
             {"w.scales", ElementType::F32, {3}}},
            {0.5f, 0.5f, scale});
    Result<ModelWeights> weights = ModelWeights::open(directory.path());
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    std::vector<float> values(129);
    expectBadInput(weights->read("w", ElementType::F32, values.data(), 4 * 129),
                   std::string("scale 2 in tensor 'w.scales' ") + text +
                       ", expected a finite number of at least 0");
    // Scales of other blocks are not read.
    expectOk(
        weights->readElements("w", 0, 128, ElementType::F32, values.data()));
  }
}

TEST(PackedTensors, NoShards) {
  TestDirectory directory;
  putFile(directory / "one.safetensors");
  directory.put("model.safetensors.index.json",
                R"({"weight_map":{"w.codes":"one.safetensors",
                    "w.scales":"one.safetensors","b":"one.safetensors"}})");
  expectBadInput(ModelWeights::open(directory.path()).status(),
                 "lists shards with quantized tensors, expected a single "
                 "packed.safetensors");
}

TEST(PackedTensors, ChangedBytes) {
  // Whatever byte of the header is changed, the file must either be read or be
  // rejected with an error message.
  TestDirectory directory;
  putFile(directory / packedFileName);
  const std::string good = readBytes(directory / packedFileName);
  const size_t header = good.size() - 129 - 3 * 4 - 2 * 4;
  int rejected = 0, accepted = 0;
  for (size_t at = 8; at < header; ++at)
    for (char byte : {'\0', '"', '0', '9', '-', '[', '}', 'x', '\x80'}) {
      std::string changed = good;
      changed[at] = byte;
      directory.put(packedFileName, changed);
      Result<ModelWeights> weights = ModelWeights::open(directory.path());
      Status status = weights.status();
      if (weights.ok())
        for (const std::string &name : weights->names()) {
          std::vector<float> values(size_t(weights->find(name)->elements));
          if (status.ok())
            status = weights->read(name, ElementType::F32, values.data(),
                                   4 * values.size());
        }
      if (!status.ok())
        expectBadInput(status, "packed.safetensors");
      ++(status.ok() ? accepted : rejected);
    }
  EXPECT_GT(rejected, 1000);
  // Changes of names and of the padding after the header are accepted.
  EXPECT_GT(accepted, 100);
}

TEST(PackedTensors, OrdinaryFiles) {
  TestDirectory directory;
  directory.put("model.safetensors",
                safeTensors(R"({"w.codes":{"dtype":"U8","shape":[1],
                                "data_offsets":[0,1]}})",
                            "A"));
  Result<ModelWeights> weights = ModelWeights::open(directory.path());
  ASSERT_TRUE(weights.ok());
  EXPECT_FALSE(weights->packedFormat());
  EXPECT_TRUE(weights->find("w.codes"));
}

} // namespace
