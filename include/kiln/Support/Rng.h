//===- Rng.h - Counter-based random numbers ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10 (Salmon et al., SC'11) maps (counter, key) to four words
// without state, so a number depends only on its counter and key, and not on
// the numbers drawn before. splitmix64 mixes keys.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_RNG_H
#define KILN_SUPPORT_RNG_H

#include <array>
#include <cstdint>

namespace kiln::support {

inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {uint32_t(p1 >> 32) ^ counter[1] ^ key[0], uint32_t(p1),
               uint32_t(p0 >> 32) ^ counter[3] ^ key[1], uint32_t(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Uses the counter {c0, c1, 0, 0} and the key {k0, k1}, where c0 and k0 are
/// the low words of `counter` and `key`, and c1 and k1 the high words.
inline std::array<uint32_t, 4> philox4x32(uint64_t counter, uint64_t key) {
  return philox4x32({uint32_t(counter), uint32_t(counter >> 32), 0u, 0u},
                    {uint32_t(key), uint32_t(key >> 32)});
}

/// Returns the output of a splitmix64 generator with state `state`.
inline uint64_t splitmix64(uint64_t state) {
  uint64_t z = state + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// Returns a number in [0, 1) with 53 random bits.
inline double uniformFromBits(uint32_t low, uint32_t high) {
  return double(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

} // namespace kiln::support

#endif // KILN_SUPPORT_RNG_H
