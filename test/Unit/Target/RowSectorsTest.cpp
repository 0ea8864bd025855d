//===- RowSectorsTest.cpp - Memory traffic of GPU row kernels -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory-bound kernels should access every byte once, in whole sectors. The
// emulated device has no caches, so repeated reads count each time.
//
//===----------------------------------------------------------------------===//

#include "ModelRows.h"

#include <gtest/gtest.h>

#include <cstdio>

using namespace kiln;
using namespace kiln::test;

namespace {

/// The size of GPT-2: kColumns columns, and kRows rows for 16 sequences of
/// 1,024 tokens. Tests whose result does not depend on the number of sequences
/// use kMostSplitRows rows, that is, 4 sequences.
constexpr int64_t kRows = 16384, kMostSplitRows = 4096, kColumns = 768;

/// The maximum of (sectors that a kernel of `type` accesses) / (sectors that a
/// single access to each argument needs).
struct Limit {
  const char *type;
  int64_t rows = kMostSplitRows;
  double most = 1.05;
};

void expectFewSectors(const char *name, const RowCase &rowCase,
                      const std::vector<Limit> &limits = {{"f32"}, {"bf16"}},
                      int64_t columns = kColumns) {
  for (auto [type, rows, most] : limits) {
    RowRunner runner;
    double ratio = runner.sectorRatio(rowCase, rows, columns, type);
    std::printf("%-28s %-4s %6ld x %5ld: %.3f of the least sectors\n", name,
                type, long(rows), long(columns), ratio);
    EXPECT_LE(ratio, most) << name << " " << type;
  }
}

TEST(RowSectors, Elementwise) { expectFewSectors("gelu", geluCase()); }

TEST(RowSectors, ValuesPerColumn) {
  expectFewSectors("affine", affineCase(), {{"f32", kRows}, {"bf16"}});
}

TEST(RowSectors, LayerNorm) {
  expectFewSectors("layer_norm", layerNormCase(),
                   {{"f32", kRows}, {"bf16", kRows}});
}

TEST(RowSectors, LayerNormBackward) {
  expectFewSectors("layer_norm_grad with sums",
                   layerNormBackwardCase(kMostSplitRows));
}

TEST(RowSectors, BiasGradient) {
  expectFewSectors("reduce_partial", biasGradientCase(kMostSplitRows));
}

TEST(RowSectors, AddAndDropout) {
  expectFewSectors("dropout and add", dropoutAndAddCase());
}

/// The rows begin at addresses with any alignment. Each of three sweeps reads
/// the rows from shared memory or, in f32, partly from registers.
TEST(RowSectors, Classifier) {
  expectFewSectors("softmax_cross_entropy", classifierCase(50257),
                   {{"f32", 32}, {"bf16", 32}}, 50257);
  RowCase padded = classifierCase(50257);
  padded.padding = 15;
  expectFewSectors("of padded rows", padded, {{"f32", 16}, {"bf16", 16}},
                   50257);
}

/// The rows are so long that each of the three sweeps reads them from global
/// memory.
TEST(RowSectors, LongestRows) {
  expectFewSectors("softmax_cross_entropy", classifierCase(131001),
                   {{"f32", 16, 2.6}, {"bf16", 16, 2.1}}, 131001);
}

/// A block reads the per-column values once. The f32 case has fewer rows than
/// the bf16 case, so the per-column values are a larger fraction of its reads
/// and the bound is higher.
TEST(RowSectors, LongNorm) {
  expectFewSectors("layer_norm", layerNormCase(),
                   {{"f32", kMostSplitRows, 1.09}, {"bf16", kRows}}, 2048);
}

TEST(RowSectors, Optimizer) {
  expectFewSectors("adam", adamCase(), {{"f32", 1024}});
}

TEST(RowSectors, Casts) { expectFewSectors("cast", castCase(), {{"bf16"}}); }

/// A block of 256 elements is a row.
TEST(RowSectors, CodesOfBlocks) {
  RowCase encode;
  encode.arguments = "%x: tensor<$Rx$Cx$T>";
  encode.body = "%s = kiln.block_scales %x {bits = 8} : (tensor<$Rx$Cx$T>) -> "
                "tensor<$Rx$F>\n"
                "%c = kiln.block_encode %x, %s : (tensor<$Rx$Cx$T>, "
                "tensor<$Rx$F>) -> tensor<$Rx$Cxi8>";
  encode.results = "%s : tensor<$Rx$F>, %c : tensor<$Rx$Cxi8>";
  expectFewSectors("block_encode", encode, {{"f32", kRows}, {"bf16", kRows}},
                   256);
  RowCase decode;
  decode.arguments = "%c: tensor<$Rx$Cxi8>, %s: tensor<$Rx$F>";
  decode.body = "%y = kiln.block_decode %c, %s : (tensor<$Rx$Cxi8>, "
                "tensor<$Rx$F>) -> tensor<$Rx$Cx$T>";
  decode.results = "%y : tensor<$Rx$Cx$T>";
  expectFewSectors("block_decode", decode,
                   {{"f32", kRows}, {"bf16", kRows, 1.08}}, 256);
}

TEST(RowSectors, Fused) {
  expectFewSectors("residual and layer_norm", residualCase(),
                   {{"bf16", kRows}});
  expectFewSectors("gelu_grad with sums", geluBackwardCase(kMostSplitRows),
                   {{"bf16"}});
  expectFewSectors("layer_norm_grad and dropout",
                   layerNormBackwardCase(kMostSplitRows, true), {{"bf16"}});
}

} // namespace
