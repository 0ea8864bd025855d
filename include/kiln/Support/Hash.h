//===- Hash.h - Streaming and keyed XXH3 ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Wraps xxhash, so that only one source file includes its header.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_HASH_H
#define KILN_SUPPORT_HASH_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kiln::support {

/// Computes XXH3-128 of a byte stream; hex() equals the output of `xxhsum -H2`.
class StreamHash {
public:
  StreamHash();
  StreamHash(StreamHash &&) noexcept;
  StreamHash &operator=(StreamHash &&) noexcept;
  ~StreamHash();
  void update(const void *data, uint64_t bytes);
  std::string hex() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns XXH3-64 of `text` with the given seed.
uint64_t keyedHash(std::string_view text, uint64_t seed);

} // namespace kiln::support

#endif // KILN_SUPPORT_HASH_H
