//===- BucketTest.cpp - Bucket kernels against plain loops ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

#include <algorithm>
#include <limits>

using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::test;

namespace {

using Bytes = std::vector<uint8_t>;

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

int64_t codeOf(double x, const std::vector<double> &borders) {
  int64_t code = 0;
  for (double border : borders)
    code += x > border;
  return code;
}

Bytes pack(const std::vector<int64_t> &codes, int64_t bits) {
  Bytes bytes((codes.size() * bits + 7) / 8, 0);
  for (size_t i = 0; i < codes.size(); ++i)
    for (int64_t bit = 0; bit < bits; ++bit)
      bytes[(i * bits + bit) / 8] |= (codes[i] >> bit & 1)
                                     << (i * bits + bit) % 8;
  return bytes;
}

/// Returns values below, on and above the borders, infinities and NaN.
template <typename T>
std::vector<T> values(int64_t count, const std::vector<double> &borders) {
  std::vector<T> x = someValues<T>(count, 1);
  using Limits = std::numeric_limits<Full<T>>;
  const T special[] = {T(borders.front()),
                       T(borders.back()),
                       T(Limits::infinity()),
                       T(-Limits::infinity()),
                       T(Limits::quiet_NaN()),
                       T(0),
                       T(-0.0)};
  for (size_t i = 0; i < std::size(special); ++i)
    x[i * 5 % x.size()] = special[i];
  return x;
}

template <typename T> void check(int64_t bits, int64_t count) {
  SCOPED_TRACE(testing::Message() << bits << " bits of " << count);
  std::vector<double> borders = bordersOf(bits), levels = levelsOf(bits);
  std::vector<T> x = values<T>(count, borders), dy = someValues<T>(count, 2);
  std::vector<int64_t> codes;
  for (T element : x)
    codes.push_back(codeOf(element, borders));
  Bytes want = pack(codes, bits);
  ASSERT_EQ(int64_t(want.size()), (bits * count + 7) / 8);
  std::vector<T> wantDx;
  for (int64_t i = 0; i < count; ++i)
    wantDx.push_back(levels[codes[i]] == 0
                         ? T(0)
                         : T(Full<T>(levels[codes[i]]) * Full<T>(dy[i])));

  auto shapeOf = [&](mlir::Builder b, const std::vector<double> &table) {
    return BucketShape{count, elementType<T>(b), table};
  };
  CompiledKernel encode([&](auto module, auto name, mlir::Builder b) {
    return emitBucketEncode(module, name, shapeOf(b, borders));
  });
  CompiledKernel decode([&](auto module, auto name, mlir::Builder b) {
    return emitBucketDecode(module, name, shapeOf(b, levels));
  });
  for (int calls : {1, 2, 3}) {
    // The bytes after the codes must not change.
    Bytes got(want.size() + 16, 0x5a);
    encode.run({x.data(), got.data()}, {}, calls);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin()));
    EXPECT_EQ(std::count(got.begin() + want.size(), got.end(), 0x5a), 16);
    std::vector<T> dx(count + 16, T(77));
    decode.run({got.data(), dy.data(), dx.data()}, {}, calls);
    EXPECT_TRUE(
        sameBits(wantDx, std::vector<T>(dx.begin(), dx.begin() + count)));
    EXPECT_EQ(std::count(dx.begin() + count, dx.end(), T(77)), 16);
    std::vector<T> inPlace = dy;
    decode.run({got.data(), inPlace.data(), inPlace.data()}, {}, calls);
    EXPECT_TRUE(sameBits(wantDx, inPlace));
  }
}

TEST(Bucket, CodesAllWidths) {
  for (int64_t bits = 1; bits <= 8; ++bits)
    check<float>(bits, 331);
}

TEST(Bucket, EndsWithinAGroup) {
  for (int64_t count : {1, 7, 8, 9, 16, 61})
    check<float>(3, count);
  check<float>(1, 5);
  check<float>(8, 3);
}

TEST(Bucket, Doubles) {
  check<double>(2, 45);
  check<double>(5, 64);
}

TEST(Bucket, Bfloats) {
  for (int64_t bits : {1, 3, 8})
    check<Bfloat>(bits, 331);
  check<Bfloat>(4, 5);
}

TEST(Bucket, MaskIsTheGradientOfRelu) {
  const double zero = 0;
  const double levels[] = {0, 1};
  std::vector<float> x = {-1, -0.0f, 0, 1e-30f, 2,    NAN, INFINITY,
                          3,  -2,    4, 5,      -6.f, 7};
  std::vector<float> dy = {1,   2,    3,        -0.0f, -5, 6, INFINITY,
                           NAN, -1.f, INFINITY, 8,     9,  0};
  auto count = static_cast<int64_t>(x.size());
  CompiledKernel encode([&](auto module, auto name, mlir::Builder b) {
    return emitBucketEncode(module, name,
                            BucketShape{count, b.getF32Type(), zero});
  });
  CompiledKernel decode([&](auto module, auto name, mlir::Builder b) {
    return emitBucketDecode(module, name,
                            BucketShape{count, b.getF32Type(), levels});
  });
  Bytes codes(2);
  std::vector<float> dx(x.size()), want;
  encode.run({x.data(), codes.data()}, {});
  decode.run({codes.data(), dy.data(), dx.data()}, {});
  for (int64_t i = 0; i < count; ++i)
    want.push_back(x[i] > 0 ? dy[i] : 0);
  EXPECT_TRUE(sameBits(want, dx));
}

} // namespace
