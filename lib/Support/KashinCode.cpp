//===- KashinCode.cpp - Codes in an overdetermined basis ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/KashinCode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace kiln::support;

namespace {

constexpr int64_t n = KashinCode::blockElements;
using Block = std::array<float, n>;

/// For each element of `starts`, the encoder (see KashinCode.h) makes
/// `projections` projections to find a pair (u, v), and then chooses the codes
/// and the scales `alternations` times.
constexpr int projections = 6, alternations = 10;

/// The parameters of a search for a pair (u, v) that represents a block: `peak`
/// is the bound on the coefficients relative to the root mean square of the
/// block, and `ratio` is the ratio of the initial scale of v to that of u. The
/// error of a block depends on these parameters, and no choice is best for all
/// blocks.
struct Start {
  float peak;
  float ratio;
};
constexpr Start starts[] = {
    {0.7f, 0.5f}, {1.0f, 0.5f}, {0.8f, 1.0f}, {1.2f, 0.25f}};

struct Search {
  Block u, v; ///< Quantized u and v, divided by their scales.
  /// H v / sqrt(n), where H is the Hadamard matrix.
  Block image;
  float scaleOfU = 0, scaleOfV = 0;
  double error = std::numeric_limits<double>::infinity();
};

} // namespace

/// Multiplies by H, the Hadamard matrix of Sylvester's construction.
template <typename T> static void transform(std::array<T, n> &x) {
  for (int64_t half = 1; half < n; half *= 2)
    for (int64_t first = 0; first < n; first += 2 * half)
      for (int64_t i = first; i < first + half; ++i) {
        T sum = x[i] + x[i + half];
        x[i + half] = x[i] - x[i + half];
        x[i] = sum;
      }
}

/// Multiplies by the matrix R = H / sqrt(n), where H is the Hadamard matrix. R
/// is its own inverse.
static void rotate(Block &x) {
  transform(x);
  const float scale = 1 / std::sqrt(float(n));
  for (float &value : x)
    value *= scale;
}

/// Returns the dot product. Uses several partial sums, so that the compiler can
/// vectorize the loop without changing the order of additions.
static float dot(const Block &x, const Block &y) {
  std::array<float, 8> sums = {};
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t lane = 0; lane < 8; ++lane)
      sums[lane] += x[i + lane] * y[i + lane];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
         ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// Sets `levels` to the levels of `bits` bits that are nearest to x / scale.
static void quantize(const Block &x, float scale, int bits, Block &levels) {
  const float codes = float(1 << bits);
  const float inverse = 0.5f / scale;
  for (int64_t i = 0; i < n; ++i) {
    // Code c has the level 2 c - codes + 1. The clamped value is not negative,
    // so the conversion rounds down.
    float code = std::clamp(x[i] * inverse + codes / 2, 0.f, codes - 0.5f);
    levels[i] = 2 * float(int32_t(code)) - (codes - 1);
  }
}

/// Returns the coefficients u of a pair (u, v) that represents x approximately.
/// The magnitudes of u and v are at most `peak`.
static Block kashinCoefficients(const Block &x, float peak) {
  Block u = {}, v = {};
  for (int i = 0; i < projections; ++i) {
    // Project (u, v) onto the pairs with u + H v / sqrt(n) = x: add half of the
    // error x - u - H v / sqrt(n) to u and, times H / sqrt(n), to v.
    Block rest = v;
    rotate(rest);
    for (int64_t j = 0; j < n; ++j)
      rest[j] = 0.5f * (x[j] - u[j] - rest[j]);
    for (int64_t j = 0; j < n; ++j)
      u[j] = std::clamp(u[j] + rest[j], -peak, peak);
    rotate(rest);
    for (int64_t j = 0; j < n; ++j)
      v[j] = std::clamp(v[j] + rest[j], -peak, peak);
  }
  return u;
}

/// Sets the scales to the least-squares solution for the codes. If the solution
/// is not unique or not positive, leaves the scales unchanged.
static void fitScales(const Block &x, Search &search) {
  double uu = dot(search.u, search.u), vv = dot(search.image, search.image),
         uv = dot(search.u, search.image), xu = dot(x, search.u),
         xv = dot(x, search.image);
  double determinant = uu * vv - uv * uv;
  if (!(determinant > 1e-6 * uu * vv))
    return;
  double ofU = (xu * vv - xv * uv) / determinant;
  double ofV = (xv * uu - xu * uv) / determinant;
  if (!(ofU > 0 && ofV > 0))
    return;
  search.scaleOfU = float(ofU);
  search.scaleOfV = float(ofV);
}

static Search runSearch(const Block &x, Start start, int bitsOfU, int bitsOfV) {
  Search search;
  search.scaleOfU = start.peak / float(1 << bitsOfU);
  search.scaleOfV = start.ratio * start.peak / float(1 << bitsOfV);
  quantize(kashinCoefficients(x, start.peak), search.scaleOfU, bitsOfU,
           search.u);
  Block rest;
  for (int i = 0; i < alternations; ++i) {
    for (int64_t j = 0; j < n; ++j)
      rest[j] = x[j] - search.scaleOfU * search.u[j];
    rotate(rest);
    quantize(rest, search.scaleOfV, bitsOfV, search.v);
    search.image = search.v;
    rotate(search.image);
    for (int64_t j = 0; j < n; ++j)
      rest[j] = x[j] - search.scaleOfV * search.image[j];
    quantize(rest, search.scaleOfU, bitsOfU, search.u);
    fitScales(x, search);
  }
  for (int64_t j = 0; j < n; ++j)
    rest[j] = x[j] - search.scaleOfU * search.u[j] -
              search.scaleOfV * search.image[j];
  search.error = dot(rest, rest);
  return search;
}

static void packLevels(const Block &levels, int bits, uint8_t *bytes) {
  std::fill_n(bytes, n * bits / 8, uint8_t(0));
  for (int64_t i = 0; i < n; ++i) {
    auto code = unsigned((int(levels[i]) + (1 << bits) - 1) / 2);
    bytes[i * bits / 8] |= uint8_t(code << (i * bits % 8));
  }
}

static std::array<int32_t, n> unpackLevels(const uint8_t *bytes, int bits) {
  static_assert(KashinCode::mostBits <= 4, "a code must not cross a byte");
  std::array<int32_t, n> levels;
  for (int64_t i = 0; i < n; ++i) {
    int code = bytes[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
    levels[i] = 2 * code - ((1 << bits) - 1);
  }
  return levels;
}

void KashinCode::encode(const float *values, int64_t count, uint8_t *codes,
                        float *scales) const {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i)
    squares += double(values[i]) * double(values[i]);
  double size = std::sqrt(squares / double(n));
  if (size == 0) {
    std::fill_n(codes, blockBytes(), uint8_t(0));
    scales[0] = scales[1] = 0;
    return;
  }
  Block x = {};
  for (int64_t i = 0; i < count; ++i)
    x[i] = float(double(values[i]) / size);
  Search best;
  for (Start start : starts)
    if (Search search = runSearch(x, start, bitsOfU(), bitsOfV());
        search.error < best.error)
      best = search;
  packLevels(best.u, bitsOfU(), codes);
  packLevels(best.v, bitsOfV(), codes + n * bitsOfU() / 8);
  scales[0] = float(best.scaleOfU * size);
  scales[1] = float(best.scaleOfV * size / std::sqrt(double(n)));
}

void KashinCode::decode(const uint8_t *codes, const float *scales,
                        float *values) const {
  std::array<int32_t, n> u = unpackLevels(codes, bitsOfU());
  std::array<int32_t, n> v = unpackLevels(codes + n * bitsOfU() / 8, bitsOfV());
  transform(v);
  for (int64_t i = 0; i < n; ++i)
    values[i] = float(double(scales[0]) * u[i] + double(scales[1]) * v[i]);
}
