//===- TensorCore.cpp - Matrix operations of emulated warps ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorCore.h"

#include "kiln/Support/ElementConversion.h"

#include <cstring>

using namespace kiln::runtime;
using namespace kiln;

namespace {

/// `side` is the number of rows and of columns of a loaded matrix, and `inWord`
/// is the number of elements per 32-bit word.
constexpr int64_t side = 8, inWord = 2;
/// The shape of the matmul of one instruction: [mmaRows, mmaDepth] times
/// [mmaDepth, mmaColumns].
constexpr int64_t mmaRows = 16, mmaColumns = 8, mmaDepth = 16;

float toFloat(uint32_t bits, bool isHalf) {
  if (isHalf)
    return support::halfToFloat(static_cast<uint16_t>(bits));
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Unpacks the two elements of a word.
void unpack(uint32_t word, bool isHalf, float &first, float &second) {
  first = toFloat(word & 0xffff, isHalf);
  second = toFloat(word >> 16, isHalf);
}

} // namespace

void emu::loadMatrices(const std::array<MatrixLoad, tensorLanes> &lanes,
                       int32_t count, bool isTransposed) {
  for (int32_t m = 0; m < count; ++m) {
    uint16_t matrix[side][side];
    for (int64_t r = 0; r < side; ++r)
      std::memcpy(matrix[r], lanes[m * side + r].row, sizeof(matrix[r]));
    for (int64_t lane = 0; lane < tensorLanes; ++lane) {
      int64_t g = lane / 4, pair = inWord * (lane % 4);
      uint32_t low = isTransposed ? matrix[pair][g] : matrix[g][pair];
      uint32_t high = isTransposed ? matrix[pair + 1][g] : matrix[g][pair + 1];
      lanes[lane].words[m] = low | high << 16;
    }
  }
}

void emu::multiplyMatrices(const std::array<Mma, tensorLanes> &lanes,
                           bool isHalf) {
  float a[mmaRows][mmaDepth], b[mmaDepth][mmaColumns];
  float sums[mmaRows][mmaColumns];
  for (int64_t lane = 0; lane < tensorLanes; ++lane) {
    int64_t g = lane / 4, pair = inWord * (lane % 4);
    const Mma &part = lanes[lane];
    for (int64_t word = 0; word < 4; ++word) {
      int64_t row = g + word % 2 * side, column = pair + word / 2 * side;
      unpack(part.words[word], isHalf, a[row][column], a[row][column + 1]);
    }
    for (int64_t word = 0; word < 2; ++word) {
      int64_t row = pair + word * side;
      unpack(part.words[4 + word], isHalf, b[row][g], b[row + 1][g]);
    }
    for (int64_t i = 0; i < 4; ++i)
      sums[g + i / 2 * side][pair + i % 2] = part.sums[i];
  }
  for (int64_t row = 0; row < mmaRows; ++row)
    for (int64_t term = 0; term < mmaDepth; ++term)
      for (int64_t column = 0; column < mmaColumns; ++column)
        sums[row][column] += a[row][term] * b[term][column];
  for (int64_t lane = 0; lane < tensorLanes; ++lane) {
    int64_t g = lane / 4, pair = inWord * (lane % 4);
    for (int64_t i = 0; i < 4; ++i)
      lanes[lane].sums[i] = sums[g + i / 2 * side][pair + i % 2];
  }
}

// Uses 2^x = 2^n e^((x - n) ln 2), where n is the integer nearest to x. The
// Taylor series of e^y up to y^8 has an error of at most 2^-32 for |y| <= (ln
// 2) / 2.
float emu::exp2(float x) {
  if (x != x)
    return x;
  if (x < -126)
    return 0;
  if (x >= 128)
    return __builtin_inff();
  int64_t n = int64_t(x + (x < 0 ? -0.5f : 0.5f));
  double r = (double(x) - double(n)) * 0.69314718055994530942;
  double sum = 1;
  for (int64_t power = 8; power > 0; --power)
    sum = 1 + sum * r / double(power);
  uint64_t bits = uint64_t(n + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return float(sum * scale);
}
