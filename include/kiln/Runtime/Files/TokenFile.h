//===- TokenFile.h - Token sequences from a file ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supported formats are llm.c training files (magic 20240520 version 1, u16
// tokens; magic 20240801 version 7, u32 tokens), nanoGPT .bin (raw u16), and
// .txt, whose bytes are tokens.
//
// A file of n tokens contains (n - 1) / T sequences of length T. Sequence i is
// tokens [i * T, i * T + T); its targets are the tokens one position later. The
// last (n - 1) % T tokens are not used. Sequence numbers beyond the end wrap
// around; each pass over the file is an epoch. Every token is checked against
// the vocabulary when it is read, so that no kernel gathers out of bounds.
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

/// The position and size of the tokens in a file.
struct TokenLayout {
  uint64_t dataStart = 0;
  unsigned bytesPerToken = 2;
  int64_t tokens = 0;
};

/// Identifies training data independently of its path. Let B be the size of the
/// tokens in bytes. If B <= 64 * 4096, `hash` is the XXH3-128 of all B bytes.
/// Otherwise, `hash` is the XXH3-128 of 64 samples of 4096 bytes: sample i < 63
/// begins at byte i * floor((B - 4096) / 63) of the tokens, and sample 63 at
/// byte B - 4096. If there is a mask, its bytes are sampled in the same way and
/// hashed after those of the tokens.
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

/// Determines the layout from the file's name, its first bytes (up to 1024) and
/// its size. Entry point for fuzzers: accesses nothing but its arguments.
Result<TokenLayout> parseTokenLayout(std::string_view head, uint64_t fileBytes,
                                     const std::string &path);

/// Target value that is excluded from the loss.
inline constexpr int32_t ignoredTarget = -100;

class TokenFile {
public:
  /// Opens a token file. With `shuffleSeed`, each epoch visits the sequences in
  /// a random order that depends only on the seed, the epoch and the number of
  /// sequences.
  static Result<TokenFile> open(const std::string &path, int64_t vocabulary,
                                std::optional<uint64_t> shuffleSeed = {});

  /// Opens a file with one byte per token. A token whose byte is 0 is not a
  /// target: readSequence() sets the target to `ignoredTarget`. Fails if the
  /// file does not have as many bytes as there are tokens.
  Status openMask(const std::string &path);

  const std::string &path() const { return file_.path(); }
  int64_t tokens() const { return layout_.tokens; }
  /// Returns true if the tokens are the bytes of a text.
  bool holdsBytes() const { return layout_.bytesPerToken == 1; }
  /// Identifies the tokens and the mask, if any.
  Result<DataIdentity> identity() const;
  /// Returns the number of sequences of this length in the file; 0 if the file
  /// is too short for one sequence.
  int64_t sequencesPerEpoch(int64_t length) const;
  /// Fails if the file has no sequence of this length; the message suggests a
  /// remedy.
  Status checkLength(int64_t length) const;

  /// The epochs form an endless stream of sequences. Returns the number, within
  /// the file, of the sequence at position `index` >= 0 of the stream.
  int64_t sequenceNumber(int64_t index, int64_t length) const;

  /// Reads the sequence at position `index` >= 0 of the stream (see
  /// sequenceNumber) into tokens[0, length) and targets[0, length). Allocates
  /// no memory unless the read fails.
  Status readSequence(int64_t index, int64_t length, int32_t *tokens,
                      int32_t *targets);

private:
  TokenFile(support::InputFile file, TokenLayout layout, int64_t vocabulary,
            std::optional<uint64_t> shuffleSeed);
  /// `targets` has the tokens [first, first + length) of the file. Replaces
  /// each target whose byte in the mask is 0 by `ignoredTarget`.
  Status applyMask(int64_t first, int64_t length, int32_t *targets);

  support::InputFile file_;
  TokenLayout layout_;
  int64_t vocabulary_;
  std::optional<uint64_t> shuffleSeed_;
  std::optional<support::InputFile> mask_;
  std::unique_ptr<unsigned char[]> buffer_;
};

/// Returns the element at position `index` of a permutation of [0, count) keyed
/// by (seed, epoch). Uses no table: a Feistel network permutes [0, N), where N
/// is a power of four of at least `count`, and is applied repeatedly until the
/// result is less than `count`.
int64_t shuffledIndex(int64_t index, int64_t count, uint64_t seed,
                      uint64_t epoch);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_TOKENFILE_H
