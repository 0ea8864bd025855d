//===- TokenFileTest.cpp - Tests of token files ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests of layouts, of the order of sequences, of shuffling, and of invalid
// files.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/TokenFile.h"
#include "AllocationCounter.h"
#include "TestFiles.h"
#include <set>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

std::string rawTokens(const std::vector<uint32_t> &tokens, int width = 2) {
  std::string bytes;
  for (uint32_t token : tokens)
    bytes += littleEndian(token, width);
  return bytes;
}

std::string llmcFile(uint32_t magic, uint32_t version, int64_t count,
                     std::string_view tokens) {
  std::string header = littleEndian(magic, 4) + littleEndian(version, 4) +
                       littleEndian(uint32_t(count), 4);
  header.resize(1024);
  return header + std::string(tokens);
}

std::vector<uint32_t> counting(uint32_t count) {
  std::vector<uint32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i)
    tokens[i] = i;
  return tokens;
}

std::vector<int32_t> readTokens(TokenFile &file, int64_t index,
                                int64_t length) {
  std::vector<int32_t> tokens(length), targets(length);
  expectOk(file.readSequence(index, length, tokens.data(), targets.data()));
  for (int64_t i = 0; i + 1 < length; ++i)
    EXPECT_EQ(tokens[i + 1], targets[i]);
  tokens.push_back(targets[length - 1]);
  return tokens;
}

void expectRejected(std::string_view name, std::string_view bytes,
                    std::string_view fragment, int64_t vocabulary = 50257) {
  TestDirectory directory;
  expectBadInput(
      TokenFile::open(directory.put(name, bytes), vocabulary).status(),
      fragment);
}

TEST(TokenFile, EveryLayoutReadsTheSame) {
  TestDirectory directory;
  std::string text;
  for (int i = 0; i < 22; ++i)
    text += char(i);
  std::vector<std::string> paths = {
      directory.put("raw.bin", rawTokens(counting(22))),
      directory.put("gpt2.bin",
                    llmcFile(20240520, 1, 22, rawTokens(counting(22)))),
      directory.put("llama.bin",
                    llmcFile(20240801, 7, 22, rawTokens(counting(22), 4))),
      directory.put("text.txt", text)};
  for (const std::string &path : paths) {
    Result<TokenFile> file = TokenFile::open(path, 256);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->tokens(), 22);
    // 21 tokens have a successor: five sequences of four tokens, and a
    // remainder of one.
    EXPECT_EQ(file->sequencesPerEpoch(4), 5);
    EXPECT_EQ(readTokens(*file, 0, 4), (std::vector<int32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(readTokens(*file, 4, 4),
              (std::vector<int32_t>{16, 17, 18, 19, 20}));
    // There are 5 sequences; an index of 5 or more wraps around.
    EXPECT_EQ(readTokens(*file, 5, 4), readTokens(*file, 0, 4));
    EXPECT_EQ(readTokens(*file, int64_t{5} << 50, 4), readTokens(*file, 0, 4));
    EXPECT_EQ(readTokens(*file, 0, 21).back(), 21);
  }
}

TEST(TokenFile, TailRule) {
  TestDirectory directory;
  for (int tokens : {4, 5, 8, 9}) {
    Result<TokenFile> file = TokenFile::open(
        directory.put("t.bin", rawTokens(counting(tokens))), 256);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->sequencesPerEpoch(4), tokens == 4 ? 0 : tokens < 9 ? 1 : 2);
    int32_t buffer[8];
    if (tokens == 4) {
      expectBadInput(file->checkLength(4),
                     "has 4 tokens, but a sequence of 4 tokens and the target "
                     "of its last token need 5");
      expectBadInput(file->readSequence(0, 4, buffer, buffer + 4),
                     "has 4 tokens");
    } else {
      expectOk(file->checkLength(4));
    }
  }
}

TEST(TokenFile, LongSequencesCrossTheBuffer) {
  TestDirectory directory;
  std::vector<uint32_t> tokens(100'000);
  for (uint32_t i = 0; i < tokens.size(); ++i)
    tokens[i] = i * 7 % 50257;
  Result<TokenFile> file =
      TokenFile::open(directory.put("t.bin", rawTokens(tokens)), 50257);
  ASSERT_TRUE(file.ok());
  std::vector<int32_t> read = readTokens(*file, 1, 40'000);
  for (int64_t i = 0; i <= 40'000; ++i)
    ASSERT_EQ(read[i], int32_t(tokens[40'000 + i]));
}

TEST(TokenFile, ReadingAllocatesNothing) {
  TestDirectory directory;
  Result<TokenFile> file = TokenFile::open(
      directory.put("t.bin", rawTokens(counting(1000))), 1000, 3);
  ASSERT_TRUE(file.ok());
  int32_t tokens[64], targets[64];
  resetAllocations();
  bool ok = true;
  for (int i = 0; i < 100; ++i)
    ok &= file->readSequence(i, 64, tokens, targets).ok();
  EXPECT_EQ(allocations().count, 0u);
  EXPECT_TRUE(ok);
}

TEST(TokenFile, ChecksTheVocabulary) {
  TestDirectory directory;
  std::string path =
      directory.put("t.bin", rawTokens({1, 2, 3, 4, 5, 6, 99, 8, 9}));
  Result<TokenFile> file = TokenFile::open(path, 99);
  ASSERT_TRUE(file.ok());
  int32_t tokens[6], targets[6];
  expectOk(file->readSequence(0, 4, tokens, targets));
  Status status = file->readSequence(1, 4, tokens, targets);
  expectBadInput(status, "'" + path +
                             "': token 6 has id 99, but the model's vocabulary "
                             "has only 99");
  // The last token is checked too, although it is only a target.
  EXPECT_FALSE(file->readSequence(0, 6, tokens, targets).ok());
  // An id that exceeds i32 is an error, too.
  path = directory.put(
      "u.bin", llmcFile(20240801, 7, 3, rawTokens({1, 0xffffffff, 2}, 4)));
  Result<TokenFile> wide = TokenFile::open(path, INT32_MAX);
  ASSERT_TRUE(wide.ok());
  expectBadInput(wide->readSequence(0, 2, tokens, targets), "id 4294967295");
}

TEST(TokenFile, RejectsBadFiles) {
  std::string two = rawTokens({1, 2});
  expectRejected("t.bin", "", "is empty");
  expectRejected("t.bin", "123", "odd number of bytes (3)");
  expectRejected("t.npy", two, "its name ends neither in .bin");
  expectRejected("t.txt", "hello", "needs a vocabulary of at least 256", 255);
  expectRejected("t.bin", two, "vocabulary of 0 tokens", 0);
  expectRejected("t.bin", llmcFile(20240520, 1, 2, two).substr(0, 1000),
                 "truncated at 1000 of 1024");
  for (int version : {0, 2, 7})
    expectRejected("t.bin", llmcFile(20240520, version, 2, two), "expected 1");
  expectRejected("t.bin", llmcFile(20240801, 1, 1, two),
                 "version 1, expected 7");
  expectRejected("t.bin", llmcFile(20240520, 1, -1, two),
                 "a token count of -1, expected at least 0");
  expectRejected("t.bin", llmcFile(20240520, 1, 3, two),
                 "has a token count of 3, which requires a file of 1030 bytes, "
                 "but the file has 1028");
  expectRejected("t.bin", llmcFile(20240520, 1, 1, two),
                 "requires a file of 1026 bytes");
  expectRejected("t.bin", llmcFile(__builtin_bswap32(20240520), 1, 2, two),
                 "big-endian");
  expectRejected("t.bin", llmcFile(20240522, 1, 2, two), "an evaluation set");
  expectRejected("t.bin", llmcFile(20240326, 3, 2, two), "model weights");
}

TEST(TokenFile, NoticesATruncatedFile) {
  TestDirectory directory;
  std::string path = directory.put("t.bin", rawTokens(counting(100)));
  Result<TokenFile> file = TokenFile::open(path, 256);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path.c_str(), 50), 0);
  int32_t tokens[4], targets[4];
  expectBadInput(file->readSequence(0, 4, tokens, targets), "changed while");
}

TEST(TokenFile, ShuffledIndexIsAPermutation) {
  for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 5000})
    for (uint64_t epoch : {0, 1}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = shuffledIndex(i, count, 42, epoch);
        ASSERT_GE(at, 0);
        ASSERT_LT(at, count);
        seen.insert(at);
      }
      EXPECT_EQ(int64_t(seen.size()), count);
    }
  int64_t huge = int64_t{1} << 61;
  EXPECT_LT(shuffledIndex(huge - 1, huge, 1, 1), huge);
}

TEST(TokenFile, ShufflesDifferBySeedAndEpoch) {
  int64_t count = 1000, sameSeed = 0, sameEpoch = 0, fixed = 0, neighbours = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = shuffledIndex(i, count, 1, 0);
    sameEpoch += at == shuffledIndex(i, count, 2, 0);
    sameSeed += at == shuffledIndex(i, count, 1, 1);
    fixed += at == i;
    neighbours += at + 1 == shuffledIndex((i + 1) % count, count, 1, 0);
  }
  // Each of these counts has an expected value of about 1 for random
  // permutations.
  EXPECT_LT(sameSeed, 8);
  EXPECT_LT(sameEpoch, 8);
  EXPECT_LT(fixed, 8);
  EXPECT_LT(neighbours, 8);
}

TEST(TokenFile, ShuffleVisitsEverySequenceOncePerEpoch) {
  TestDirectory directory;
  std::string path = directory.put("t.bin", rawTokens(counting(201)));
  Result<TokenFile> file = TokenFile::open(path, 256, 9);
  ASSERT_TRUE(file.ok());
  std::vector<int32_t> epochs[2];
  for (int64_t i = 0; i < 100; ++i)
    epochs[i / 50].push_back(readTokens(*file, i, 4)[0]);
  EXPECT_NE(epochs[0], epochs[1]);
  for (std::vector<int32_t> &epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(epoch[i], 4 * i);
  }
}

TEST(TokenFile, IdentityIsThatOfTheTokens) {
  TestDirectory directory;
  auto identityOf = [&](std::string_view name, std::string_view bytes) {
    Result<TokenFile> file = TokenFile::open(directory.put(name, bytes), 50257);
    EXPECT_TRUE(file.ok()) << file.status().message();
    Result<DataIdentity> identity = file->identity();
    EXPECT_TRUE(identity.ok()) << identity.status().message();
    return *identity;
  };
  // The identity depends on the token width, but not on the name or the header.
  std::string tokens = rawTokens(counting(1000));
  DataIdentity raw = identityOf("a.bin", tokens);
  EXPECT_EQ(raw.tokens, 1000);
  EXPECT_EQ(raw.bytesPerToken, 2);
  EXPECT_EQ(raw.hash.size(), 32u);
  EXPECT_EQ(raw, identityOf("b.bin", llmcFile(20240520, 1, 1000, tokens)));
  EXPECT_NE(raw, identityOf("c.txt", tokens));
  EXPECT_NE(raw, identityOf("d.bin", rawTokens(counting(999))));

  // Small data is hashed completely; large data is sampled at the ends and at
  // equal distances in between.
  for (std::size_t bytes :
       {std::size_t(1), std::size_t(4096), std::size_t(64 * 4096),
        std::size_t(64 * 4096 + 1), std::size_t(3 << 20)}) {
    std::string text(bytes, 'a');
    DataIdentity whole = identityOf("e.txt", text);
    EXPECT_EQ(whole, identityOf("f.txt", text));
    std::vector<std::size_t> places = {0, bytes - 1};
    if (bytes > 1 << 20)
      places.push_back((bytes - 4096) / 63 * 31 + 4095);
    for (std::size_t place : places) {
      std::string other = text;
      other[place] = 'b';
      EXPECT_NE(whole, identityOf("f.txt", other)) << bytes << " " << place;
    }
  }
}

} // namespace
