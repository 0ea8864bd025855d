//===- FlashMasks.cpp - Masks of attention on tensor cores ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes which keys a query attends to and which of them are dropped. All
// threads of a block compute the dropped keys of a tile while the tile loads,
// and store them as bits in shared memory. One Philox counter gives four random
// words, which are for the keys k, k + 16, k + 32 and k + 48 of one query.
// Different lanes may need these words. With the bits in shared memory, each
// counter of a tile is evaluated only once.
//
//===----------------------------------------------------------------------===//

#include "FlashTiles.h"

#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

//===----------------------------------------------------------------------===//
// Visible keys
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

Value FlashTiles::seenByWarp(Value firstQuery, int64_t groups, Value firstKey,
                             int64_t keys) const {
  Value behind = k.i64Constant(shape.length);
  if (shape.causal)
    behind = k.add(firstQuery, times(plus(warp, 1), groups * kGroupRows));
  Value count = k.min(k.sub(behind, firstKey), k.i64Constant(keys));
  return k.max(count, k.i64Constant(0));
}

Value FlashTiles::blindToWarp(Value firstKey, int64_t groups, Value firstQuery,
                              int64_t queries) const {
  Value first = k.add(firstKey, times(warp, groups * kGroupRows));
  Value count = k.min(k.sub(first, firstQuery), k.i64Constant(queries));
  return k.max(count, k.i64Constant(0));
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

void FlashTiles::setRandom(Value rng, Value key) {
  rngState = rng;
  opKey = key;
}

void FlashTiles::makeMask(Value firstQuery, int64_t count, Value firstKey,
                          Value to) {
  auto threshold = static_cast<uint32_t>(shape.dropout * 0x1p32);
  Value limit = k.constantI(static_cast<int32_t>(threshold), k.i32());
  constexpr int64_t keys = 8, words = 4;
  // Load the random state in every call. If the random key were computed before
  // the loop over tiles, compilers would keep the keys of all Philox rounds in
  // registers.
  auto state = [&](int64_t i) {
    return k.load(k.element(rngState, k.i64(), i), k.i64());
  };
  Value randomKey = emitRandomKey(k, state(0), opKey), step = state(1);
  Value globalSequence = k.add(state(2), currentSequence);
  Value head = currentHead;
  if (shape.dividesHeads)
    head = k.add(times(state(3), shape.heads), head);
  // Key 64 b + 16 w + j, with w < 4 and j < 16, uses word w of the Philox
  // output for counter 16 b + j. A thread evaluates the counters of eight
  // consecutive j, which give 8 bits for each w: four bytes of the mask.
  Value block = times(k.shiftRight(firstKey, llvm::Log2_64(kRandomKeys)),
                      kRandomKeys / words);
  auto make = [&](int64_t firstItem) {
    Value item = plus(thread, firstItem), half = lowBits(item, 1);
    Value index = k.shiftRight(item, 1);
    Value query = existing(k.add(firstQuery, index));
    Value counter = k.add(times(head, shape.length), query);
    Value column = k.add(block, times(half, keys));
    Value none = k.constantI(0, k.i32());
    // Evaluate only two of the eight counters per iteration, which limits code
    // size and registers.
    constexpr int64_t atOnce = 2;
    Values bytes = k.loop(
        k.i64Constant(0), k.i64Constant(keys), atOnce, Values(words, none),
        [&](Value first, ValueRange carried) {
          Values next(carried);
          for (int64_t i : llvm::seq(atOnce)) {
            Value j = plus(first, i);
            auto random =
                emitPhilox(k, randomKey,
                           {k.add(column, j), counter, globalSequence, step});
            Value bit =
                arith::ShLIOp::create(k.b, k.constantI(1, k.i32()), narrow(j));
            for (auto [word, bits] : llvm::zip_equal(random, next))
              bits = k.bitOr(bits,
                             k.select(k.lessUnsigned(word, limit), bit, none));
          }
          return next;
        });
    Value mine = bytesAt(to, k.add(times(index, 8), half));
    for (auto [word, bits] : llvm::enumerate(bytes))
      k.store(arith::TruncIOp::create(k.b, k.b.getI8Type(), bits),
              bytesAt(mine, 2 * int64_t(word)));
  };
  if (2 * count < kThreads) {
    k.ifThen(k.less(thread, k.i64Constant(2 * count)), [&] { make(0); });
    return;
  }
  for (int64_t item = 0; item < 2 * count; item += kThreads)
    make(item);
}

Value FlashTiles::isBitSet(Value word, int64_t bit) const {
  Value one = k.constantI(int32_t(uint32_t{1} << bit), k.i32());
  Value none = k.constantI(0, k.i32());
  return arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne,
                               k.bitAnd(word, one), none);
}

FlashTiles::Values FlashTiles::droppedBy(Value mask, int64_t row,
                                         int64_t groups, Value firstKey,
                                         int64_t count) {
  constexpr int64_t inWord = 32;
  Value own = times(ownRow(k.i64Constant(0), row, groups), 8);
  Value inBlock = k.bitAnd(firstKey, k.i64Constant(kRandomKeys - 1));
  Value mine = bytesAt(mask, k.add(own, k.shiftRight(inBlock, 3)));
  Value shift = narrow(times(t, kPair));
  Values words;
  if (count < inWord)
    words.push_back(arith::ExtUIOp::create(
        k.b, k.i32(), k.load(mine, k.b.getIntegerType(count))));
  for (int64_t first = 0; first + inWord <= count; first += inWord)
    words.push_back(k.load(bytesAt(mine, first / 8), k.i32()));
  for (Value &word : words)
    word = arith::ShRUIOp::create(k.b, word, shift);
  Values dropped;
  for (int64_t first = 0; first < count; first += kColumns)
    for (int64_t i : {0, 1})
      dropped.push_back(isBitSet(words[first / inWord], first % inWord + i));
  return dropped;
}

FlashTiles::Values FlashTiles::droppedKeys(Value masks, int64_t groups,
                                           int64_t count, Value query) {
  // The 16 or 32 keys that a warp owns are in one block of 64 keys, and their
  // bits are in one word of the mask of this block.
  Value firstKey = times(warp, groups * kGroupRows);
  Value block = k.shiftRight(firstKey, llvm::Log2_64(kRandomKeys));
  Value word = k.bitAnd(k.shiftRight(firstKey, 5), k.i64Constant(1));
  Value mine =
      bytesAt(masks, k.add(times(block, maskBytes(count)), times(word, 4)));
  Value shift = narrow(k.add(lowBits(firstKey, 5), g));
  Value first = bytesAt(mine, times(k.add(query, times(t, kPair)), 8));
  Values dropped(4 * groups);
  for (int64_t i : {0, 1}) {
    Value bits = arith::ShRUIOp::create(
        k.b, k.load(bytesAt(first, 8 * i), k.i32()), shift);
    for (int64_t row : llvm::seq(2 * groups))
      dropped[2 * row + i] = isBitSet(bits, row * kColumns);
  }
  return dropped;
}

} // namespace kiln::gpu
