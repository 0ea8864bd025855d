//===- TokenFile.cpp - Token sequences from a file ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See TokenFile.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/TokenFile.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Rng.h"
#include <algorithm>
#include <cassert>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

constexpr std::size_t kHeaderBytes = 1024;
constexpr std::size_t kBufferBytes = 64 << 10;
constexpr uint64_t kSamples = 64;
constexpr uint64_t kSampleBytes = 4096;

uint32_t littleEndian(const unsigned char *bytes, unsigned count) {
  uint32_t value = 0;
  for (unsigned i = 0; i < count; ++i)
    value |= uint32_t(bytes[i]) << (8 * i);
  return value;
}

/// llm.c stores several kinds of files, each with its own magic number. Returns
/// the kind of file for a magic number that does not belong to token files, or
/// null if the number is unknown.
const char *otherLlmcFile(uint32_t magic) {
  switch (magic) {
  case 20240326:
    return "model weights";
  case 20240327:
    return "a debug state";
  case 20240328:
    return "a tokenizer";
  case 20240522:
    return "an evaluation set";
  case 20240527:
    return "an optimizer state";
  }
  return nullptr;
}

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

Result<TokenLayout> parseLlmcHeader(std::string_view head, uint64_t fileBytes,
                                    unsigned bytesPerToken, uint32_t version,
                                    const std::string &path) {
  auto *bytes = reinterpret_cast<const unsigned char *>(head.data());
  if (head.size() < kHeaderBytes)
    return Status::badInput("'" + path +
                            "': the llm.c header is truncated at " +
                            std::to_string(head.size()) + " of 1024 bytes");
  if (uint32_t found = littleEndian(bytes + 4, 4); found != version)
    return Status::badInput("'" + path + "': llm.c token file has version " +
                            std::to_string(found) + ", expected " +
                            std::to_string(version));
  auto tokens = static_cast<int32_t>(littleEndian(bytes + 8, 4));
  if (tokens < 0)
    return Status::badInput("'" + path + "': the header has a token count of " +
                            std::to_string(tokens) + ", expected at least 0");
  // `tokens` is less than 2^31 and bytesPerToken is at most 4, so that the sum
  // does not overflow.
  uint64_t expected = kHeaderBytes + uint64_t(tokens) * bytesPerToken;
  if (expected != fileBytes)
    return Status::badInput(
        "'" + path + "': the header has a token count of " +
        std::to_string(tokens) + ", which requires a file of " +
        std::to_string(expected) + " bytes, but the file has " +
        std::to_string(fileBytes));
  return TokenLayout{kHeaderBytes, bytesPerToken, tokens};
}

} // namespace

Result<TokenLayout> kiln::runtime::parseTokenLayout(std::string_view head,
                                                    uint64_t fileBytes,
                                                    const std::string &path) {
  if (fileBytes == 0)
    return Status::badInput("'" + path + "' is empty, expected tokens");
  if (fileBytes > uint64_t(INT64_MAX))
    return Status::badInput("'" + path + "' has more than 2^63 - 1 bytes");
  if (endsWith(path, ".txt"))
    return TokenLayout{0, 1, int64_t(fileBytes)};

  if (head.size() >= 4) {
    auto *bytes = reinterpret_cast<const unsigned char *>(head.data());
    uint32_t magic = littleEndian(bytes, 4);
    if (magic == 20240520)
      return parseLlmcHeader(head, fileBytes, 2, 1, path);
    if (magic == 20240801)
      return parseLlmcHeader(head, fileBytes, 4, 7, path);
    if (const char *what = otherLlmcFile(magic))
      return Status::badInput("'" + path + "' holds " + what +
                              " of llm.c, expected training tokens");
    uint32_t swapped = __builtin_bswap32(magic);
    if (swapped == 20240520 || swapped == 20240801)
      return Status::badInput("'" + path +
                              "': llm.c token file in big-endian byte order, "
                              "expected little-endian");
  }
  if (!endsWith(path, ".bin"))
    return Status::badInput(
        "'" + path +
        "' is not an llm.c token file, and its name ends neither in .bin (raw "
        "16-bit tokens) nor in .txt (each byte is a token)");
  if (fileBytes % 2 != 0)
    return Status::badInput("'" + path + "' has an odd number of bytes (" +
                            std::to_string(fileBytes) +
                            "), expected 16-bit tokens");
  return TokenLayout{0, 2, int64_t(fileBytes / 2)};
}

TokenFile::TokenFile(InputFile file, TokenLayout layout, int64_t vocabulary,
                     std::optional<uint64_t> shuffleSeed)
    : file_(std::move(file)), layout_(layout), vocabulary_(vocabulary),
      shuffleSeed_(shuffleSeed),
      buffer_(std::make_unique<unsigned char[]>(kBufferBytes)) {}

Result<TokenFile> TokenFile::open(const std::string &path, int64_t vocabulary,
                                  std::optional<uint64_t> shuffleSeed) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  std::string head(std::min<uint64_t>(file->size(), kHeaderBytes), '\0');
  if (Status status = file->read(0, head.data(), head.size()); !status.ok())
    return status;
  Result<TokenLayout> layout = parseTokenLayout(head, file->size(), path);
  if (!layout.ok())
    return layout.status();
  if (vocabulary < 1 || vocabulary > INT32_MAX)
    return Status::badInput("the model's vocabulary of " +
                            std::to_string(vocabulary) +
                            " tokens is out of range, expected 1 to 2^31 - 1");
  if (layout->bytesPerToken == 1 && vocabulary < 256)
    return Status::badInput(
        "'" + path +
        "' is read as one token per byte, which needs a vocabulary of at least "
        "256 tokens, but the number of tokens in the model's vocabulary is " +
        std::to_string(vocabulary));
  return TokenFile(std::move(*file), *layout, vocabulary, shuffleSeed);
}

Status TokenFile::openMask(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  if (file->size() != uint64_t(layout_.tokens))
    return Status::badInput(inQuotes(path) + " has " +
                            std::to_string(file->size()) +
                            " bytes, expected one for each of the " +
                            std::to_string(layout_.tokens) + " tokens in " +
                            inQuotes(file_.path()));
  mask_.emplace(std::move(*file));
  return Status();
}

/// Takes samples, as DataIdentity describes, of the `bytes` bytes that begin at
/// `start` in the file, and adds the samples to `hash`.
static Status addSamples(const InputFile &file, uint64_t start, uint64_t bytes,
                         StreamHash &hash) {
  char sample[kSampleBytes];
  auto add = [&](uint64_t first, uint64_t count) {
    Status status = file.read(start + first, sample, count);
    if (status.ok())
      hash.update(sample, count);
    return status;
  };
  Status status;
  if (bytes <= kSamples * kSampleBytes) {
    for (uint64_t at = 0; status.ok() && at < bytes; at += kSampleBytes)
      status = add(at, std::min(kSampleBytes, bytes - at));
  } else {
    uint64_t last = bytes - kSampleBytes, step = last / (kSamples - 1);
    for (uint64_t i = 0; status.ok() && i + 1 < kSamples; ++i)
      status = add(i * step, kSampleBytes);
    if (status.ok())
      status = add(last, kSampleBytes);
  }
  return status;
}

Result<DataIdentity> TokenFile::identity() const {
  StreamHash hash;
  Status status =
      addSamples(file_, layout_.dataStart,
                 uint64_t(layout_.tokens) * layout_.bytesPerToken, hash);
  if (status.ok() && mask_)
    status = addSamples(*mask_, 0, mask_->size(), hash);
  if (!status.ok())
    return status;
  return DataIdentity{layout_.tokens, layout_.bytesPerToken, hash.hex()};
}

int64_t TokenFile::sequencesPerEpoch(int64_t length) const {
  assert(length > 0);
  return layout_.tokens == 0 ? 0 : (layout_.tokens - 1) / length;
}

Status TokenFile::checkLength(int64_t length) const {
  if (sequencesPerEpoch(length) > 0)
    return Status();
  return Status::badInput(
      "'" + path() + "' has " + std::to_string(layout_.tokens) +
      " tokens, but a sequence of " + std::to_string(length) +
      " tokens and the target of its last token need " +
      std::to_string(length + 1) +
      ": use more data, or compile with a smaller --seq");
}

int64_t TokenFile::sequenceNumber(int64_t index, int64_t length) const {
  int64_t sequences = sequencesPerEpoch(length);
  int64_t sequence = index % sequences;
  return shuffleSeed_ ? shuffledIndex(sequence, sequences, *shuffleSeed_,
                                      index / sequences)
                      : sequence;
}

Status TokenFile::readSequence(int64_t index, int64_t length, int32_t *tokens,
                               int32_t *targets) {
  assert(index >= 0);
  if (sequencesPerEpoch(length) == 0)
    return checkLength(length);
  // The product does not overflow, because firstToken is less than the number
  // of tokens in the file.
  int64_t firstToken = sequenceNumber(index, length) * length;
  unsigned width = layout_.bytesPerToken;
  int64_t perChunk = kBufferBytes / width;
  for (int64_t done = 0; done < length + 1;) {
    int64_t now = std::min(perChunk, length + 1 - done);
    if (Status status =
            file_.read(layout_.dataStart + uint64_t(firstToken + done) * width,
                       buffer_.get(), now * width);
        !status.ok())
      return status;
    for (int64_t i = 0; i < now; ++i) {
      uint32_t token = littleEndian(buffer_.get() + i * width, width);
      int64_t at = done + i;
      if (token >= uint64_t(vocabulary_))
        return Status::badInput("'" + path() + "': token " +
                                std::to_string(firstToken + at) + " has id " +
                                std::to_string(token) +
                                ", but the model's vocabulary has only " +
                                std::to_string(vocabulary_) +
                                " tokens: tokenize the text for this model");
      if (at < length)
        tokens[at] = token;
      if (at > 0)
        targets[at - 1] = token;
    }
    done += now;
  }
  return mask_ ? applyMask(firstToken + 1, length, targets) : Status();
}

Status TokenFile::applyMask(int64_t first, int64_t length, int32_t *targets) {
  for (int64_t done = 0; done < length;) {
    int64_t now = std::min<int64_t>(kBufferBytes, length - done);
    Status status = mask_->read(uint64_t(first + done), buffer_.get(), now);
    if (!status.ok())
      return status;
    for (int64_t i = 0; i < now; ++i)
      if (buffer_[i] == 0)
        targets[done + i] = ignoredTarget;
    done += now;
  }
  return Status();
}

int64_t kiln::runtime::shuffledIndex(int64_t index, int64_t count,
                                     uint64_t seed, uint64_t epoch) {
  assert(index >= 0 && index < count);
  int halfBits = 1;
  while (halfBits < 31 && int64_t{1} << (2 * halfBits) < count)
    ++halfBits;
  uint64_t mask = (uint64_t{1} << halfBits) - 1;
  uint64_t key = splitmix64(splitmix64(seed) + epoch);
  uint64_t value = index;
  // The Feistel network is a permutation of [0, 4^halfBits). Apply it
  // repeatedly until the value is less than `count` (cycle walking). This gives
  // a permutation of [0, count) and takes fewer than 4 iterations on average.
  do {
    uint64_t left = value >> halfBits, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t mixed = left ^ (splitmix64(key ^ (round << 32 | right)) & mask);
      left = right;
      right = mixed;
    }
    value = left << halfBits | right;
  } while (value >= uint64_t(count));
  return value;
}
