//===- RopeKernel.cpp - Rotary position embedding -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   rope(x, cos, sin, y):
//     unit = blockIdx.x * 256 + threadIdx.x;
//     (position, share, part) = delinearize(unit);    // j = part * width
//     c = cos[position][j .. j + width]; s = sin[position][j .. j + width];
//     for (head = share; head < sequences * heads; head += shares) {
//       x1 = x[head's row][j ..]; x2 = x[head's row][j + headDim / 2 ..];
//       y[..][j ..] = x1 * c - x2 * s;
//       y[..][j + headDim / 2 ..] = x2 * c + x1 * s;
//     }
//
// Launch: one unit per thread, 256 threads per block, no shared memory; units =
// period * shares * headDim / 2 / width. The heads at a position are divided
// into `shares` shares, and a thread processes the heads of one share.
// Bytes: x is read once and y is written once. cos and sin are read once per
// share. `shares` is chosen such that the bytes of cos and sin are a small
// fraction of all bytes.
//
// The same thread reads and writes both elements x1 and x2 of a pair, so y may
// be x.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

constexpr int64_t kThreads = 256;
/// A kernel may read cos and sin several times, as long as the total number of
/// bytes that it accesses grows by at most the fraction 1 / kTablesPart.
constexpr int64_t kTablesPart = 32;
/// Heads that a thread loads before its first store.
constexpr int64_t kHeadsAtOnce = 4;

/// Returns the number of shares into which the heads of all sequences at one
/// position are divided. `parts` threads process the heads of one share, and
/// each of these threads processes a part of the columns of every head.
static int64_t sharesOf(const RopeShape &shape, int64_t parts) {
  int64_t heads = shape.rows / shape.period * shape.heads;
  int64_t bytes = elementBytes(shape.elementType);
  // At one position, a kernel accesses for each of the headDim columns:
  //   - 2 * heads * bytes bytes, because every head is read and written;
  //   - angleBytes bytes of cos and sin. Each of these tables has headDim / 2
  //     columns, so together they have one element per column.
  int64_t angleBytes = elementBytes(fullPrecision(shape.elementType));
  int64_t warps =
      1 + (2 * heads * bytes + angleBytes) / (angleBytes * kTablesPart);
  // At most `warps` warps should read the same elements of cos and sin. If the
  // threads of one share fill only a part of a warp, the warp processes several
  // shares of the position, and reads cos and sin once for all of them.
  int64_t shares = warps * std::max<int64_t>(1, kWarp / parts);
  return std::min(shares, heads);
}

FailureOr<KernelLaunch> emitRope(mlir::gpu::GPUModuleOp kernels, StringRef name,
                                 const RopeShape &shape,
                                 Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/4, /*numImmediates=*/0, kThreads);
  Type type = shape.elementType, computed = fullPrecision(type);
  int64_t half = shape.headDim / 2;
  int64_t width =
      accessWidth(computed, std::min(alignments[1], alignments[2]), {half});
  width = accessWidth(type, std::min(alignments[0], alignments[3]),
                      {half, shape.xStride, shape.yStride}, width);
  int64_t parts = half / width, shares = sharesOf(shape, parts);
  int64_t heads = shape.rows / shape.period * shape.heads; // Per position.
  int64_t units = shape.period * shares * parts;

  auto times = [&](Value i, int64_t stride) {
    return k.mul(i, k.i64Constant(stride));
  };
  auto load = [&](unsigned arg, Type of, Value offset) {
    return k.widen(loadWide(k, k.element(k.arg(arg), of, offset), of, width));
  };
  Value unit = k.add(times(k.block(), kThreads), k.thread());
  k.ifThen(k.less(unit, k.units()), [&] {
    SmallVector<Value> index =
        splitIndex(k, unit, {shape.period, shares, parts});
    Value position = index[0], share = index[1], j = times(index[2], width);
    Value angle = k.add(times(position, half), j);
    Value cosine = load(1, computed, angle), sine = load(2, computed, angle);
    if (shape.inverse)
      sine = k.neg(sine);
    struct Pair {
      Value row, column, x1, x2;
    };
    auto loadPair = [&](Value head) {
      Pair pair;
      SmallVector<Value> index =
          splitIndex(k, head, {shape.rows / shape.period, shape.heads});
      pair.row = k.add(times(index[0], shape.period), position);
      pair.column = k.add(times(index[1], shape.headDim), j);
      Value from = k.add(times(pair.row, shape.xStride), pair.column);
      pair.x1 = load(0, type, from);
      pair.x2 = load(0, type, k.add(from, k.i64Constant(half)));
      return pair;
    };
    auto turn = [&](const Pair &pair) {
      Value y1 = k.fma(pair.x1, cosine, k.neg(k.mul(pair.x2, sine)));
      Value y2 = k.fma(pair.x2, cosine, k.mul(pair.x1, sine));
      Value to = k.element(k.arg(3), type,
                           k.add(times(pair.row, shape.yStride), pair.column));
      storeWide(k, k.roundTo(y1, type), to);
      storeWide(k, k.roundTo(y2, type), k.element(to, type, half));
    };
    // Processes every `shares`-th head of the range [first, last), `count`
    // heads at a time.
    auto turnHeads = [&](Value first, Value last, int64_t count) {
      k.loop(first, last, count * shares, [&](Value head) {
        SmallVector<Pair> pairs;
        for (int64_t i : llvm::seq(count))
          pairs.push_back(loadPair(k.add(head, k.i64Constant(i * shares))));
        llvm::for_each(pairs, turn);
      });
    };
    int64_t whole = llvm::alignDown(heads, kHeadsAtOnce * shares);
    if (whole > 0)
      turnHeads(share, k.i64Constant(whole), kHeadsAtOnce);
    if (whole < heads)
      turnHeads(k.add(share, k.i64Constant(whole)), k.i64Constant(heads), 1);
  });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, kThreads, kThreads, 0};
}

void addRopeKernel(KernelEmitters &emitters) {
  emitters.add<RopeOp>([](mlir::gpu::GPUModuleOp kernels, rt::KernelOp kernel,
                          Alignments alignments) {
    return emitRope(kernels, kernel.getSymName(), readRope(SingleOp(kernel)),
                    alignments);
  });
}

} // namespace kiln::gpu
