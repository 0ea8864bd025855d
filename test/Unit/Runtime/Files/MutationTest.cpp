//===- MutationTest.cpp - Mutated files -----------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes thousands of damaged copies of a valid input to every parser. The
// copies have flipped bits, overwritten bytes, or removed or duplicated ranges.
// The parser must return a value or a one-line printable error. The damage is
// deterministic, so that failures are reproducible. The test is also useful
// with AddressSanitizer (-DKILN_SANITIZE=ON). The tested functions accept a
// string of bytes, like libFuzzer targets.
//
//===----------------------------------------------------------------------===//

#include "TestFiles.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Runtime/Files/EventLog.h"
#include "kiln/Runtime/Files/InitialValues.h"
#include "kiln/Runtime/Files/TokenFile.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/ModelWeights.h"
#include "kiln/Support/Rng.h"

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

class Mutator {
public:
  explicit Mutator(std::string seed) : seed_(std::move(seed)) {}

  std::string next() {
    std::string text = seed_;
    for (uint64_t count = 1 + random(3); count > 0 && !text.empty(); --count)
      mutate(text);
    return text;
  }

private:
  uint64_t random(uint64_t below) { return splitmix64(state_++) % below; }

  void mutate(std::string &text) {
    std::size_t at = random(text.size());
    std::size_t length =
        1 + random(std::min<std::size_t>(text.size() - at, 16));
    // These bytes have a meaning in the tested formats.
    constexpr std::string_view hot = "{}[]\":,-0129.eE\\u\xff\x80 ";
    switch (random(7)) {
    case 0:
      text[at] ^= 1 << random(8);
      break;
    case 1:
      text[at] = char(random(256));
      break;
    case 2:
      text[at] = hot[random(hot.size())];
      break;
    case 3:
      text.resize(at);
      break;
    case 4:
      text.erase(at, length);
      break;
    case 5:
      text.insert(at, text.substr(at, length));
      break;
    case 6:
      text.insert(at, 1 + random(20), '9');
      break;
    }
  }

  std::string seed_;
  uint64_t state_ = 0;
};

/// Passes `rounds` mutations of `seed` to `parse`, which returns a Status.
template <typename Parse>
void sweep(const std::string &seed, int rounds, Parse parse) {
  expectOk(parse(seed));
  Mutator mutator(seed);
  int accepted = 0;
  for (int i = 0; i < rounds; ++i) {
    std::string text = mutator.next();
    Status status = parse(text);
    accepted += status.ok();
    if (status.ok())
      continue;
    ASSERT_LT(status.message().size(), 2000u);
    for (unsigned char c : status.message())
      ASSERT_TRUE(c >= 0x20 && c < 0x7f) << status.message();
  }
  EXPECT_LT(accepted, rounds * 9 / 10);
}

constexpr int kRounds = 20'000;

TEST(Mutation, Json) {
  sweep(R"({"a": [1, -2.5e3, true, null], "b": {"c": "x\u00e9\n"}, "d": []})",
        kRounds,
        [](const std::string &text) { return parseJson(text, "m").status(); });
}

TEST(Mutation, SafeTensorsHeader) {
  sweep(R"({"__metadata__":{"format":"pt"},)"
        R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
        R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},)"
        R"("c":{"dtype":"I64","shape":[0,7],"data_offsets":[26,26]}})",
        kRounds, [](const std::string &text) {
          Result<SafeTensorsHeader> header =
              parseSafeTensorsHeader(text, 26, "m");
          // Accepted tensors must cover the data without gaps or overlaps.
          uint64_t position = 0;
          if (header.ok())
            for (const TensorInfo &tensor : header->tensors) {
              EXPECT_EQ(tensor.begin, position);
              position = tensor.end;
            }
          EXPECT_TRUE(!header.ok() || position == 26);
          return header.status();
        });
}

TEST(Mutation, SafeTensorsFile) {
  TestDirectory directory;
  std::string seed = safeTensors(
      R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})", "abcdefgh");
  sweep(seed, 2000, [&](const std::string &text) {
    Result<SafeTensorsFile> file =
        SafeTensorsFile::open(directory.put("m.safetensors", text));
    if (!file.ok())
      return file.status();
    for (const TensorInfo &tensor : file->tensors()) {
      std::vector<double> values(tensor.elements);
      (void)file
          ->read(tensor.name, ElementType::F64, values.data(),
                 8 * values.size())
          .ok();
    }
    return Status();
  });
}

TEST(Mutation, ShardIndex) {
  sweep(R"({"metadata":{"total_size":4},"weight_map":{"a":"one","b":"two"}})",
        kRounds, [](const std::string &text) {
          return parseShardIndex(text, "m").status();
        });
}

TEST(Mutation, TokenLayout) {
  std::string seed =
      littleEndian(20240520, 4) + littleEndian(1, 4) + littleEndian(100, 4);
  seed.resize(1024);
  Mutator mutator(seed.substr(0, 16));
  for (int i = 0; i < kRounds; ++i) {
    std::string head = mutator.next();
    for (std::size_t size : {head.size(), std::size_t{1024}}) {
      head.resize(size);
      uint64_t fileBytes = i % 2 ? 1224 : head.size();
      Result<TokenLayout> layout = parseTokenLayout(head, fileBytes, "m.bin");
      if (layout.ok())
        ASSERT_EQ(layout->dataStart +
                      uint64_t(layout->tokens) * layout->bytesPerToken,
                  fileBytes);
    }
  }
}

TEST(Mutation, TokenFile) {
  TestDirectory directory;
  std::string seed =
      littleEndian(20240520, 4) + littleEndian(1, 4) + littleEndian(40, 4);
  seed.resize(1024);
  for (int i = 0; i < 40; ++i)
    seed += littleEndian(i, 2);
  sweep(seed, 2000, [&](const std::string &text) {
    Result<TokenFile> file = TokenFile::open(directory.put("m.bin", text), 100);
    if (!file.ok())
      return file.status();
    int32_t tokens[16], targets[16];
    for (int64_t i = 0; i < 3; ++i) {
      if (Status status = file->readSequence(i, 16, tokens, targets);
          !status.ok())
        return status;
      for (int32_t token : targets)
        EXPECT_LT(uint32_t(token), 100u);
    }
    return Status();
  });
}

TEST(Mutation, Manifest) {
  TestDirectory temporary;
  Result<CheckpointDir> directory = CheckpointDir::open(temporary.path());
  std::vector<std::string> notes;
  expectOk(directory->save(
      1, [](CheckpointStage &stage) { return stage.addText("a", "x"); },
      {{"k", 1}}, 0, notes));
  sweep(readBytes(temporary / "checkpoint-1/kiln_manifest.json"), kRounds,
        [](const std::string &text) {
          return parseManifest(text, "m").status();
        });
}

TEST(Mutation, LogLine) {
  Mutator mutator(R"({"event":"eval","step":12,"loss":2.5,"steps":3})");
  for (int i = 0; i < kRounds; ++i)
    (void)stepOfLine(mutator.next());
}

TEST(Mutation, InitialValue) {
  sweep(R"({"kind":"rope_cos","inv_freq":[1.0,0.1],"scale":1.0})", kRounds,
        [](const std::string &text) {
          Result<nlohmann::json> json = parseJson(text, "m");
          if (!json.ok())
            return json.status();
          return parseInitialValue(*json, "m").status();
        });
}

} // namespace
