//===- TokenFile.h - Token sequences from a file ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formats: llm.c training files (magic 20240520 version 1, u16 tokens; magic
// 20240801 version 7, u32 tokens), nanoGPT .bin (raw u16), and .txt read as
// bytes. A file of n tokens holds (n - 1) / T sequences of length T: sequence i
// is tokens [i*T, i*T + T) with their successors as targets; a tail shorter
// than T + 1 is dropped. Sequence numbers go on beyond the end: the file wraps,
// and each pass is an epoch. Every token is checked against the vocabulary when
// it is read, so that no kernel can gather out of bounds.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_FILES_TOKENFILE_H
#define KILN_RUNTIME_FILES_TOKENFILE_H

#include "kiln/Support/InputFile.h"
#include "kiln/Support/Status.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::runtime {

/// How tokens lie in a file.
struct TokenLayout {
  uint64_t dataStart = 0;
  unsigned bytesPerToken = 2;
  int64_t tokens = 0;
};

/// Tells data apart without reading all of it; where the file is stored does
/// not matter. `hash` is the XXH3-128 of 64 samples of 4096 bytes, the first at
/// the start of the tokens, the last at their end, the others in equal steps
/// (rounded down to a byte) between; of all bytes if there are no more.
struct DataIdentity {
  int64_t tokens = 0;
  int64_t bytesPerToken = 0;
  std::string hash;

  friend bool operator==(const DataIdentity &a, const DataIdentity &b) {
    return a.tokens == b.tokens && a.bytesPerToken == b.bytesPerToken &&
           a.hash == b.hash;
  }
  friend bool operator!=(const DataIdentity &a, const DataIdentity &b) {
    return !(a == b);
  }
};

/// Decides the layout from the file's name, its first bytes (up to 1024) and
/// its size. Entry for fuzzers: touches nothing but its input.
Result<TokenLayout> parseTokenLayout(std::string_view head, uint64_t fileBytes,
                                     const std::string &path);

class TokenFile {
public:
  /// With `shuffleSeed`, every epoch visits the sequences in an order of its
  /// own that depends only on (seed, epoch, number of sequences).
  static Result<TokenFile> open(const std::string &path, int64_t vocabulary,
                                std::optional<uint64_t> shuffleSeed = {});

  const std::string &path() const { return file_.path(); }
  int64_t tokens() const { return layout_.tokens; }
  /// Its tokens are the bytes of a text.
  bool holdsBytes() const { return layout_.bytesPerToken == 1; }
  Result<DataIdentity> identity() const;
  /// 0 when the file is too short for even one.
  int64_t sequencesPerEpoch(int64_t length) const;
  /// Fails, with what to do, when there is no sequence of that length.
  Status checkLength(int64_t length) const;

  /// The number of sequence `index` >= 0 of the endless stream among those of
  /// the file.
  int64_t sequenceNumber(int64_t index, int64_t length) const;

  /// Reads sequence `index` >= 0 of the endless stream: tokens[0, length) and
  /// targets[0, length). Allocates nothing unless it fails.
  Status readSequence(int64_t index, int64_t length, int32_t *tokens,
                      int32_t *targets);

private:
  TokenFile(support::InputFile file, TokenLayout layout, int64_t vocabulary,
            std::optional<uint64_t> shuffleSeed);
  support::InputFile file_;
  TokenLayout layout_;
  int64_t vocabulary_;
  std::optional<uint64_t> shuffleSeed_;
  std::unique_ptr<unsigned char[]> buffer_;
};

/// Position `index` of a permutation of [0, count) keyed by (seed, epoch).
/// Needs no table: a Feistel network over the next power of four, walked until
/// it lands inside.
int64_t shuffledIndex(int64_t index, int64_t count, uint64_t seed,
                      uint64_t epoch);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_TOKENFILE_H
