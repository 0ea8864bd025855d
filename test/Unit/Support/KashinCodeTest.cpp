//===- KashinCodeTest.cpp - Tests of overdetermined codes -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the reconstruction errors of Kashin codes with those of codes with
// the same number of bits per weight, codebooks and scales included.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/KashinCode.h"
#include "kiln/Support/PackedFormat.h"
#include "kiln/Support/Rng.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace kiln::support;

namespace {

constexpr int64_t rows = 64, columns = 1024, elements = rows * columns;

/// Returns a uniformly distributed number in [0, 1). Different values of
/// `which` give independent numbers for the same element `i`.
double uniform(int64_t i, uint64_t which) {
  auto bits = philox4x32(uint64_t(i), which);
  return uniformFromBits(bits[0], bits[1]);
}

double normal(int64_t i, uint64_t which) {
  return std::sqrt(-2 * std::log(1 - uniform(i, 2 * which))) *
         std::cos(2 * M_PI * uniform(i, 2 * which + 1));
}

std::vector<float> matrix(const std::function<double(int64_t)> &element) {
  std::vector<float> values;
  for (int64_t i = 0; i < elements; ++i)
    values.push_back(float(element(i)));
  return values;
}

std::vector<float> gaussian() {
  return matrix([](int64_t i) { return normal(i, 1); });
}

/// Returns elements with Student's t distribution with three degrees of
/// freedom.
std::vector<float> studentT() {
  return matrix([](int64_t i) {
    double squares = 0;
    for (uint64_t k = 2; k < 5; ++k)
      squares += normal(i, k) * normal(i, k);
    return normal(i, 1) / std::sqrt(squares / 3);
  });
}

/// Returns normally distributed elements, of which one in 200, at random
/// places, is multiplied by 20.
std::vector<float> sparseOutliers() {
  return matrix([](int64_t i) {
    return normal(i, 1) * (uniform(i, 20) < 0.005 ? 20 : 1);
  });
}

/// Returns normally distributed elements, of which eight columns are multiplied
/// by 20.
std::vector<float> outlierColumns() {
  return matrix([](int64_t i) {
    return normal(i, 1) * (i % columns % 128 == 37 ? 20 : 1);
  });
}

/// Returns normally distributed elements. The elements of sixteen columns, two
/// in each block, are multiplied by 60.
std::vector<float> hugeColumns() {
  return matrix([](int64_t i) {
    return normal(i, 1) *
           (i % columns % 128 == 37 || i % columns % 128 == 90 ? 60 : 1);
  });
}

/// Returns the sum of squared errors, divided by the sum of squared weights.
double relativeError(const std::vector<float> &weights,
                     const std::vector<float> &decoded) {
  double error = 0, squares = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    error += std::pow(double(decoded[i]) - weights[i], 2);
    squares += std::pow(double(weights[i]), 2);
  }
  return error / squares;
}

double formatError(const std::vector<float> &weights, const char *name) {
  PackedFormat format = *PackedFormat::named(name);
  std::vector<uint8_t> codes(size_t(format.codeBytes(elements)));
  std::vector<float> scales(
      size_t(format.blocks(elements) * format.scalesPerBlock()));
  format.encode(weights.data(), elements, codes.data(), scales.data());
  std::vector<float> decoded(weights.size());
  format.decode(codes.data(), scales.data(), elements, decoded.data());
  return relativeError(weights, decoded);
}

/// Returns the error of symmetric codes with equal steps and one f32 scale for
/// each 64 weights, which take bits + 0.5 bits per weight. `bits` is 4 or less.
double uniformError(const std::vector<float> &weights, int bits) {
  std::vector<float> decoded;
  const float largest = float((1 << (bits - 1)) - 1);
  for (auto block = weights.begin(); block != weights.end(); block += 64) {
    float magnitude = 0;
    for (auto x = block; x != block + 64; ++x)
      magnitude = std::max(magnitude, std::fabs(*x));
    float scale = magnitude / largest;
    for (auto x = block; x != block + 64; ++x)
      decoded.push_back(scale * std::nearbyint(*x / scale));
  }
  return relativeError(weights, decoded);
}

/// Runs Lloyd's algorithm in one dimension. Returns the sum of squared errors.
double lloyd(const std::vector<double> &sorted, std::vector<double> centroids) {
  double error = 0;
  for (int iteration = 0; iteration < 60; ++iteration) {
    std::sort(centroids.begin(), centroids.end());
    std::vector<double> sums(centroids.size(), 0), counts(centroids.size(), 0);
    error = 0;
    size_t nearest = 0;
    for (double x : sorted) {
      while (nearest + 1 < centroids.size() &&
             std::fabs(centroids[nearest + 1] - x) <=
                 std::fabs(centroids[nearest] - x))
        ++nearest;
      sums[nearest] += x;
      counts[nearest] += 1;
      error += std::pow(centroids[nearest] - x, 2);
    }
    for (size_t i = 0; i < centroids.size(); ++i)
      if (counts[i] > 0)
        centroids[i] = sums[i] / counts[i];
  }
  return error;
}

/// Returns the error of k-means codes with one codebook of 2^bits f32 values
/// for each group of weights. A group is so large that its codebook takes 0.5
/// bits per weight, so the codes take bits + 0.5 bits per weight. The best of
/// three initial codebooks is used for each group.
double kMeansError(const std::vector<float> &weights, int bits) {
  const int64_t count = int64_t(1) << bits, group = 64 * count;
  double error = 0, squares = 0;
  for (int64_t first = 0; first < elements; first += group) {
    std::vector<double> sorted(weights.begin() + first,
                               weights.begin() + first + group);
    for (double x : sorted)
      squares += x * x;
    std::sort(sorted.begin(), sorted.end());
    std::vector<double> quantiles, steps, dense;
    double most = std::max(-sorted.front(), sorted.back());
    for (int64_t i = 0; i < count; ++i) {
      double at = (double(i) + 0.5) / double(count);
      quantiles.push_back(sorted[size_t(at * double(group))]);
      steps.push_back(sorted.front() + at * (sorted.back() - sorted.front()));
      dense.push_back(most * (2 * at - 1) * std::fabs(2 * at - 1));
    }
    error += std::min(
        {lloyd(sorted, quantiles), lloyd(sorted, steps), lloyd(sorted, dense)});
  }
  return error / squares;
}

std::string kashin(int bits) { return "kashin:" + std::to_string(bits); }

struct Errors {
  double kashin, uniform, kMeans;
};

/// Compares codes of the same size and prints the errors, which docs/use/ptq.md
/// has in a table.
Errors compare(const char *name, const std::vector<float> &weights, int bits) {
  std::string format = kashin(bits);
  EXPECT_EQ(8.0 * double(PackedFormat::named(format)->bytes(elements)),
            (bits + 0.5) * double(elements));
  Errors errors = {formatError(weights, format.c_str()),
                   uniformError(weights, bits), kMeansError(weights, bits)};
  std::printf("%-16s %d bits: kashin %.4f, uniform %.4f, k-means %.4f\n", name,
              bits, errors.kashin, errors.uniform, errors.kMeans);
  return errors;
}

TEST(KashinCode, BeatsCodesOfTheSameSizeOnHeavyTails) {
  const std::pair<const char *, std::vector<float>> matrices[] = {
      {"student-t", studentT()},
      {"sparse outliers", sparseOutliers()},
      {"outlier columns", outlierColumns()}};
  for (const auto &[name, weights] : matrices)
    for (int bits = KashinCode::leastBits; bits <= KashinCode::mostBits;
         ++bits) {
      Errors errors = compare(name, weights, bits);
      EXPECT_LT(errors.kashin, 0.5 * errors.uniform) << name << " " << bits;
      EXPECT_LT(errors.kashin, errors.kMeans) << name << " " << bits;
    }
}

TEST(KashinCode, WithoutTails) {
  std::vector<float> weights = gaussian();
  for (int bits = KashinCode::leastBits; bits <= KashinCode::mostBits; ++bits) {
    Errors errors = compare("gaussian", weights, bits);
    EXPECT_LT(errors.kashin, errors.uniform);
    EXPECT_EQ(errors.kashin < errors.kMeans, bits == 2) << bits;
  }
}

TEST(KashinCode, WithHugeOutliers) {
  std::vector<float> weights = hugeColumns();
  for (int bits = KashinCode::leastBits; bits <= KashinCode::mostBits; ++bits) {
    Errors errors = compare("huge columns", weights, bits);
    EXPECT_EQ(errors.kashin < errors.uniform, bits == 4) << bits;
    EXPECT_GT(errors.kashin, errors.kMeans) << bits;
  }
}

TEST(KashinCode, ReferenceOfUniformCodesIsTheFormat) {
  std::vector<float> weights = gaussian();
  EXPECT_DOUBLE_EQ(uniformError(weights, 4), formatError(weights, "int4"));
}

TEST(KashinCode, FactorsAreFlat) {
  // A block with a single outlier is far from flat: the outlier is sqrt(128) =
  // 11.3 times the root mean square. The code stores the block as two factors,
  // whose largest levels are less than 2 times the root mean square.
  std::vector<float> values(KashinCode::blockElements, 0.f);
  values[17] = 1;
  for (int bits = KashinCode::leastBits; bits <= KashinCode::mostBits; ++bits) {
    KashinCode code(bits);
    std::vector<uint8_t> codes(size_t(code.blockBytes()));
    float scales[2];
    code.encode(values.data(), KashinCode::blockElements, codes.data(), scales);
    double rms = 1 / std::sqrt(128.0);
    double largestOfU = scales[0] * ((1 << code.bitsOfU()) - 1);
    double largestOfV =
        scales[1] * std::sqrt(128.0) * ((1 << code.bitsOfV()) - 1);
    EXPECT_LT(largestOfU, 2 * rms) << bits;
    EXPECT_LT(largestOfV, 2 * rms) << bits;
    std::vector<float> decoded(values.size());
    code.decode(codes.data(), scales, decoded.data());
    EXPECT_LT(relativeError(values, decoded), 0.05) << bits;
  }
}

TEST(KashinCode, DecodesByItsDefinition) {
  // A block with 3 bits per weight is stored as two factors: u has 1 bit per
  // weight, and v has 2 bits per weight. All codes of u are 0 except that of
  // element 5. The levels of v, 1 and -1, are row 6 of the Hadamard matrix.
  KashinCode code(3);
  std::vector<uint8_t> codes(size_t(code.blockBytes()), 0);
  ASSERT_EQ(codes.size(), 48u);
  codes[0] = 1 << 5;
  for (int i = 0; i < 128; ++i) {
    int level = __builtin_popcount(unsigned(i) & 6u) % 2 == 0 ? 2 : 1;
    codes[16 + size_t(i) / 4] |= uint8_t(level << (2 * (i % 4)));
  }
  const float scales[2] = {0.25f, 2};
  float values[128];
  code.decode(codes.data(), scales, values);
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(values[i], (i == 5 ? 0.25f : -0.25f) + (i == 6 ? 256.f : 0.f))
        << i;
}

TEST(KashinCode, ShortBlock) {
  KashinCode code(4);
  std::vector<float> values(40, 0.f), padded(128, 0.f);
  for (int64_t i = 0; i < 40; ++i)
    padded[size_t(i)] = values[size_t(i)] = float(normal(i, 1));
  std::vector<uint8_t> a(64), b(64);
  float scalesOfA[2], scalesOfB[2];
  code.encode(values.data(), 40, a.data(), scalesOfA);
  code.encode(padded.data(), 128, b.data(), scalesOfB);
  EXPECT_EQ(a, b);
  EXPECT_EQ(scalesOfA[0], scalesOfB[0]);
  EXPECT_EQ(scalesOfA[1], scalesOfB[1]);
}

} // namespace
