//===- SectorsTest.cpp - What gpu kernels move ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels that are no row programs: RowSectorsTest.cpp has those. The
// emulated device has no caches, so what is read twice counts twice.
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelCalls.h"

#include <gtest/gtest.h>

#include <cstdio>

using namespace kiln;
using namespace kiln::test;

namespace {

template <typename T>
void report(const char *name, double ratio, double most = 1.05) {
  const char *type = sizeof(T) == 2 ? "bf16" : "f32";
  std::printf("%-28s %-4s: %.3f of the least sectors\n", name, type, ratio);
  EXPECT_LE(ratio, most) << name << " " << type;
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

template <typename T> void rope(double most) {
  constexpr int64_t rows = 256, heads = 12, headDim = 64, period = 128;
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
  report<T>("rope",
            sectorRatio(memory, {x, cosine, sine, written(y)}, {},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          shape.elementType = elementType<T>(b);
                          return gpu::emitRope(kernels, name, shape,
                                               alignments);
                        }),
            most);
}

/// Every row reads its row of the tables: twice here, for two sequences.
TEST(GpuSectors, Rope) {
  rope<float>(1.11);
  rope<Bfloat>(1.05);
}

template <typename T> void buckets(double most = 1.05) {
  constexpr int64_t count = 1 << 16;
  std::vector<double> borders = {-0.5, 0, 0.5}, levels = {0, 0.25, 0.75, 1};
  Memory memory;
  Place x = memory.add(someValues<T>(count, 1));
  Place codes = memory.add(std::vector<uint8_t>(count / 4));
  Place dx = memory.add(someValues<T>(count, 2));
  report<T>("bucket_encode",
            sectorRatio(memory, {x, written(codes)}, {},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          BucketEncodeShape shape = {
                              {count, elementType<T>(b), borders}};
                          return gpu::emitBucketEncode(kernels, name, shape,
                                                       alignments);
                        }),
            most);
  report<T>("bucket_decode",
            sectorRatio(memory, {codes, x, written(dx)}, {},
                        [&](auto kernels, auto name, auto b, auto alignments) {
                          BucketDecodeShape shape = {
                              {count, elementType<T>(b), levels}};
                          return gpu::emitBucketDecode(kernels, name, shape,
                                                       alignments);
                        }),
            most);
}

/// Eight elements of f32 are two accesses, each of half a sector.
TEST(GpuSectors, Buckets) {
  buckets<float>(2);
  buckets<Bfloat>();
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
                        }),
            1.07);
}

/// What random numbers depend on is read once per warp.
TEST(GpuSectors, Sketch) {
  sketch<float>();
  sketch<Bfloat>();
}

} // namespace
