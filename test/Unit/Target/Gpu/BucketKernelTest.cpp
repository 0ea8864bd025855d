//===- BucketKernelTest.cpp - Bucket kernels on the emulated GPU ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelCalls.h"

#include <gtest/gtest.h>

#include <limits>

using namespace kiln;
using namespace kiln::test;

namespace {

std::vector<double> bordersOf(int64_t bits) {
  std::vector<double> borders;
  int64_t count = (int64_t(1) << bits) - 1;
  for (int64_t i = 0; i < count; ++i)
    borders.push_back(std::ldexp(double(2 * i - count + 1), 1 - int(bits)));
  return borders;
}

std::vector<double> levelsOf(int64_t bits) {
  std::vector<double> levels = {0};
  for (int64_t i = 1; i < int64_t(1) << bits; ++i)
    levels.push_back(0.7 * std::sin(double(i)) + 0.1);
  return levels;
}

/// Returns values below, on and above the borders, infinities and NaN.
template <typename T>
std::vector<T> values(int64_t count, const std::vector<double> &borders) {
  std::vector<T> x = someValues<T>(count, 1);
  float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {float(borders.front()),
                           float(borders.back()),
                           infinity,
                           -infinity,
                           std::numeric_limits<float>::quiet_NaN(),
                           0.0f,
                           -0.0f};
  for (size_t i = 0; i < std::size(special); ++i)
    x[i * 5 % x.size()] = special[i];
  return x;
}

template <typename T = float>
void check(int64_t bits, int64_t count, int64_t skip = 0) {
  SCOPED_TRACE(testing::Message()
               << bits << " bits of " << count << " skip " << skip);
  std::vector<double> borders = bordersOf(bits), levels = levelsOf(bits);
  int64_t bytes = (bits * count + 7) / 8;
  std::vector<uint8_t> codes(bytes);
  for (int64_t i = 0; i < bytes; ++i)
    codes[i] = i * i * 37 + 11 * i;

  Memory memory;
  Place x = memory.add(values<T>(count, borders), skip);
  Place code = memory.add(codes, skip);
  Place dy = memory.add(someValues<T>(count, 2), skip);
  Place dx = memory.add(someValues<T>(count, 3), skip);
  memory.add(someFloats(4, 4));
  expectSameBits(
      memory, {x, written(code)}, {},
      [&](auto module, auto name, auto b) {
        BucketShape shape = {count, elementType<T>(b), borders};
        return cpu::emitBucketEncode(module, name, shape);
      },
      [&](auto kernels, auto name, auto b, auto alignments) {
        BucketEncodeShape shape = {{count, elementType<T>(b), borders}};
        return gpu::emitBucketEncode(kernels, name, shape, alignments);
      });
  for (bool inPlace : {false, true})
    expectSameBits(
        memory, {code, dy, inPlace ? updated(dy) : written(dx)}, {},
        [&](auto module, auto name, auto b) {
          BucketShape shape = {count, elementType<T>(b), levels};
          return cpu::emitBucketDecode(module, name, shape);
        },
        [&](auto kernels, auto name, auto b, auto alignments) {
          BucketDecodeShape shape = {{count, elementType<T>(b), levels}};
          return gpu::emitBucketDecode(kernels, name, shape, alignments);
        });
}

TEST(GpuBucket, CodesAllWidths) {
  for (int64_t bits : {1, 2, 3, 4, 5, 6, 7, 8})
    check(bits, 331);
  check(3, 2304);
}

TEST(GpuBucket, Bfloats) {
  for (int64_t bits : {1, 3, 5, 7, 8})
    check<Bfloat>(bits, 331);
  check<Bfloat>(4, 2064, /*skip=*/4);
  check<Bfloat>(3, 61, 2);
}

TEST(GpuBucket, OddPlaces) {
  check(4, 2064, /*skip=*/4);
  check(3, 61, 4);
  check<Bfloat>(3, 331, 2);
  check(5, 331, 4);
  check(1, 5);
  check(8, 3, 8);
}

} // namespace
