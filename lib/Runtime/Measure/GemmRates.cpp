//===- GemmRates.cpp - GEMM performance measurements ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmRates.h"

#include "../Engine/AmxGemm.h"
#include "../Engine/Avx512Gemm.h"
#include "../Engine/GemmTiles.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Abi/GemmGrid.h"
#include "kiln/Support/ElementConversion.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>

using namespace kiln::abi;

namespace kiln::runtime {

/// The values of m, n and k for which GEMMs are measured. Beyond the largest
/// value, the rate is nearly constant.
static constexpr std::array<int64_t, 7> axis = {1, 16, 64, 128, 256, 512, 2048};
static constexpr std::size_t points = axis.size();
static constexpr std::size_t kinds = 3;

/// Fills `bytes` with numbers between -0.5 and 0.5.
static void fill(std::vector<char> &bytes, ElementType type) {
  std::size_t size = std::size_t(bytesOf(type));
  uint32_t state = 1;
  for (std::size_t i = 0; i < bytes.size() / size; ++i) {
    state = state * 1664525u + 1013904223u;
    double value = double(state >> 8) / double(1 << 24) - 0.5;
    convertElements(ElementType::F64, &value, type, bytes.data() + i * size, 1);
  }
}

GemmRates::GemmRates(ElementType type, ThreadTeam &team, Sampler &sampler)
    : type_(type), team_(team), sampler_(sampler) {
  std::size_t bytes =
      std::size_t(axis.back() * axis.back()) * std::size_t(bitsOf(type)) / 8;
  for (std::vector<char> *operand : {&a_, &b_, &c_}) {
    operand->resize(bytes);
    fill(*operand, type);
  }
  for (int64_t m : axis)
    for (int64_t n : axis)
      for (int64_t k : axis)
        for (std::size_t kind = 0; kind < kinds; ++kind)
          subjects_.push_back(sampler.add([=](int64_t count) {
            for (int64_t i = 0; i < count; ++i)
              multiply(kind, m, n, k);
          }));
}

/// Computes one GEMM with the tiles, the kernel and the threads of an
/// executable that is compiled for this machine with --gemm=auto.
void GemmRates::multiply(std::size_t kind, int64_t m, int64_t n, int64_t k) {
  Command command;
  command.kind = Command::Kind::Gemm;
  command.type = type_;
  command.resultType = type_;
  command.gemmKernel = hasAmxGemm(type_)      ? GemmKernel::Amx
                       : hasAvx512Gemm(type_) ? GemmKernel::Avx512
                                              : GemmKernel::Blas;
  command.m = m;
  command.n = n;
  command.k = k;
  command.a.trans = kind == 2;
  command.b.trans = kind == 1;
  command.a.ld = command.a.trans ? m : k;
  command.b.ld = command.b.trans ? k : n;
  command.c.ld = n;
  std::tie(command.gridM, command.gridN) =
      chooseGemmGrid(m, n, k, command.a.trans, team_.size());
  int64_t scratchBytes = tileScratchBytes(command);
  std::size_t needed = std::size_t(scratchBytes * team_.size());
  if (scratch_.size() < needed + slotAlignment)
    scratch_.resize(needed + slotAlignment);
  char *scratch = scratch_.data();
  scratch += -reinterpret_cast<std::uintptr_t>(scratch) % slotAlignment;
  GemmPlaces places = {a_.data(), b_.data(), c_.data()};
  team_.forEachPart(
      gemmTiles(command), [&](int64_t begin, int64_t end, int thread) {
        for (int64_t index = begin; index < end; ++index) {
          GemmTile tile = gemmTile(command, index);
          if (!tile.empty())
            computeTile(command, tile, places,
                        /*accumulate=*/false, scratch + scratchBytes * thread);
        }
      });
}

/// Makes the times monotonic in m, n and k. `below` is the maximum time over
/// all GEMMs that are at most as large in each dimension. `above` is the
/// minimum time over all GEMMs that are at least as large in each dimension.
/// Both are monotonic. Therefore their geometric mean, the result, is monotonic
/// too.
static std::vector<double> inOrder(const std::vector<double> &seconds) {
  constexpr std::size_t strides[3] = {points * points, points, 1};
  std::vector<double> below = seconds, above = seconds, mean(seconds.size());
  for (std::size_t index = 0; index < seconds.size(); ++index)
    for (std::size_t stride : strides)
      if (index / stride % points > 0)
        below[index] = std::max(below[index], below[index - stride]);
  for (std::size_t index = seconds.size(); index-- > 0;)
    for (std::size_t stride : strides)
      if (index / stride % points + 1 < points)
        above[index] = std::min(above[index], above[index + stride]);
  for (std::size_t index = 0; index < seconds.size(); ++index)
    mean[index] = std::sqrt(below[index] * above[index]);
  return mean;
}

std::string GemmRates::json() const {
  std::vector<double> seconds;
  for (std::size_t index = 0; index < subjects_.size(); index += kinds) {
    double sum = 0;
    for (std::size_t kind = 0; kind < kinds; ++kind)
      sum += sampler_.seconds(subjects_[index + kind]);
    seconds.push_back(sum / kinds);
  }
  seconds = inOrder(seconds);

  std::string sizes, rows;
  for (int64_t size : axis)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  for (std::size_t index = 0; index < seconds.size(); ++index) {
    std::size_t m = index / points / points, n = index / points % points,
                k = index % points;
    double flops = 2.0 * double(axis[m]) * double(axis[n]) * double(axis[k]);
    // After the rates are rounded, a larger GEMM must still not take less time
    // than a smaller one.
    double least = 0;
    if (m > 0)
      least = std::max(least, seconds[index - points * points]);
    if (n > 0)
      least = std::max(least, seconds[index - points]);
    if (k > 0)
      least = std::max(least, seconds[index - 1]);
    double rate = roundedDown(flops / std::max(seconds[index], least));
    seconds[index] = flops / rate;
    if (k == 0)
      rows += n == 0 ? (index ? "], [[" : "[[") : ", [";
    rows += (k ? ", " : "") + numberText(rate);
    if (k + 1 == points)
      rows += "]";
  }
  return "{\"m\": [" + sizes + "], \"n\": [" + sizes + "], \"k\": [" + sizes +
         "], \"flop_per_s\": [" + rows + "]]}";
}

double roundedDown(double value) {
  // Parse the four digits and the exponent as text, instead of multiplying by a
  // power of ten, so that the shortest text for the result has exactly these
  // digits.
  int exponent = int(std::floor(std::log10(value))) - 3;
  auto digits = int64_t(std::floor(value / std::pow(10.0, exponent)));
  return std::stod(std::to_string(digits) + "e" + std::to_string(exponent));
}

std::string numberText(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

} // namespace kiln::runtime
