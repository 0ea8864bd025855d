//===- KilnReferenceRandom.cpp - Random bits of the reference ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011) with a splitmix64 key.
//
//===----------------------------------------------------------------------===//

#include "KilnReferenceRandom.h"

#include <array>

using namespace kiln;
using namespace kiln::reference;

static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

static uint64_t splitmix64(uint64_t x) {
  x += kGolden;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = 0xD2511F53ull * counter[0];
    uint64_t product1 = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ k0,
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ k1,
               static_cast<uint32_t>(product0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

RandomBits::RandomBits(const HostTensor &rng, int64_t key)
    : seedKey(splitmix64(static_cast<uint64_t>(rng.integers[0]) +
                         kGolden * (static_cast<uint64_t>(key) + 1))),
      step(rng.integers[1]), firstSequence(rng.integers[2]) {}

uint32_t RandomBits::at(int64_t sequence, int64_t row, int64_t column) const {
  auto word = [](int64_t x) { return static_cast<uint32_t>(x); };
  return philox({word(column / 64 * 16 + column % 16), word(row),
                 word(firstSequence + sequence), word(step)},
                seedKey)[column / 16 % 4];
}

double DropoutMask::factor(int64_t sequence, int64_t row,
                           int64_t column) const {
  // An element is dropped if its random bits are below probability * 2^32.
  bool dropped = bits.at(sequence, row, column) <
                 static_cast<uint32_t>(probability * 0x1p32);
  return dropped ? 0 : 1 / (1 - probability);
}
