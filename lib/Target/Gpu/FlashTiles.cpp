//===- FlashTiles.cpp - Attention on tensor cores -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FlashTiles.h"
#include "WideAccess.h"

#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

/// Elements of a word, and of the widest access.
constexpr int64_t kPair = 2, kVector = 8;

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
  auto bits = [&](Value x, int64_t count) {
    return k.bitAnd(x, k.i64Constant((int64_t{1} << count) - 1));
  };
  warp = k.shiftRight(k.thread(), 5);
  lane = bits(k.thread(), 5);
  g = k.shiftRight(lane, 2);
  t = bits(lane, 2);
  // The four matrices of 16 columns of b, which are rows of the tile, come
  // column by column of b, those of 16 rows of b row by row.
  Value row = bits(lane, 3);
  Value odd = times(bits(k.shiftRight(lane, 3), 1), kColumns);
  Value upper = times(k.shiftRight(lane, 4), kColumns);
  auto offset = [&](Value row, Value column) {
    return times(k.add(times(row, pitch()), column), 2);
  };
  columnsOffset = offset(k.add(row, upper), odd);
  rowsOffset = offset(k.add(row, odd), upper);
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
      accessWidth(bf16(), alignments[arg], {stride, shape.headDim}, kVector);
  return {k.element(k.arg(arg), bf16(), offset), stride, width};
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

Value FlashTiles::isBitSet(Value word, int64_t bit) const {
  Value one = k.constantI(int32_t(uint32_t{1} << bit), k.i32());
  Value none = k.constantI(0, k.i32());
  return arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne,
                               k.bitAnd(word, one), none);
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

FlashTiles::Values FlashTiles::loadOwn(const HeadRows &from, Value first,
                                       int64_t groups) {
  int64_t steps = shape.headDim / kGroupRows;
  Values words(groups * steps * 4);
  for (int64_t row : llvm::seq(2 * groups)) {
    Value index = existing(ownRow(first, row, groups));
    Value address = k.element(
        from.first, bf16(), k.add(times(index, from.stride), times(t, kPair)));
    for (int64_t step : llvm::seq(steps))
      for (int64_t half : {0, 1}) {
        Value place =
            k.element(address, bf16(), step * kGroupRows + half * kColumns);
        Value &word = words[(row / 2 * steps + step) * 4 + half * 2 + row % 2];
        if (from.width >= kPair) {
          word = k.load(place, k.i32());
          continue;
        }
        Value pair[] = {k.load(place, bf16()),
                        k.load(k.element(place, bf16(), 1), bf16())};
        word = k.bitcast(wideOf(k, pair), k.i32());
      }
  }
  return words;
}

void FlashTiles::storeOwn(WarpSums sums, const Values &factors,
                          const HeadRows &to, Value first) {
  for (int64_t row : llvm::seq(2 * sums.groups)) {
    Value index = ownRow(first, row, sums.groups);
    auto store = [&] {
      Value address = k.element(
          to.first, bf16(), k.add(times(index, to.stride), times(t, kPair)));
      for (int64_t tile : llvm::seq(sums.tiles)) {
        Value word = packWord(k, k.mul(sums.at(row, tile, 0), factors[row]),
                              k.mul(sums.at(row, tile, 1), factors[row]));
        Value place = k.element(address, bf16(), tile * kColumns);
        if (to.width >= kPair) {
          k.store(word, place);
          continue;
        }
        Value pair = k.bitcast(word, wideType(bf16(), kPair));
        for (int64_t i : llvm::seq(kPair))
          k.store(wideElement(k, pair, i), k.element(place, bf16(), i));
      }
    };
    if (shape.length % (sums.groups * kWarps * kGroupRows))
      k.ifThen(k.less(index, k.i64Constant(shape.length)), store);
    else
      store();
  }
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
  // A power of two of threads for each row, so that a thread's accesses are
  // whole rows or so many accesses apart.
  int64_t across = std::min(perRow & -perRow, kThreads);
  int64_t rowsAtOnce = kThreads / across;
  int64_t bytes = from.width * 2;
  Value row = k.shiftRight(k.thread(), llvm::Log2_64(across));
  Value column =
      times(k.bitAnd(k.thread(), k.i64Constant(across - 1)), from.width);
  Value sourceRow = k.add(first, row);
  Value source = k.element(from.first, bf16(),
                           k.add(times(sourceRow, from.stride), column));
  Value place = k.element(to, bf16(), k.add(times(row, pitch()), column));
  bool isWhole = shape.length % count == 0;
  Value length = k.i64Constant(shape.length);
  auto copyRow = [&](int64_t row) {
    Value exists;
    if (!isWhole)
      exists = k.less(plus(sourceRow, row), length);
    for (int64_t i = 0; i < perRow; i += across) {
      Value target = k.element(place, bf16(), row * pitch() + i * from.width);
      Value address =
          k.element(source, bf16(), row * from.stride + i * from.width);
      if (from.width >= kPair) {
        Value present;
        if (exists)
          present = k.select(exists, k.constantI(bytes, k.i32()),
                             k.constantI(0, k.i32()));
        copyAsync(k, target, address, bytes, present);
        continue;
      }
      Value x = exists ? loadWideIf(k, exists, address, bf16(), 1)
                       : k.load(address, bf16());
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
                                      Values initial, Fetch fetch, Work work) {
  Value one = k.i64Constant(1);
  auto stageOf = [&](Value tile) { return k.bitAnd(tile, one); };
  fetch(first, stageOf(first));
  auto walk = [&](Value low, Value high, bool isSecondKind, Values carried) {
    return k.loop(low, high, 1, carried, [&](Value tile, ValueRange carried) {
      // Behind the barrier all of the tile is there, and nobody works on the
      // one before it.
      waitCopies(k);
      k.barrier();
      Value next = k.add(tile, one);
      k.ifThen(k.less(next, last), [&] { fetch(next, stageOf(next)); });
      return work(tile, stageOf(tile), isSecondKind, carried);
    });
  };
  Values between =
      first == middle ? initial : walk(first, middle, false, initial);
  return middle == last ? between : walk(middle, last, true, between);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

WarpSums FlashTiles::zeros(int64_t groups, int64_t columns) const {
  int64_t tiles = columns / kColumns;
  Value zero = k.constantF(0, k.f32());
  return {groups, tiles, Values(groups * tiles * 4, zero)};
}

WarpSums FlashTiles::scores(const Values &own, int64_t groups, Value tile,
                            int64_t first, int64_t count) {
  WarpSums sums = zeros(groups, count);
  int64_t steps = shape.headDim / kGroupRows;
  Value mine = bytesAt(tile, columnsOffset);
  for (int64_t step : llvm::seq(steps))
    for (int64_t row = 0; row < count; row += kGroupRows) {
      int64_t place = (first + row) * pitch() + step * kGroupRows;
      FourValues words = loadMatrices(k, bytesAt(mine, 2 * place), false);
      for (int64_t group : llvm::seq(groups)) {
        auto a = ArrayRef(own).slice((group * steps + step) * 4, 4);
        for (int64_t half : {0, 1}) {
          int64_t column = row / kColumns + half;
          sums.set(group, column,
                   multiplyAdd(k, a, ArrayRef(words).slice(2 * half, 2),
                               sums.get(group, column)));
        }
      }
    }
  return sums;
}

void FlashTiles::addProduct(WarpSums &sums, const WarpSums &weights, Value tile,
                            int64_t first) {
  Value mine = bytesAt(tile, rowsOffset);
  for (int64_t row = 0; row < weights.tiles * kColumns; row += kGroupRows) {
    SmallVector<Values> own;
    for (int64_t group : llvm::seq(weights.groups)) {
      FourValues left = weights.get(group, row / kColumns);
      FourValues right = weights.get(group, row / kColumns + 1);
      own.push_back(
          {packWord(k, left[0], left[1]), packWord(k, left[2], left[3]),
           packWord(k, right[0], right[1]), packWord(k, right[2], right[3])});
    }
    for (int64_t column = 0; column < sums.tiles; column += 2) {
      int64_t place = (first + row) * pitch() + column * kColumns;
      FourValues words = loadMatrices(k, bytesAt(mine, 2 * place), true);
      for (int64_t group : llvm::seq(weights.groups))
        for (int64_t half : {0, 1})
          sums.set(group, column + half,
                   multiplyAdd(k, own[group],
                               ArrayRef(words).slice(2 * half, 2),
                               sums.get(group, column + half)));
    }
  }
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

FlashTiles::TileRange FlashTiles::seenKeys(Value firstQuery, int64_t queries,
                                           int64_t keys) const {
  int64_t all = llvm::divideCeil(shape.length, keys);
  Value end = k.i64Constant(all);
  if (!shape.causal)
    return {shape.length % keys ? k.i64Constant(all - 1) : end, end};
  Value size = k.i64Constant(keys);
  Value behind = plus(firstQuery, queries + keys - 1);
  return {k.divUnsigned(firstQuery, size),
          k.min(k.divUnsigned(behind, size), end)};
}

FlashTiles::Values FlashTiles::seenBy(Value query, Value firstKey,
                                      int64_t tiles) const {
  Value keys = shape.causal ? plus(query, 1) : k.i64Constant(shape.length);
  Value ahead = narrow(k.sub(k.sub(keys, firstKey), times(t, kPair)));
  Values seen;
  for (int64_t tile : llvm::seq(tiles))
    for (int64_t i : {0, 1})
      seen.push_back(k.less(k.constantI(tile * kColumns + i, k.i32()), ahead));
  return seen;
}

FlashTiles::Values FlashTiles::seesKey(Value key, Value firstQuery,
                                       int64_t tiles) const {
  Value before = narrow(k.sub(k.sub(key, firstQuery), times(t, kPair)));
  Values sees;
  for (int64_t tile : llvm::seq(tiles))
    for (int64_t i : {0, 1})
      sees.push_back(
          k.less(before, k.constantI(tile * kColumns + i + 1, k.i32())));
  return sees;
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

void FlashTiles::prepareDropout(Value rng, Value key) {
  auto word = [&](int64_t i) {
    return k.load(k.element(rng, k.i64(), i), k.i64());
  };
  randomKey = emitRandomKey(k, word(0), key);
  randomStep = word(1);
  firstSequence = word(2);
}

void FlashTiles::makeMask(Value firstQuery, int64_t count, Value firstKey,
                          Value to) {
  auto threshold = static_cast<uint32_t>(shape.dropout * 0x1p32);
  Value limit = k.constantI(static_cast<int32_t>(threshold), k.i32());
  Value globalSequence = k.add(firstSequence, currentSequence);
  constexpr int64_t half = 8, words = 4;
  // Key 64 b + 16 w + i: counter 16 b + i, word w.
  Value block = times(k.shiftRight(firstKey, llvm::Log2_64(kRandomKeys)),
                      kRandomKeys / words);
  auto make = [&](int64_t firstItem) {
    Value item = plus(k.thread(), firstItem);
    Value query = existing(k.add(firstQuery, k.shiftRight(item, 1)));
    Value counter = k.add(times(currentHead, shape.length), query);
    Value column = k.add(block, times(k.bitAnd(item, k.i64Constant(1)), half));
    Value bits = k.constantI(0, k.i32()), none = bits;
    for (int64_t i : llvm::seq(half)) {
      auto random = emitPhilox(
          k, randomKey, {plus(column, i), counter, globalSequence, randomStep});
      for (int64_t word : llvm::seq(words)) {
        uint32_t bit = uint32_t{1} << (word * half + i);
        Value dropped = k.lessUnsigned(random[word], limit);
        bits = k.bitOr(
            bits, k.select(dropped, k.constantI(int32_t(bit), k.i32()), none));
      }
    }
    k.store(bits, k.element(to, k.i32(), item));
  };
  if (2 * count < kThreads) {
    k.ifThen(k.less(k.thread(), k.i64Constant(2 * count)), [&] { make(0); });
    return;
  }
  for (int64_t item = 0; item < 2 * count; item += kThreads)
    make(item);
}

FlashTiles::Values FlashTiles::maskOfQueries(Value mask, int64_t groups,
                                             Value firstKey) {
  // A lane's first key is 2 t; 16 keys are 8 bits of a word.
  Value inBlock = k.bitAnd(firstKey, k.i64Constant(kRandomKeys - 1));
  Value shift = narrow(k.add(times(t, kPair), k.shiftRight(inBlock, 1)));
  Values words;
  for (int64_t row : llvm::seq(2 * groups)) {
    Value own = ownRow(k.i64Constant(0), row, groups);
    Value both = loadWide(k, bytesAt(mask, times(own, 8)), k.i32(), 2);
    for (int64_t h : {0, 1})
      words.push_back(
          arith::ShRUIOp::create(k.b, wideElement(k, both, h), shift));
  }
  return words;
}

FlashTiles::Values FlashTiles::droppedKeys(Value mask, int64_t tile) {
  // Keys 16 w + g and 16 w + 8 + g, of warp w.
  Value shift = narrow(k.add(times(warp, kColumns), g));
  Value first = plus(times(t, kPair), tile * kColumns);
  Value four = loadWide(k, bytesAt(mask, times(first, 8)), k.i32(), 4);
  Values dropped;
  for (int64_t row : {0, 1})
    for (int64_t i : {0, 1}) {
      Value word = wideElement(k, four, 2 * i + row);
      dropped.push_back(isBitSet(arith::ShRUIOp::create(k.b, word, shift), 0));
    }
  return dropped;
}

} // namespace kiln::gpu
