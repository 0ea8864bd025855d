//===- Int8Test.cpp - Weights of eight bits with outlier inputs -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Int8.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/PackedFormat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace kiln::support;

namespace {

using Floats = std::vector<float>;

Floats normal(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  Floats values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(distribution(generator));
  return values;
}

std::vector<char> encode(const Int8Layout &layout, const Floats &values) {
  std::vector<char> bytes(size_t(layout.bytes), char(0x5a));
  Int8Encoder encoder(layout, bytes.data());
  encoder.survey(values.data(), layout.elements);
  encoder.append(values.data(), layout.elements);
  EXPECT_TRUE(encoder.finish());
  return bytes;
}

Floats decode(const Int8Layout &layout, const std::vector<char> &bytes) {
  Floats values(size_t(layout.elements), NAN);
  decodeInt8(bytes.data(), layout, 0, layout.elements, values.data());
  return values;
}

template <typename T>
std::vector<T> part(const std::vector<char> &bytes, int64_t place,
                    int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  std::memcpy(values.data(), bytes.data() + place, values.size() * sizeof(T));
  return values;
}

int64_t bytesOf(int64_t rows, int64_t columns, const Int8Options &options) {
  return Int8Layout(rows, columns, options).bytes;
}

TEST(Int8, SizesAreExact) {
  EXPECT_EQ(bytesOf(8, 8, {}), 64 + 4);
  EXPECT_EQ(bytesOf(8, 8, {8, 0, 0}), 64 + 4 * 8);
  // 5 x 13: 65 codes, 3 bytes of padding, and 2 or 5 scales.
  EXPECT_EQ(bytesOf(5, 13, {}), 68 + 8);
  EXPECT_EQ(bytesOf(5, 13, {13, 0, 0}), 68 + 20);
  // Three outlier inputs have three indexes of 4 bytes, and 13 or 5 bf16
  // elements each, whose total size is padded to a multiple of 4 bytes.
  EXPECT_EQ(bytesOf(5, 13, {64, 3, 0}), 68 + 8 + 12 + 80);
  EXPECT_EQ(bytesOf(5, 13, {64, 3, 1}), 68 + 8 + 12 + 32);
  EXPECT_EQ(bytesOf(768, 2304, {64, 4, 0}),
            768 * 2304 + 768 * 2304 / 16 + 4 * 4 + 2 * 4 * 2304);
}

TEST(Int8, OptionsThatDoNotFit) {
  auto problem = [](Int8Options options) {
    return Int8Layout::problem(5, 13, options);
  };
  EXPECT_EQ(problem({64, 0, 0}), "");
  EXPECT_EQ(problem({13, 5, 0}), "");
  EXPECT_EQ(problem({64, 13, 1}), "");
  EXPECT_EQ(problem({5, 0, 0}),
            "has blocks of 5 elements, expected 64 or 13, the length of a row");
  EXPECT_EQ(problem({64, 6, 0}),
            "has 6 outliers, expected 0 to 5, the number of inputs");
  EXPECT_EQ(problem({64, 14, 1}),
            "has 14 outliers, expected 0 to 13, the number of inputs");
  EXPECT_EQ(problem({64, -1, 0}),
            "has -1 outliers, expected 0 to 5, the number of inputs");
  EXPECT_EQ(problem({64, 1, 2}), "has inputs in dimension 2, expected 0 or 1");
  EXPECT_EQ(problem({64, 0, 1}),
            "has inputs in dimension 1 and no outliers, expected dimension 0");
}

/// Without outliers, the codes and scales are those of kilnc --quantize=int8.
TEST(Int8, EqualsThePackedFormat) {
  Int8Layout layout(9, 37, {});
  Floats values = normal(layout.elements, 1);
  std::vector<char> bytes = encode(layout, values);
  PackedFormat format = *PackedFormat::named("int8");
  std::vector<uint8_t> codes(size_t(layout.elements));
  Floats scales(size_t(layout.blocks));
  format.encode(values.data(), layout.elements, codes.data(), scales.data());
  EXPECT_EQ(part<uint8_t>(bytes, 0, layout.elements), codes);
  EXPECT_EQ(part<float>(bytes, layout.scalesAt, layout.blocks), scales);
  Floats want(values.size());
  format.decode(codes.data(), scales.data(), layout.elements, want.data());
  EXPECT_EQ(decode(layout, bytes), want);
}

TEST(Int8, OutliersAreTheLargestInputs) {
  // Inputs 1 and 4 have the largest magnitudes. Inputs 0 and 3 have equal
  // magnitudes, and input 2 has the smallest.
  for (int64_t inputs : {0, 1}) {
    SCOPED_TRACE(inputs);
    const float magnitudes[] = {2, 9, 1, 2, 7};
    Floats values;
    for (int64_t i = 0; i < 15; ++i) {
      int64_t input = inputs == 0 ? i / 3 : i % 5;
      int64_t output = inputs == 0 ? i % 3 : i / 5;
      values.push_back(output == 1 ? -magnitudes[input] : 0.5f);
    }
    Int8Layout layout(inputs == 0 ? 5 : 3, inputs == 0 ? 3 : 5,
                      {64, 3, inputs});
    std::vector<char> bytes = encode(layout, values);
    EXPECT_EQ(part<int32_t>(bytes, layout.outlierIndexesAt, 3),
              (std::vector<int32_t>{0, 1, 4}));
    // Outliers are exact, have the code -128, and do not affect the scale.
    EXPECT_EQ(part<float>(bytes, layout.scalesAt, 1), Floats{2.f / 127});
    std::vector<int8_t> codes = part<int8_t>(bytes, 0, 15);
    Floats decoded = decode(layout, bytes);
    std::vector<uint16_t> stored;
    for (size_t i = 0; i < 15; ++i) {
      int64_t input = layout.inputOf(int64_t(i));
      bool isOutlier = input == 0 || input == 1 || input == 4;
      EXPECT_EQ(codes[i] == -128, isOutlier) << i;
      if (isOutlier) {
        EXPECT_EQ(decoded[i], values[i]) << i;
        stored.push_back(doubleToBfloat(values[i]));
      } else {
        EXPECT_EQ(decoded[i], 2.f / 127 * float(codes[i])) << i;
      }
    }
    EXPECT_EQ(part<uint16_t>(bytes, layout.outlierValuesAt, 9), stored);
  }
}

TEST(Int8, ChunksDoNotMatter) {
  for (Int8Options options : {Int8Options{64, 0, 0},
                              {64, 3, 0},
                              {64, 3, 1},
                              {29, 0, 0},
                              {29, 29, 1}}) {
    Int8Layout layout(23, 29, options);
    Floats values = normal(layout.elements, 2);
    std::vector<char> whole = encode(layout, values);
    std::vector<char> bytes(whole.size(), char(0xa5));
    Int8Encoder encoder(layout, bytes.data());
    for (int64_t i = 0; i < layout.elements; i += 17)
      encoder.survey(values.data() + i,
                     std::min<int64_t>(17, layout.elements - i));
    int64_t chunk = 2 * layout.block;
    for (int64_t i = 0; i < layout.elements; i += chunk)
      encoder.append(values.data() + i, std::min(chunk, layout.elements - i));
    EXPECT_TRUE(encoder.finish());
    EXPECT_EQ(bytes, whole);
    // Elements that are decoded in small ranges have the same values.
    Floats decoded = decode(layout, whole), parts(decoded.size());
    for (int64_t i = 0; i < layout.elements; i += 7)
      decodeInt8(bytes.data(), layout, i,
                 std::min<int64_t>(7, layout.elements - i), parts.data() + i);
    EXPECT_EQ(parts, decoded);
  }
}

TEST(Int8, ErrorIsAtMostHalfAStep) {
  for (int64_t block : {64, 100}) {
    Int8Layout layout(31, 100, {block, 5, 1});
    Floats values = normal(layout.elements, 3);
    std::vector<char> bytes = encode(layout, values);
    Floats decoded = decode(layout, bytes);
    Floats scales = part<float>(bytes, layout.scalesAt, layout.blocks);
    std::vector<int8_t> codes = part<int8_t>(bytes, 0, layout.elements);
    for (size_t i = 0; i < values.size(); ++i) {
      bool isOutlier = codes[i] == Int8Layout::outlierCode;
      float most = isOutlier ? std::fabs(values[i]) / 256
                             : scales[i / size_t(block)] * 0.50001f;
      EXPECT_LE(std::fabs(decoded[i] - values[i]), most) << i;
    }
  }
}

TEST(Int8, ExtremeValues) {
  constexpr float most = std::numeric_limits<float>::max();
  Int8Layout layout(2, 2, {64, 1, 1});
  // The first column is an outlier. Rounding its elements to bf16 would give
  // infinities, so they become the largest finite bf16 numbers instead.
  Floats decoded = decode(layout, encode(layout, {most, 0, -most, 1e-45f}));
  EXPECT_EQ(decoded,
            (Floats{3.3895313892515355e38f, 0, -3.3895313892515355e38f, 0}));
  Floats zeros = decode(layout, encode(layout, {0, 0, 0, 0}));
  EXPECT_EQ(zeros, Floats(4, 0.f));
}

TEST(Int8, FindsWhatIsNotFinite) {
  for (float bad : {INFINITY, -INFINITY, NAN})
    for (int64_t place : {0, 70, 129}) {
      Int8Layout layout(13, 10, {64, 2, 1});
      Floats values = normal(layout.elements, 4);
      values[size_t(place)] = bad;
      values.back() = bad;
      std::vector<char> bytes(size_t(layout.bytes));
      Int8Encoder encoder(layout, bytes.data());
      encoder.survey(values.data(), layout.elements);
      encoder.append(values.data(), layout.elements);
      EXPECT_EQ(encoder.firstNonFinite(), place);
      EXPECT_FALSE(encoder.finish());
    }
}

/// Returns |x dw^T| / |x w^T| for a weight w and the error dw of its encoding.
/// Each column of x and w belongs to one input.
double matmulError(const Floats &x, const Floats &w, int64_t inputs,
                   const Int8Options &options) {
  int64_t outputs = int64_t(w.size()) / inputs;
  Int8Layout layout(outputs, inputs, options);
  Floats decoded = decode(layout, encode(layout, w));
  double error = 0, norm = 0;
  for (int64_t row = 0; row < int64_t(x.size()) / inputs; ++row)
    for (int64_t output = 0; output < outputs; ++output) {
      double y = 0, z = 0;
      for (int64_t i = 0; i < inputs; ++i) {
        double value = x[size_t(row * inputs + i)];
        size_t at = size_t(output * inputs + i);
        y += value * w[at];
        z += value * (double(decoded[at]) - w[at]);
      }
      norm += y * y;
      error += z * z;
    }
  return std::sqrt(error / norm);
}

/// If the weights of an input are 60 times as large as other weights, they
/// spoil the scales of all blocks that contain them, unless the input is stored
/// as an outlier. If the activations of an input are 60 times as large, they
/// multiply the error of its weights.
TEST(Int8, OutliersKeepTheErrorOfAMatmulBelowOnePercent) {
  constexpr int64_t inputs = 256, outputs = 128, rows = 32;
  constexpr int64_t largeWeights[] = {5, 77, 130, 201};
  constexpr int64_t largeActivations[] = {17, 90, 166, 240};
  Floats w = normal(outputs * inputs, 5), x = normal(rows * inputs, 6);
  for (int64_t output = 0; output < outputs; ++output)
    for (int64_t i : largeWeights)
      w[size_t(output * inputs + i)] *= 60;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i : largeActivations)
      x[size_t(row * inputs + i)] *= 60;
  for (int64_t block : {Int8Layout::blockElements, inputs}) {
    double plain = matmulError(x, w, inputs, {block, 0, 0});
    double kept = matmulError(x, w, inputs, {block, 4, 1});
    EXPECT_GT(plain, 1e-2);
    EXPECT_LT(kept, 1e-2);
  }
}

} // namespace
