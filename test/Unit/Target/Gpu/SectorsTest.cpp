//===- SectorsTest.cpp - Memory traffic of GPU kernels --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the number of sectors that each kernel accesses, for all kernels
// except row programs (RowSectorsTest.cpp). The emulated device has no caches,
// so repeated reads count each time.
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelCalls.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

using namespace kiln;
using namespace kiln::test;

namespace {

template <typename T> void report(const std::string &name, double ratio) {
  const char *type = sizeof(T) == 2 ? "bf16" : "f32";
  std::printf("%-28s %-4s: %.3f of the least sectors\n", name.c_str(), type,
              ratio);
  EXPECT_LE(ratio, 1.05) << name << " " << type;
}

using Sizes = llvm::SmallVector<int64_t, 4>;

template <typename T>
void permute(const char *name, Sizes sizes, Sizes src, Sizes dst,
             Sizes reduced = {}, Sizes reducedSrc = {}) {
  PermuteShape shape;
  shape.shape = sizes;
  shape.srcStrides = src;
  shape.dstStrides = dst;
  shape.reduceShape = reduced;
  shape.srcReduceStrides = reducedSrc;
  auto product = [](const Sizes &sizes) {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  };
  Memory memory;
  Place from = memory.add(someValues<T>(product(sizes) * product(reduced), 1));
  Place to = memory.add(someValues<T>(product(sizes), 2));
  report<T>(name,
            sectorRatio(memory, {from, written(to)}, {},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          shape.elementType = elementType<T>(b);
                          shape.sourceType = shape.elementType;
                          return gpu::emitPermute(kernels, name, shape,
                                                  alignments);
                        }));
}

TEST(GpuSectors, Permutes) {
  permute<float>("heads", {4, 12, 64, 64}, {49152, 64, 768, 1},
                 {49152, 4096, 64, 1});
  permute<Bfloat>("heads", {4, 12, 64, 64}, {49152, 64, 768, 1},
                  {49152, 4096, 64, 1});
  permute<float>("transpose", {512, 768}, {1, 512}, {768, 1});
  permute<Bfloat>("transpose", {512, 768}, {1, 512}, {768, 1});
  permute<float>("sum of columns", {768}, {1}, {1}, {256}, {768});
  permute<Bfloat>("sum of columns", {768}, {1}, {1}, {256}, {768});
}

template <typename T> void rope(int64_t sequences) {
  constexpr int64_t heads = 12, headDim = 64, period = 128;
  int64_t rows = sequences * period;
  RopeShape shape;
  shape.rows = rows;
  shape.heads = heads;
  shape.headDim = headDim;
  shape.period = period;
  shape.xStride = shape.yStride = heads * headDim;
  Memory memory;
  Place x = memory.add(someValues<T>(rows * heads * headDim, 1));
  Place cosine = memory.add(someFloats(period * headDim / 2, 2));
  Place sine = memory.add(someFloats(period * headDim / 2, 3));
  Place y = memory.add(someValues<T>(rows * heads * headDim, 4));
  report<T>("rope of " + std::to_string(sequences),
            sectorRatio(memory, {x, cosine, sine, written(y)}, {},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          shape.elementType = elementType<T>(b);
                          return gpu::emitRope(kernels, name, shape,
                                               alignments);
                        }));
}

/// Each read of the tables of cosines and sines is for many heads, so that few
/// sectors are read repeatedly.
TEST(GpuSectors, Rope) {
  for (int64_t sequences : {1, 2, 6}) {
    rope<float>(sequences);
    rope<Bfloat>(sequences);
  }
}

template <typename T> void buckets(int64_t bits) {
  constexpr int64_t count = 1 << 16;
  std::vector<double> borders, levels;
  for (int64_t i = 0; i < int64_t(1) << bits; ++i)
    levels.push_back(std::ldexp(double(i), -int(bits)));
  for (size_t i = 1; i < levels.size(); ++i)
    borders.push_back(levels[i] - 0.5);
  Memory memory;
  Place x = memory.add(someValues<T>(count, 1));
  Place codes = memory.add(std::vector<uint8_t>(count / 8 * bits));
  Place dx = memory.add(someValues<T>(count, 2));
  std::string of = " of " + std::to_string(bits);
  report<T>("bucket_encode" + of,
            sectorRatio(memory, {x, written(codes)}, {},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          BucketEncodeShape shape = {
                              {count, elementType<T>(b), borders}};
                          return gpu::emitBucketEncode(kernels, name, shape,
                                                       alignments);
                        }));
  report<T>("bucket_decode" + of,
            sectorRatio(memory, {codes, x, written(dx)}, {},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          BucketDecodeShape shape = {
                              {count, elementType<T>(b), levels}};
                          return gpu::emitBucketDecode(kernels, name, shape,
                                                       alignments);
                        }));
}

/// Tests code sizes that divide a byte (1 and 2 bits) and code sizes that do
/// not (3 and 5 bits).
TEST(GpuSectors, Buckets) {
  for (int64_t bits : {1, 2, 3, 5}) {
    buckets<float>(bits);
    buckets<Bfloat>(bits);
  }
}

template <typename T> void sketch() {
  SketchShape shape;
  shape.sequences = 4;
  shape.length = 256;
  shape.kept = 128;
  shape.columns = shape.xStride = 768;
  Memory memory;
  Place x = memory.add(someValues<T>(4 * 256 * 768, 1));
  Place rng = memory.add(std::vector<int64_t>{-7, 5, 9});
  Place y = memory.add(someValues<T>(4 * 128 * 768, 2));
  report<T>("sketch_rows",
            sectorRatio(memory, {x, rng, written(y)}, {11},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          shape.elementType = elementType<T>(b);
                          return gpu::emitSketch(kernels, name, shape,
                                                 alignments);
                        }));
}

/// The random state is read once per warp.
TEST(GpuSectors, Sketch) {
  sketch<float>();
  sketch<Bfloat>();
}

} // namespace
