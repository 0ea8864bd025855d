//===- RowSums.cpp - Sums down columns in a gpu kernel --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group adds up the rows of a chunk in their order. Every thread has the sums
// of its own columns: in registers where it has one block only (split), else in
// shared memory where they fit, else in the result itself. Everywhere they have
// the result's type: reduce_partial leaves sums of bf16 in f32.
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
  // The thread's own elements, of shared memory or of the result.
  Type type = storedTypeOf(program.stores[i]);
  bool isShared = !sharedSums.empty();
  bool aligned = isShared || targets[i].aligned;
  Value address = k.element(isShared ? sharedSums[i] : targets[i].pointer, type,
                            position.column);
  Value sum = loadColumns(k, address, type, aligned, position.mask);
  storeColumns(k, k.add(sum, value), address, aligned, position.mask);
}

/// Shared memory for the sums of `groups` groups, of which this is `number`.
void RowEmitter::startSums(int64_t groups, Value number) {
  int64_t padded = llvm::alignTo(program.cols, k.width()), bytes = 0;
  for (const Store &store : program.stores)
    if (store.kind == StoreKind::ColumnPartial)
      bytes +=
          groups * padded * storedTypeOf(store).getIntOrFloatBitWidth() / 8;
  if (bytes > kPartialBytes)
    return;
  sharedSums.assign(program.stores.size(), Value());
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind == StoreKind::ColumnPartial)
      sharedSums[i] =
          k.element(k.shared(storedTypeOf(store), groups * padded),
                    storedTypeOf(store), k.mul(number, k.i64Constant(padded)));
}

/// Calls `body` for all of the thread's sums, where they are collected, with
/// the row of the result that they are for.
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

} // namespace kiln::gpu
