//===- Hash.cpp - Streaming and keyed XXH3 --------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inlines xxhash, so executables need not link its library.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace kiln::support;

struct StreamHash::State {
  XXH3_state_t xxh;
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->xxh);
  XXH3_128bits_reset(&state_->xxh);
}
StreamHash::StreamHash(StreamHash &&) noexcept = default;
StreamHash &StreamHash::operator=(StreamHash &&) noexcept = default;
StreamHash::~StreamHash() = default;

void StreamHash::update(const void *data, uint64_t bytes) {
  if (bytes > 0)
    XXH3_128bits_update(&state_->xxh, data, bytes);
}

std::string StreamHash::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->xxh));
  std::string text;
  for (unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

uint64_t kiln::support::keyedHash(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}
