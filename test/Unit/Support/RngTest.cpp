//===- RngTest.cpp - Known answers of random generators -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The Philox vectors are from Random123's kat_vectors; those of splitmix64 are
// from the reference implementation with state 0.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Rng.h"
#include "gtest/gtest.h"

using namespace kiln::support;
using namespace kiln;

namespace {

using Words = std::array<uint32_t, 4>;

TEST(Rng, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32(Words{0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(Words{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(Words{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, PhiloxSplitsWords) {
  EXPECT_EQ(philox4x32(0x85a308d3243f6a88u, 0x299f31d0a4093822u),
            philox4x32(Words{0x243f6a88, 0x85a308d3, 0, 0},
                       {0xa4093822, 0x299f31d0}));
}

TEST(Rng, Splitmix64KnownAnswers) {
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(splitmix64(0x9E3779B97F4A7C15u), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(splitmix64(2 * 0x9E3779B97F4A7C15u), 0x06c45d188009454fu);
}

TEST(Rng, UniformStaysBelowOne) {
  EXPECT_EQ(uniformFromBits(0, 0), 0.0);
  EXPECT_EQ(uniformFromBits(~0u, ~0u), 1.0 - 0x1p-53);
}

} // namespace
