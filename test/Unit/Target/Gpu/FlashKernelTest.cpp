//===- FlashKernelTest.cpp - Attention on tensor cores --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels round two kinds of values to 16 bits: the results, and the
// probabilities and their gradients before a matmul reads them. The results are
// compared with an f64 computation on the same inputs. In bf16, the error of an
// element y = sum_i t_i may be at most 2^-8 (|y| + sum_i |t_i|), plus small
// terms for products of two rounding errors and for f32 arithmetic.
//
// q, k and v share the rows of one fused tensor, and so do their gradients. A
// write outside a result therefore changes another checked value. The expected
// results use the dropout masks of the random generator, so a single wrong mask
// bit is detected.
//
//===----------------------------------------------------------------------===//

#include "Flash.h"
#include "KernelPair.h"

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Rng.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace kiln::gpu;
using namespace kiln::support;
using namespace kiln::test;
using namespace kiln;

namespace {

struct Case {
  int64_t sequences, length, heads, kvHeads, headDim;
  bool causal;
  double dropout = 0;
  double scale = 0;    ///< Factor of the scores; 0: 1.1 / sqrt(headDim).
  int64_t padding = 0; ///< Padding columns per row of qkv.
  int64_t skip = 0;    ///< Offset of each 16-bit argument in bytes.
  bool takesRng = false;
  ElementType type = ElementType::BF16;
  int64_t rank = -1; ///< The rank with these heads, or -1 for all heads.
};

constexpr int64_t kKey = 3;
constexpr int64_t kRng[3] = {42, 7, 5}; // Seed, step, first sequence.
/// Relative error bound of f32 arithmetic, including 2^x.
constexpr double kArithmetic = 1e-5;

/// Converts to and from bf16 or f16, the type of all arguments except lse and
/// rng.
uint16_t narrowed(ElementType type, float x) {
  return type == ElementType::F16 ? doubleToHalf(x) : doubleToBfloat(x);
}

float widened(ElementType type, uint16_t x) {
  return type == ElementType::F16 ? halfToFloat(x) : bfloatToFloat(x);
}

std::vector<uint16_t> someNarrow(ElementType type, size_t count, double seed) {
  std::vector<uint16_t> values;
  for (float x : someFloats(count, seed))
    values.push_back(narrowed(type, x));
  return values;
}

/// The expected results and the error bounds of each element.
struct Expected {
  ElementType type;
  std::vector<double> value, rounded, computed, added;
  Expected(ElementType type, size_t count)
      : type(type), value(count), rounded(count), computed(count),
        added(count) {}
  /// Adds factor * x. The kernel computes `factor` from terms of the given
  /// magnitude and rounds it to the element type.
  void add(size_t at, double factor, double x, double magnitude) {
    value[at] += factor * x;
    rounded[at] += std::abs(factor * x);
    computed[at] += std::abs(magnitude * x);
    added[at] += std::abs(x);
  }
  void check(const std::vector<char> &bytes, const Place &place,
             const char *name) const {
    int64_t wrong = 0;
    double worst = 0;
    for (size_t i = 0; i < value.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, &bytes[place.offset + 2 * i], 2);
      // Bounds of the relative and the absolute error of rounding.
      double relative = infoOf(type).spacingAtOne / 2;
      double absolute = type == ElementType::F16 ? 0x1p-25 : 1e-30;
      double bound =
          relative * (rounded[i] + std::abs(value[i])) * (1 + relative) +
          kArithmetic * computed[i] + absolute * (1 + added[i]);
      float found = widened(type, bits);
      double error = std::abs(found - value[i]);
      if (!(error <= bound) && wrong++ == 0)
        ADD_FAILURE() << name << "[" << i << "] is " << found << ", expected "
                      << value[i] << " within " << bound;
      worst = std::max(worst, error / bound);
    }
    EXPECT_EQ(wrong, 0) << name;
    // Check that the bound is tight: a loose bound would hide a coarser
    // rounding.
    if (value.size() > 4096)
      EXPECT_GT(worst, 0.2) << name;
  }
};

class Problem {
public:
  explicit Problem(const Case &c);
  void checkForward();
  void checkBackward();

private:
  size_t at(int64_t s, int64_t row, int64_t head) const {
    return (s * c.length + row) * columns + head * c.headDim;
  }
  size_t oAt(int64_t s, int64_t row, int64_t head) const {
    return (s * c.length + row) * oColumns + head * c.headDim;
  }
  double dot(const std::vector<uint16_t> &x, size_t xAt,
             const std::vector<uint16_t> &y, size_t yAt) const {
    double sum = 0;
    for (int64_t i = 0; i < c.headDim; ++i)
      sum += double(widened(c.type, x[xAt + i])) * widened(c.type, y[yAt + i]);
    return sum;
  }
  double keepFactor(int64_t s, int64_t h, int64_t i, int64_t j) const;
  /// Checks that no bytes have changed outside of the ranges (offset, size) in
  /// `rows`.
  void checkUntouched(const std::vector<char> &bytes,
                      const std::vector<std::pair<size_t, size_t>> &rows);
  AttentionGradShape shape(mlir::Builder b) const;

  Case c;
  int64_t columns, oColumns;
  double scale;
  std::vector<uint16_t> qkv, dout, o;
  std::vector<float> lse;
  /// The probabilities of every query.
  std::vector<std::vector<double>> p;
  Expected expectedO, expectedLse;
  Memory memory;
  std::vector<int64_t> immediates;
  Place qkvPlace, rngPlace, oPlace, lsePlace, doutPlace, gradientsPlace;
};

Problem::Problem(const Case &given)
    : c(given), columns((c.heads + 2 * c.kvHeads) * c.headDim + c.padding),
      oColumns(c.heads * c.headDim),
      scale(c.scale ? c.scale : 1.1 / std::sqrt(c.headDim)),
      expectedO(c.type, c.sequences * c.length * oColumns),
      expectedLse(c.type, c.sequences * c.heads * c.length) {
  int64_t rows = c.sequences * c.length;
  qkv = someNarrow(c.type, rows * columns, 1);
  dout = someNarrow(c.type, rows * oColumns, 2);
  for (int64_t s = 0; s < c.sequences; ++s)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.length; ++i) {
        int64_t keys = c.causal ? i + 1 : c.length;
        int64_t kvHead = h / (c.heads / c.kvHeads);
        double maximum = -1e300, sum = 0;
        std::vector<double> x(keys);
        for (int64_t j = 0; j < keys; ++j) {
          x[j] = scale * dot(qkv, at(s, i, h), qkv, at(s, j, c.heads + kvHead));
          maximum = std::max(maximum, x[j]);
        }
        for (double &y : x)
          sum += y = std::exp(y - maximum);
        for (int64_t j = 0; j < keys; ++j) {
          x[j] /= sum;
          double weight = x[j] * keepFactor(s, h, i, j);
          size_t v = at(s, j, c.heads + c.kvHeads + kvHead);
          for (int64_t e = 0; e < c.headDim; ++e)
            expectedO.add(oAt(s, i, h) + e, weight, widened(c.type, qkv[v + e]),
                          weight);
        }
        expectedLse.value[(s * c.heads + h) * c.length + i] =
            maximum + std::log(sum);
        p.push_back(x);
      }
  for (double x : expectedO.value)
    o.push_back(narrowed(c.type, float(x)));
  for (double x : expectedLse.value)
    lse.push_back(float(x));

  qkvPlace = memory.add(qkv, c.skip);
  rngPlace =
      memory.add(std::vector<int64_t>{kRng[0], kRng[1], kRng[2], c.rank});
  oPlace = memory.add(o, c.skip);
  lsePlace = memory.add(lse);
  doutPlace = memory.add(dout, c.skip);
  gradientsPlace = memory.add(someNarrow(c.type, qkv.size(), 5), c.skip);
  int64_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  immediates = {kKey, bits};
}

double Problem::keepFactor(int64_t s, int64_t h, int64_t i, int64_t j) const {
  if (c.dropout == 0)
    return 1;
  h += std::max<int64_t>(c.rank, 0) * c.heads;
  uint64_t key =
      splitmix64(uint64_t(kRng[0]) + 0x9E3779B97F4A7C15 * (kKey + 1));
  auto words =
      philox4x32({uint32_t(j / 64 * 16 + j % 16), uint32_t(h * c.length + i),
                  uint32_t(kRng[2] + s), uint32_t(kRng[1])},
                 {uint32_t(key), uint32_t(key >> 32)});
  bool dropped = words[j / 16 % 4] < uint32_t(c.dropout * 0x1p32);
  return dropped ? 0 : 1 / (1 - c.dropout);
}

AttentionGradShape Problem::shape(mlir::Builder b) const {
  AttentionGradShape shape;
  shape.sequences = c.sequences;
  shape.length = c.length;
  shape.heads = c.heads;
  shape.kvHeads = c.kvHeads;
  shape.headDim = c.headDim;
  shape.causal = c.causal;
  shape.dropout = c.dropout;
  shape.takesRng = c.takesRng || c.dropout > 0;
  shape.dividesHeads = c.rank >= 0;
  shape.elementType = irTypeOf(c.type, b.getContext());
  shape.qStride = shape.kStride = shape.vStride = columns;
  shape.dqStride = shape.dkStride = shape.dvStride = columns;
  shape.oStride = shape.doutStride = oColumns;
  EXPECT_TRUE(suitsTensorCores(shape));
  return shape;
}

void Problem::checkUntouched(
    const std::vector<char> &bytes,
    const std::vector<std::pair<size_t, size_t>> &written) {
  std::vector<char> want = memory.bytes;
  for (auto [offset, size] : written)
    std::memcpy(&want[offset], &bytes[offset], size);
  EXPECT_TRUE(want == bytes) << "bytes outside of the results changed";
}

void Problem::checkForward() {
  std::vector<Place> args = {
      qkvPlace, from<uint16_t>(qkvPlace, c.heads * c.headDim),
      from<uint16_t>(qkvPlace, (c.heads + c.kvHeads) * c.headDim)};
  if (c.takesRng || c.dropout > 0)
    args.push_back(rngPlace);
  args.insert(args.end(), {written(oPlace), written(lsePlace)});
  Memory before = memory;
  std::memset(&before.bytes[oPlace.offset], 0xff, oPlace.bytes);
  std::memset(&before.bytes[lsePlace.offset], 0xff, lsePlace.bytes);
  std::vector<char> bytes =
      runOnGpu(before, args, immediates,
               [&](auto kernels, auto name, auto b, auto alignments) {
                 return emitFlashAttention(kernels, name, shape(b), alignments);
               });
  ASSERT_EQ(bytes.size(), memory.bytes.size());
  expectedO.check(bytes, oPlace, "o");
  for (size_t i = 0; i < lse.size(); ++i) {
    float got;
    std::memcpy(&got, &bytes[lsePlace.offset + 4 * i], 4);
    EXPECT_NEAR(got, expectedLse.value[i],
                kArithmetic * (1 + std::abs(expectedLse.value[i])))
        << "lse[" << i << "]";
  }
  checkUntouched(bytes, {{oPlace.offset, oPlace.bytes},
                         {lsePlace.offset, lsePlace.bytes}});
}

void Problem::checkBackward() {
  // Compute the expected gradients from the o and lse that are passed to the
  // kernel.
  Expected expected(c.type, qkv.size());
  std::vector<std::pair<size_t, size_t>> rows;
  for (int64_t s = 0, row = 0; s < c.sequences; ++s)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.length; ++i, ++row) {
        int64_t kvHead = h / (c.heads / c.kvHeads);
        size_t q = at(s, i, h), out = oAt(s, i, h);
        double sum = dot(dout, out, o, out);
        for (size_t j = 0; j < p[row].size(); ++j) {
          size_t k = at(s, j, c.heads + kvHead);
          size_t v = at(s, j, c.heads + c.kvHeads + kvHead);
          double keep = keepFactor(s, h, i, j), x = p[row][j];
          double dp = dot(dout, out, qkv, v) * keep;
          double ds = scale * x * (dp - sum);
          double size = std::abs(scale * x) * (std::abs(dp) + std::abs(sum));
          for (int64_t e = 0; e < c.headDim; ++e) {
            expected.add(q + e, ds, widened(c.type, qkv[k + e]), size);
            expected.add(k + e, ds, widened(c.type, qkv[q + e]), size);
            expected.add(v + e, x * keep, widened(c.type, dout[out + e]),
                         x * keep);
          }
        }
      }
  std::vector<Place> args = {
      qkvPlace,
      from<uint16_t>(qkvPlace, c.heads * c.headDim),
      from<uint16_t>(qkvPlace, (c.heads + c.kvHeads) * c.headDim),
      oPlace,
      lsePlace,
      doutPlace};
  if (c.takesRng || c.dropout > 0)
    args.push_back(rngPlace);
  Place dq = written(gradientsPlace);
  args.insert(args.end(),
              {dq, from<uint16_t>(dq, c.heads * c.headDim),
               from<uint16_t>(dq, (c.heads + c.kvHeads) * c.headDim)});
  std::vector<char> bytes = runOnGpu(
      memory, args, immediates,
      [&](auto kernels, auto name, auto b, auto alignments) {
        return emitFlashAttentionGrad(kernels, name, shape(b), alignments);
      });
  ASSERT_EQ(bytes.size(), memory.bytes.size());
  size_t rowBytes = (columns - c.padding) * 2;
  for (int64_t row = 0; row < c.sequences * c.length; ++row) {
    rows.push_back({gradientsPlace.offset + row * columns * 2, rowBytes});
    // Row padding must not change.
    for (int64_t column = columns - c.padding; column < columns; ++column) {
      uint16_t bits;
      std::memcpy(
          &bits,
          &memory.bytes[gradientsPlace.offset + (row * columns + column) * 2],
          2);
      expected.value[row * columns + column] = widened(c.type, bits);
    }
  }
  expected.check(bytes, gradientsPlace, "gradients");
  checkUntouched(bytes, rows);
}

void check(const Case &c) {
  SCOPED_TRACE(testing::Message()
               << "sequences " << c.sequences << " length " << c.length
               << " heads " << c.heads << "/" << c.kvHeads << " head dim "
               << c.headDim << " causal " << c.causal << " dropout "
               << c.dropout << " scale " << c.scale << " padding " << c.padding
               << " skip " << c.skip << " " << infoOf(c.type).name);
  Problem problem(c);
  {
    SCOPED_TRACE("forward");
    problem.checkForward();
  }
  SCOPED_TRACE("backward");
  problem.checkBackward();
}

TEST(FlashKernel, Causal) {
  check({1, 200, 1, 1, 64, true});
  check({1, 128, 1, 1, 32, true});
}

TEST(FlashKernel, NotCausal) {
  check({1, 130, 1, 1, 64, false});
  check({1, 128, 1, 1, 32, false});
}

TEST(FlashKernel, HeadDimensions) {
  check({1, 70, 1, 1, 16, true});
  check({1, 100, 1, 1, 80, true});
  check({1, 70, 1, 1, 96, false});
  check({1, 70, 1, 1, 112, true});
  check({1, 100, 1, 1, 128, true});
}

TEST(FlashKernel, GroupedQueries) {
  check({2, 40, 6, 2, 32, true});
  check({1, 70, 6, 2, 16, false});
}

TEST(FlashKernel, ShortSequences) {
  check({2, 1, 2, 1, 16, true});
  check({1, 17, 2, 2, 64, true});
  check({3, 64, 1, 1, 16, true});
}

TEST(FlashKernel, Dropout) {
  check({2, 70, 2, 1, 32, true, 0.1});
  check({1, 50, 1, 1, 32, true, 0.2});
  check({1, 100, 1, 1, 128, false, 0.3});
  check({1, 20, 1, 1, 16, true, 0, 0, 0, 0, /*takesRng=*/true});
  check({2, 40, 2, 1, 32, true, 0.2, 0, 0, 0, /*takesRng=*/true,
         ElementType::BF16, /*rank=*/2});
}

TEST(FlashKernel, Scales) {
  check({1, 33, 1, 1, 16, true, 0, /*scale=*/-0.3});
  check({1, 33, 1, 1, 16, true, 0, /*scale=*/1e-30});
  check({1, 70, 1, 1, 16, false, 0, /*scale=*/-1e-20});
  // One probability is 1 and the others are close to 0.
  check({1, 33, 1, 1, 16, false, 0, /*scale=*/20});
}

TEST(FlashKernel, OddPlaces) {
  for (auto [padding, skip] : {std::pair{4, 0}, {2, 0}, {1, 0}, {0, 2}})
    check({1, 33, 2, 1, 16, true, 0, 0, padding, skip});
}

TEST(FlashKernel, Halves) {
  Case c = {1, 130, 2, 1, 64, true};
  c.type = ElementType::F16;
  check(c);
  c = {1, 70, 1, 1, 32, false, 0.1, 0, /*padding=*/1};
  c.type = ElementType::F16;
  check(c);
}

TEST(FlashKernel, SuitsHalvesAndWholeGroupsOfColumns) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::Builder b(&context);
  AttentionShape shape;
  shape.elementType = b.getBF16Type();
  for (int64_t dim : {16, 64, 80, 128}) {
    shape.headDim = dim;
    shape.elementType = b.getF16Type();
    EXPECT_TRUE(suitsTensorCores(shape)) << dim;
    shape.elementType = b.getBF16Type();
    EXPECT_TRUE(suitsTensorCores(shape)) << dim;
  }
  for (int64_t dim : {8, 40, 144, 256}) {
    shape.headDim = dim;
    EXPECT_FALSE(suitsTensorCores(shape)) << dim;
  }
  shape.headDim = 64;
  shape.elementType = b.getF32Type();
  EXPECT_FALSE(suitsTensorCores(shape));
}

} // namespace
