//===- FlashTiles.cpp - Tile operations of attention on tensor cores ------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FlashTiles.h"
#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

/// Elements of the widest access.
constexpr int64_t kVector = 8;

} // namespace

FourValues WarpSums::get(int64_t group, int64_t tile) const {
  FourValues four;
  std::copy_n(values.begin() + (group * tiles + tile) * 4, 4, four.begin());
  return four;
}

void WarpSums::set(int64_t group, int64_t tile, const FourValues &four) {
  std::copy(four.begin(), four.end(),
            values.begin() + (group * tiles + tile) * 4);
}

FlashTiles::FlashTiles(GpuBuilder &k, const AttentionShape &shape,
                       Alignments alignments)
    : k(k), shape(shape), alignments(alignments) {
  setNumbers(k.thread());
  // loadMatrices() loads 16 rows by 16 columns as four matrices of 8 by 8. If
  // the rows of the tile are the columns of the MMA's operand B, the first two
  // matrices cover the first 8 rows. If the rows of the tile are the rows of B,
  // the first two matrices cover the first 8 columns.
  Value row = lowBits(lane, 3);
  Value odd = times(lowBits(k.shiftRight(lane, 3), 1), kColumns);
  Value upper = times(k.shiftRight(lane, 4), kColumns);
  auto offset = [&](Value row, Value column) {
    return times(k.add(times(row, pitch()), column), 2);
  };
  columnsOffset = offset(k.add(row, upper), odd);
  rowsOffset = offset(k.add(row, odd), upper);
}

void FlashTiles::setNumbers(Value newThread) {
  thread = newThread;
  warp = k.shiftRight(thread, 5);
  lane = lowBits(thread, 5);
  g = k.shiftRight(lane, 2);
  t = lowBits(lane, 2);
}

Value FlashTiles::renewedThread() {
  // Each lane shuffles from itself, so the value does not change, but compilers
  // cannot simplify the shuffle.
  return arith::ExtUIOp::create(k.b, k.i64(),
                                k.shuffleIdx(narrow(thread), narrow(lane)));
}

void FlashTiles::setHead(Value sequence, Value head) {
  currentSequence = sequence;
  currentHead = head;
}

FlashTiles::HeadRows FlashTiles::rows(unsigned arg, int64_t stride,
                                      Value ofHead) const {
  Value row = times(currentSequence, shape.length);
  Value offset = k.add(times(row, stride), times(ofHead, shape.headDim));
  int64_t width =
      accessWidth(stored(), alignments[arg], {stride, shape.headDim}, kVector);
  return {k.element(k.arg(arg), stored(), offset), stride, width};
}

Value FlashTiles::bytesAt(Value pointer, Value offset) const {
  return k.element(pointer, k.b.getI8Type(), offset);
}

Value FlashTiles::bytesAt(Value pointer, int64_t offset) const {
  return k.element(pointer, k.b.getI8Type(), offset);
}

Value FlashTiles::narrow(Value x) const {
  return arith::TruncIOp::create(k.b, k.i32(), x);
}

Value FlashTiles::lowBits(Value x, int64_t count) const {
  return k.bitAnd(x, k.i64Constant((int64_t{1} << count) - 1));
}

//===----------------------------------------------------------------------===//
// Own rows
//===----------------------------------------------------------------------===//

Value FlashTiles::ownRow(Value first, int64_t row, int64_t groups) const {
  Value ofWarp = k.add(times(warp, groups * kGroupRows), g);
  int64_t inWarp = row / 2 * kGroupRows + row % 2 * (kGroupRows / 2);
  return k.add(first, plus(ofWarp, inWarp));
}

Value FlashTiles::existing(Value row) const {
  return k.min(row, k.i64Constant(shape.length - 1));
}

OwnRows FlashTiles::loadOwn(const HeadRows &from, Value first, int64_t groups) {
  int64_t steps = shape.headDim / kGroupRows;
  OwnRows own = {groups, Values(groups * steps * 4)};
  ThreadNumbers before = *this;
  setNumbers(renewedThread());
  for (int64_t row : llvm::seq(2 * groups)) {
    Value index = existing(ownRow(first, row, groups));
    Value address =
        k.element(from.first, stored(),
                  k.add(times(index, from.stride), times(t, kPair)));
    for (int64_t step : llvm::seq(steps))
      for (int64_t half : {0, 1}) {
        Value place =
            k.element(address, stored(), step * kGroupRows + half * kColumns);
        Value &word =
            own.words[(row / 2 * steps + step) * 4 + half * 2 + row % 2];
        if (from.width >= kPair) {
          word = k.load(place, k.i32());
          continue;
        }
        Value pair[] = {k.load(place, stored()),
                        k.load(k.element(place, stored(), 1), stored())};
        word = k.bitcast(wideOf(k, pair), k.i32());
      }
  }
  static_cast<ThreadNumbers &>(*this) = before;
  return own;
}

void FlashTiles::storeOwn(WarpSums sums, const Values &factors,
                          const HeadRows &to, Value first) {
  ThreadNumbers before = *this;
  setNumbers(renewedThread());
  for (int64_t row : llvm::seq(2 * sums.groups)) {
    Value index = ownRow(first, row, sums.groups);
    auto store = [&] {
      Value address = k.element(
          to.first, stored(), k.add(times(index, to.stride), times(t, kPair)));
      for (int64_t tile : llvm::seq(sums.tiles)) {
        Value word =
            packWord(k, stored(), k.mul(sums.at(row, tile, 0), factors[row]),
                     k.mul(sums.at(row, tile, 1), factors[row]));
        Value place = k.element(address, stored(), tile * kColumns);
        if (to.width >= kPair) {
          k.store(word, place);
          continue;
        }
        Value pair = k.bitcast(word, wideType(stored(), kPair));
        for (int64_t i : llvm::seq(kPair))
          k.store(wideElement(k, pair, i), k.element(place, stored(), i));
      }
    };
    if (shape.length % (sums.groups * kWarps * kGroupRows))
      k.ifThen(k.less(index, k.i64Constant(shape.length)), store);
    else
      store();
  }
  static_cast<ThreadNumbers &>(*this) = before;
}

Value FlashTiles::acrossRow(Value x,
                            function_ref<Value(Value, Value)> combine) {
  for (int64_t distance : {1, 2})
    x = combine(x, k.shuffleXor(x, distance));
  return x;
}

//===----------------------------------------------------------------------===//
// Tiles in shared memory
//===----------------------------------------------------------------------===//

void FlashTiles::fetch(const HeadRows &from, Value first, int64_t count,
                       Value to) {
  int64_t perRow = shape.headDim / from.width;
  // The number of threads per row, `across`, is a power of two. A thread then
  // accesses every `across`-th vector of every `rowsAtOnce`-th row.
  int64_t across = std::min(perRow & -perRow, kThreads);
  int64_t rowsAtOnce = kThreads / across;
  int64_t bytes = from.width * 2;
  Value row = k.shiftRight(thread, llvm::Log2_64(across));
  Value column = times(k.bitAnd(thread, k.i64Constant(across - 1)), from.width);
  // Compute the uniform part of the address separately from the part that
  // depends on the thread.
  Value sourceRow = k.add(first, row);
  Value tile = k.element(from.first, stored(), times(first, from.stride));
  Value source =
      k.element(tile, stored(), k.add(times(row, from.stride), column));
  Value place = k.element(to, stored(), k.add(times(row, pitch()), column));
  bool isWhole = shape.length % count == 0;
  Value length = k.i64Constant(shape.length);
  auto copyRow = [&](int64_t row) {
    Value exists;
    if (!isWhole)
      exists = k.less(plus(sourceRow, row), length);
    for (int64_t i = 0; i < perRow; i += across) {
      Value target = k.element(place, stored(), row * pitch() + i * from.width);
      Value address =
          k.element(source, stored(), row * from.stride + i * from.width);
      if (from.width >= kPair) {
        Value present;
        if (exists)
          present = k.select(exists, k.constantI(bytes, k.i32()),
                             k.constantI(0, k.i32()));
        copyAsync(k, target, address, bytes, present);
        continue;
      }
      Value x = exists ? loadWideIf(k, exists, address, stored(), 1)
                       : k.load(address, stored());
      k.store(x, target);
    }
  };
  if (count < rowsAtOnce) {
    k.ifThen(k.less(row, k.i64Constant(count)), [&] { copyRow(0); });
    return;
  }
  for (int64_t row = 0; row < count; row += rowsAtOnce)
    copyRow(row);
}

FlashTiles::Values FlashTiles::stream(Value first, Value middle, Value last,
                                      Values initial, Fetch fetch, Work work,
                                      bool savesRegisters) {
  Value one = k.i64Constant(1);
  auto stageOf = [&](Value tile) { return k.bitAnd(tile, one); };
  auto renewed = [&](llvm::function_ref<void()> body) {
    ThreadNumbers outside = *this;
    // With dropout, recompute all indices, since the random numbers need the
    // registers that the indices would occupy. Without dropout, recompute only
    // `thread` and keep the other indices, which matmuls use repeatedly.
    if (savesRegisters && shape.dropout > 0)
      setNumbers(renewedThread());
    else if (savesRegisters)
      thread = renewedThread();
    body();
    static_cast<ThreadNumbers &>(*this) = outside;
  };
  renewed([&] { fetch(first, stageOf(first)); });
  auto walk = [&](Value low, Value high, bool isSecondKind, Values carried) {
    return k.loop(low, high, 1, carried, [&](Value tile, ValueRange carried) {
      // After the barrier, the tile is complete and no thread uses the previous
      // tile.
      waitCopies(k);
      k.barrier();
      Values values;
      renewed([&] {
        Value next = k.add(tile, one);
        k.ifThen(k.less(next, last), [&] { fetch(next, stageOf(next)); });
        values = work(tile, stageOf(tile), isSecondKind, carried);
      });
      return values;
    });
  };
  Values between =
      first == middle ? initial : walk(first, middle, false, initial);
  return middle == last ? between : walk(middle, last, true, between);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

WarpSums FlashTiles::zeros(int64_t groups, int64_t columns) const {
  int64_t tiles = columns / kColumns;
  Value zero = k.constantF(0, k.f32());
  return {groups, tiles, Values(groups * tiles * 4, zero)};
}

WarpSums FlashTiles::scores(const OwnRows &own, Value rows, int64_t count) {
  WarpSums sums = zeros(own.groups, count);
  int64_t steps = shape.headDim / kGroupRows;
  Value mine = bytesAt(rows, columnsOffset);
  for (int64_t step : llvm::seq(steps))
    for (int64_t row = 0; row < count; row += kGroupRows) {
      int64_t place = row * pitch() + step * kGroupRows;
      FourValues words = loadMatrices(k, bytesAt(mine, 2 * place), false);
      for (int64_t group : llvm::seq(own.groups)) {
        auto a = ArrayRef(own.words).slice((group * steps + step) * 4, 4);
        for (int64_t half : {0, 1}) {
          int64_t column = row / kColumns + half;
          sums.set(group, column,
                   multiplyAdd(k, stored(), a,
                               ArrayRef(words).slice(2 * half, 2),
                               sums.get(group, column)));
        }
      }
    }
  return sums;
}

void FlashTiles::addMatmul(WarpSums &sums, const WarpSums &weights,
                           Value rows) {
  Value mine = bytesAt(rows, rowsOffset);
  for (int64_t row = 0; row < weights.tiles * kColumns; row += kGroupRows) {
    SmallVector<Values> own;
    for (int64_t group : llvm::seq(weights.groups)) {
      FourValues left = weights.get(group, row / kColumns);
      FourValues right = weights.get(group, row / kColumns + 1);
      own.push_back({packWord(k, stored(), left[0], left[1]),
                     packWord(k, stored(), left[2], left[3]),
                     packWord(k, stored(), right[0], right[1]),
                     packWord(k, stored(), right[2], right[3])});
    }
    for (int64_t column = 0; column < sums.tiles; column += 2) {
      int64_t place = row * pitch() + column * kColumns;
      FourValues words = loadMatrices(k, bytesAt(mine, 2 * place), true);
      for (int64_t group : llvm::seq(weights.groups))
        for (int64_t half : {0, 1})
          sums.set(group, column + half,
                   multiplyAdd(k, stored(), own[group],
                               ArrayRef(words).slice(2 * half, 2),
                               sums.get(group, column + half)));
    }
  }
}

} // namespace kiln::gpu
