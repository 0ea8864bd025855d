//===- RowSums.cpp - Column sums of a GPU row kernel ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the column sums of a chunk of rows. The rows are added in order, by one
// of two schemes.
//
// Shared chunk: the groups of threads of a thread block process consecutive
// rows of one chunk. All groups write the terms of a few column blocks, a
// *tile*, to shared memory. After a barrier, each thread adds the rows of one
// column to the sum of that column, which is also in shared memory. A row past
// the end adds -0, which changes no sum.
//
// Chunk per group: a group processes all rows of its chunk. Every thread holds
// the sums of its own columns: in registers if it has one column block (split),
// otherwise in shared memory if they fit, otherwise in the result.
//
// Sums have the type of the result. For sums of bf16 elements, the result of
// the op reduce_partial is f32.
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::StoreKind;

void RowEmitter::addToPartial(size_t i, const Position &position, Value value) {
  if (auto sum = columnSums.find({i, position.block});
      sum != columnSums.end()) {
    sum->second =
        selectColumns(k, position.mask, k.add(sum->second, value), sum->second);
    return;
  }
  if (chunk.groups > 0)
    return addToTile(i, position, value);
  // The sums belong to this thread and are in shared memory or in the result.
  Type type = storedTypeOf(program.stores[i]);
  bool isShared = !sharedSums.empty();
  bool aligned = isShared || targets[i].aligned;
  Value address = k.element(isShared ? sharedSums[i] : targets[i].pointer, type,
                            position.column);
  Value sum = loadColumns(k, address, type, aligned, position.mask);
  storeColumns(k, k.add(sum, value), address, aligned, position.mask);
}

/// Allocates shared memory for the sums of `groups` groups of threads, unless
/// the sums are too large. `number` is the index of this group.
void RowEmitter::startSums(int64_t groups, Value number) {
  int64_t padded = llvm::alignTo(program.cols, k.width()), bytes = 0;
  for (const Store &store : program.stores)
    if (store.kind == StoreKind::ColumnPartial)
      bytes += elementBytes(storedTypeOf(store), groups * padded);
  if (bytes > kPartialBytes)
    return;
  sharedSums.assign(program.stores.size(), Value());
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind == StoreKind::ColumnPartial)
      sharedSums[i] =
          k.element(k.shared(storedTypeOf(store), groups * padded),
                    storedTypeOf(store), k.mul(number, k.i64Constant(padded)));
}

/// Calls `body` for each vector of column sums of the thread, with the address
/// of the sums and the row of the result to which they belong.
void RowEmitter::forEachSum(
    Value unit, Value isUnit,
    function_ref<void(const Store &, const Base &, const Position &, Value)>
        body) {
  active = {isUnit, {}};
  Value lane = k.mul(laneInGroup(), k.i64Constant(k.width()));
  for (auto [i, store] : llvm::enumerate(program.stores)) {
    if (store.kind != StoreKind::ColumnPartial)
      continue;
    Type type = storedTypeOf(store);
    Base result = rowOf(argOf(store), type, unit, program.cols);
    Value sums = sharedSums.empty() ? result.pointer : sharedSums[i];
    k.loop(k.i64Constant(0), k.i64Constant(program.cols), kBlock,
           [&, &store = store](Value block) {
             Value column = k.add(block, lane);
             body(store, result, positionAt(column, program.cols % kBlock == 0),
                  k.element(sums, type, column));
           });
  }
}

void RowEmitter::zeroSums(Value unit, Value isUnit) {
  forEachSum(unit, isUnit,
             [&](const Store &store, const Base &result,
                 const Position &position, Value sum) {
               Value zero = k.constantF(0, k.vectorOf(storedTypeOf(store)));
               storeColumns(k, zero, sum, !sharedSums.empty() || result.aligned,
                            position.mask);
             });
}

void RowEmitter::storeSums(Value unit, Value isUnit) {
  if (sharedSums.empty())
    return;
  forEachSum(unit, isUnit,
             [&](const Store &store, const Base &result,
                 const Position &position, Value sum) {
               Type type = storedTypeOf(store);
               Value value = loadColumns(k, sum, type, true, position.mask);
               storeColumns(k, value,
                            k.element(result.pointer, type, position.column),
                            result.aligned, position.mask);
             });
}

//===----------------------------------------------------------------------===//
// Chunks shared by all groups of a thread block
//===----------------------------------------------------------------------===//

void RowEmitter::startChunk(const RowPlan &plan, Value number) {
  chunk.groups = plan.groups;
  chunk.tileBlocks = plan.tileBlocks;
  chunk.columns = llvm::alignTo(program.cols, kBlock);
  chunk.number = number;
  chunk.slots.assign(program.stores.size(), 0);
  int64_t slots = 0;
  for (int32_t s = 0; s < sweeps.sweeps; ++s)
    for (auto [i, store] : llvm::enumerate(program.stores))
      if (store.kind == StoreKind::ColumnPartial && sweeps.storeSweep[i] == s)
        chunk.slots[i] = slots++;
  int64_t count = slots * chunk.columns;
  chunk.sums = k.shared(k.f32(), count);
  chunk.tile =
      k.shared(k.f32(), slots * chunk.groups * chunk.tileBlocks * kBlock);
  // Set the sums to zero. The barrier before the first tile separates these
  // stores from later loads by other threads.
  k.loop(k.mul(k.thread(), k.i64Constant(k.width())), k.i64Constant(count),
         k.threads() * k.width(), [&](Value i) {
           storeColumns(k, k.constantF(0, k.vectorOf(k.f32())),
                        k.element(chunk.sums, k.f32(), i), /*aligned=*/true,
                        {});
         });
}

/// Prepares the tiles of a sweep. Returns true if the sweep adds to the column
/// sums of a chunk that all groups of the thread block process together.
bool RowEmitter::startTiles() {
  chunk.numSlots = 0;
  if (chunk.groups == 0)
    return false;
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind == StoreKind::ColumnPartial &&
        sweeps.storeSweep[i] == sweep && chunk.numSlots++ == 0)
      chunk.firstSlot = chunk.slots[i];
  return chunk.numSlots > 0;
}

/// Starts a tile at column block `block`.
void RowEmitter::startTile(Value block) {
  if (chunk.numSlots == 0)
    return;
  chunk.firstColumn = k.mul(block, k.i64Constant(kBlock));
  chunk.isEmpty = true;
}

/// Adds a term to the tile. Terms of columns past the end are stored too, but
/// their sums are never stored to the result.
void RowEmitter::addToTile(size_t i, const Position &position, Value value) {
  // Wait until the previous tile has been added to the sums.
  if (std::exchange(chunk.isEmpty, false))
    k.barrier();
  int64_t columns = chunk.tileBlocks * kBlock;
  Value row =
      k.add(k.i64Constant((chunk.slots[i] - chunk.firstSlot) * chunk.groups),
            chunk.number);
  Value place = k.add(k.mul(row, k.i64Constant(columns)),
                      k.sub(position.column, chunk.firstColumn));
  if (active.all)
    value = k.select(active.all, value, k.constantF(-0.0, value.getType()));
  storeColumns(k, value, k.element(chunk.tile, k.f32(), place),
               /*aligned=*/true, {});
}

/// Adds the terms of a tile of `blocks` column blocks to the sums.
void RowEmitter::finishTile(int64_t blocks) {
  if (chunk.numSlots == 0)
    return;
  k.barrier();
  int64_t columns = chunk.tileBlocks * kBlock;
  int64_t count = chunk.numSlots * columns;
  for (int64_t begin = 0; begin < count; begin += k.threads()) {
    Value place = k.add(k.thread(), k.i64Constant(begin));
    Value slot = k.shiftRight(place, llvm::Log2_64(columns));
    Value column = k.bitAnd(place, k.i64Constant(columns - 1));
    auto addRows = [&] {
      Value address =
          k.element(chunk.sums, k.f32(),
                    k.add(k.mul(k.add(slot, k.i64Constant(chunk.firstSlot)),
                                k.i64Constant(chunk.columns)),
                          k.add(chunk.firstColumn, column)));
      Value rows = k.element(
          chunk.tile, k.f32(),
          k.add(k.mul(slot, k.i64Constant(chunk.groups * columns)), column));
      Value sum = k.load(address, k.f32());
      for (int64_t row = 0; row < chunk.groups; ++row)
        sum = k.add(sum,
                    k.load(k.element(rows, k.f32(), row * columns), k.f32()));
      k.store(sum, address);
    };
    Value exists;
    if (count - begin < k.threads())
      exists = k.less(place, k.i64Constant(count));
    if (blocks < chunk.tileBlocks) {
      Value inside = k.less(column, k.i64Constant(blocks * kBlock));
      exists = exists ? k.bitAnd(exists, inside) : inside;
    }
    if (exists)
      k.ifThen(exists, addRows);
    else
      addRows();
  }
}

void RowEmitter::storeChunk(Value unit) {
  k.barrier();
  active = {};
  for (auto [i, store] : llvm::enumerate(program.stores)) {
    if (store.kind != StoreKind::ColumnPartial)
      continue;
    Base result = rowOf(argOf(store), k.f32(), unit, program.cols);
    int64_t first = chunk.slots[i] * chunk.columns;
    k.loop(k.mul(k.thread(), k.i64Constant(k.width())),
           k.i64Constant(program.cols), k.threads() * k.width(),
           [&](Value column) {
             Position position =
                 positionAt(column, program.cols % k.width() == 0);
             Value place = k.add(column, k.i64Constant(first));
             Value sums = loadColumns(k, k.element(chunk.sums, k.f32(), place),
                                      k.f32(), /*aligned=*/true, {});
             storeColumns(k, sums, k.element(result.pointer, k.f32(), column),
                          result.aligned, position.mask);
           });
  }
}

} // namespace kiln::gpu
