//===- RowKernel.cpp - Row programs on a gpu ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every thread works on four consecutive columns at a time; 16 threads, a
// *group*, cover a block of 64. (Where rows have to be kept in registers and do
// not fit, a thread works on two, and a group has 32. Where nothing depends on
// it and all elements are bf16, a thread works on eight.) Five shapes:
//
//   flat     a thread per four elements of one long vector
//   scalar   a thread per row, where rows have single values only
//   split    a group per block of 64 columns and chunk of rows, where no row is
//            reduced; with rows of bf16 and values per column, all groups of a
//            block work on the same columns
//   rows     a group per chunk of rows, which follows the program's SweepPlan
//            as on the cpu: one pass over a row's blocks per level of
//            reductions; with sums down columns, all groups of a block share
//            one chunk (RowSums.cpp)
//   kept     a block per row, or per some in turn, which it keeps in shared
//            memory: CachedRows.cpp
//
// A group's partial results of a row reduction are those of the numerics
// contract: thread l has partials 4*l to 4*l+3, so halving 32, 16, 8 and 4 is
// between threads whose numbers differ in bit 8, 4, 2 and 1, and 2 and 1 within
// a thread (with two columns: 16 to 1, and 1). Of few rows a thread has one
// partial or two, and loads as much as it can at a time: SplitRows.cpp. Rows of
// up to kCachedColumns columns stay in registers from sweep to sweep as far as
// there are registers, so memory is read once.
//
// Long rows that do not begin where memory does can have their blocks
// *shifted* to where it does: the first block then begins up to 63 columns
// before the row. A thread has other partials in each row, but what halving
// combines is a distance apart that does not change, so the same values meet.
//
// Threads touch no element of each other's columns (but in shared memory, of
// which the files of the forms speak), so nothing has to wait but
// where whole rows are looked at: single elements of a row (RowElement) that a
// store may replace, and values per row that all threads of a group read and
// one writes. There all threads of a block meet at a barrier; hence all do the
// same number of rows, and groups without a row do nothing in them.
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::StoreKind;

/// Columns from one position of a split kernel's thread to the next.
constexpr int64_t kApart = 16;

void RowEmitter::emitFlat() {
  isFlat = true;
  Value first =
      k.mul(k.add(k.mul(k.block(), k.i64Constant(k.threads())), k.thread()),
            k.i64Constant(k.width()));
  startRow(k.i64Constant(0), {});
  startSweep(0);
  auto exists = [&](int64_t lane) {
    return k.less(k.add(first, k.i64Constant(lane)), k.units());
  };
  k.ifThen(
      exists(k.width() - 1),
      [&] {
        emitPositions(Position{first, {}}, {});
      },
      [&] {
        Position position{first, {}};
        for (int64_t lane = 0; lane < k.width(); ++lane)
          position.mask.lanes.push_back(exists(lane));
        emitPositions(position, {});
      });
}

void RowEmitter::emitScalar() {
  Value r = k.add(k.mul(k.block(), k.i64Constant(k.threads())), k.thread());
  k.ifThen(k.less(r, k.units()), [&] {
    startRow(r, {});
    emitRowValues(0);
    emitRowStores(k.constantI(1, k.i1()));
  });
}

void RowEmitter::emitSplit(const RowPlan &plan) {
  int64_t blocks = llvm::divideCeil(program.cols, kBlock);
  // The number of this thread's group behind `i` blocks of groups.
  auto groupOf = [&](Value i) {
    return k.add(k.mul(i, k.i64Constant(plan.groups)),
                 k.divUnsigned(k.thread(), k.i64Constant(group())));
  };
  auto firstColumn = [&](Value unit) {
    return k.mul(k.remUnsigned(unit, k.i64Constant(blocks)),
                 k.i64Constant(kBlock));
  };
  auto own = [&] { return k.mul(laneInGroup(), k.i64Constant(k.width())); };
  spread = plan.spread;
  cached.assign(program.nodes.size(), plan.rowsAtOnce > 1);
  if (!plan.sharesColumns) {
    Value unit = groupOf(k.block());
    k.ifThen(k.less(unit, k.units()), [&] {
      Value chunk = k.divUnsigned(unit, k.i64Constant(blocks));
      emitChunk(plan, chunk, k.add(firstColumn(unit), own()));
    });
    return;
  }
  Value column = firstColumn(k.block()), lane = own();
  stageColumns(column, kBlock);
  for (auto [id, staged] : llvm::enumerate(stagedColumns))
    for (int64_t i = 0; staged && i < spread; ++i) {
      Type type = storedTypeOf(program.nodes[id]);
      Value place = k.element(k.element(staged, type, lane), type, i * kApart);
      columnValues[{id, i}] = k.widen(loadColumns(k, place, type, true, {}));
    }
  Value chunk = groupOf(k.divUnsigned(k.block(), k.i64Constant(blocks)));
  Value row = k.mul(chunk, k.i64Constant(plan.rowsPerGroup));
  k.ifThen(k.less(row, k.i64Constant(program.rows)),
           [&] { emitChunk(plan, chunk, k.add(column, lane)); });
}

/// The columns from `column` on in the rows of `chunk`.
void RowEmitter::emitChunk(const RowPlan &plan, Value chunk, Value column) {
  SmallVector<Position> positions;
  for (int64_t i = 0; i < spread; ++i)
    positions.push_back(
        positionAt(i == 0 ? column : k.add(column, k.i64Constant(i * kApart)),
                   program.cols % kBlock == 0, i));
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (!isPerColumn(node) || columnValues.count({id, 0}))
      continue;
    Type type = storedTypeOf(node);
    Base base = rowOf(node.operand, type, k.i64Constant(0), 0);
    for (const Position &position : positions)
      columnValues[{id, position.block}] =
          k.widen(loadColumns(k, k.element(base.pointer, type, position.column),
                              type, base.aligned, position.mask));
  }
  SmallVector<Value> sums;
  SmallVector<std::pair<NodeId, int64_t>> sumsOf; // store and position
  for (auto [i, store] : llvm::enumerate(program.stores))
    for (const Position &position : positions)
      if (store.kind == StoreKind::ColumnPartial) {
        sums.push_back(k.constantF(0, k.vectorOf(storedTypeOf(store))));
        sumsOf.push_back({i, position.block});
      }
  Value first = k.mul(chunk, k.i64Constant(plan.rowsPerGroup));
  Value last = k.min(k.add(first, k.i64Constant(plan.rowsPerGroup)),
                     k.i64Constant(program.rows));
  auto addRows = [&](Value low, Value high, int64_t step) {
    sums = k.loop(low, high, step, sums, [&](Value r, ValueRange carried) {
      for (auto [of, sum] : llvm::zip(sumsOf, carried))
        columnSums[of] = sum;
      emitRowsFrom(r, step, positions);
      return llvm::map_to_vector(sumsOf,
                                 [&](auto of) { return columnSums[of]; });
    });
  };
  int64_t step = plan.rowsAtOnce;
  if (plan.rowsPerGroup % step == 0 && program.rows % step == 0) {
    addRows(first, last, step);
  } else {
    Value whole =
        k.add(first, k.bitAnd(k.sub(last, first), k.i64Constant(-step)));
    addRows(first, whole, step);
    addRows(whole, last, 1);
  }
  for (auto [of, sum] : llvm::zip(sumsOf, sums)) {
    const Store &store = program.stores[of.first];
    const Position &position = positions[of.second];
    Type type = storedTypeOf(store);
    Base base = rowOf(argOf(store), type, chunk, program.cols);
    storeColumns(k, sum, k.element(base.pointer, type, position.column),
                 base.aligned, position.mask);
  }
}

/// Of `count` rows: all loads come before all stores. A thread stores where it
/// alone has loaded.
void RowEmitter::emitRowsFrom(Value first, int64_t count,
                              ArrayRef<Position> positions) {
  struct Loaded {
    SmallVector<Value> values;
    Cache cache;
  };
  SmallVector<Loaded> loaded;
  auto rowAt = [&](int64_t i) {
    return i == 0 ? first : k.add(first, k.i64Constant(i));
  };
  for (int64_t i : llvm::seq(count)) {
    startRow(rowAt(i), {});
    emitRowValues(0);
    startSweep(0);
    if (count > 1)
      preload(positions);
    loaded.push_back({values, cache});
  }
  for (int64_t i : llvm::seq(count)) {
    if (count > 1) {
      startRow(rowAt(i), {});
      values = loaded[i].values;
      cache = loaded[i].cache;
      startSweep(0);
    }
    emitPositions(positions, {});
  }
}

void RowEmitter::emitRowOf(const RowPlan &plan, Value unit, Value r,
                           Value exists) {
  if (plan.blockAlignment > 1)
    blockShift = k.bitAnd(k.mul(r, k.i64Constant(plan.rowStride)),
                          k.i64Constant(plan.blockAlignment - 1));
  startRow(r, {exists, {}});
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind == StoreKind::ColumnPartial)
      targets[i] = rowOf(argOf(store), storedTypeOf(store), unit, program.cols);
  emitRowValues(0);
  for (int32_t s = 0; s < sweeps.sweeps; ++s) {
    emitSweep(s);
    emitRowValues(s + 1);
  }
  if (hasLoad(program, Access::PerRow) && hasStore(program, StoreKind::Row))
    k.barrier();
  Value isFirst = k.equal(laneInGroup(), k.i64Constant(0));
  emitRowStores(exists ? k.bitAnd(exists, isFirst) : isFirst);
}

/// The thread's number as something that a warp's threads tell each other: what
/// depends on it is computed anew for every row.
Value RowEmitter::hiddenThread() {
  Value thread = arith::TruncIOp::create(k.b, k.i32(), k.thread());
  Value lane = k.bitAnd(thread, k.constantI(kWarp - 1, k.i32()));
  return arith::ExtUIOp::create(k.b, k.i64(), k.shuffleIdx(thread, lane));
}

void RowEmitter::emitRows(const RowPlan &plan) {
  stageColumns({}, program.cols, plan.stagedBytes);
  chooseCached();
  sharesRandom = plan.sharesRandom;
  blocksAtOnce = plan.blocksAtOnce;
  int64_t rows = plan.rowsPerGroup, groups = plan.groups;
  bool isTogether = plan.tileBlocks > 0;
  Value number = k.divUnsigned(k.thread(), k.i64Constant(group()));
  Value unit = isTogether
                   ? k.block()
                   : k.add(k.mul(k.block(), k.i64Constant(groups)), number);
  bool fills = program.rows % (rows * groups) == 0;
  auto existsAt = [&](Value r) {
    return fills ? Value() : k.less(r, k.i64Constant(program.rows));
  };
  Value first = k.mul(unit, k.i64Constant(isTogether ? rows * groups : rows));
  Value isUnit = existsAt(first);
  if (isTogether)
    startChunk(plan, number);
  else if (chunks()) {
    startSums(groups, number);
    zeroSums(unit, isUnit);
  }
  // All groups of a block do as many rows: they meet at shuffles and barriers.
  auto emitRow = [&](Value i) {
    if (plan.hidesColumns)
      rowThread = hiddenThread();
    Value r = isTogether
                  ? k.add(k.add(first, k.mul(i, k.i64Constant(groups))), number)
                  : k.add(first, i);
    emitRowOf(plan, unit, r, existsAt(r));
    rowThread = blockShift = {};
  };
  if (rows == 1)
    emitRow(k.i64Constant(0));
  else
    k.loop(k.i64Constant(0), k.i64Constant(rows), 1, emitRow);
  if (isTogether)
    storeChunk(unit);
  else if (chunks())
    storeSums(unit, isUnit);
}

FailureOr<KernelLaunch> emitRowKernel(mlir::gpu::GPUModuleOp kernels,
                                      StringRef name, const RowShape &shape,
                                      Alignments alignments) {
  row::SweepPlan sweeps = row::planSweeps(shape.program);
  RowPlan plan = planRows(shape, alignments, sweeps);
  GpuBuilder k(kernels, name, shape.layouts.size(),
               shape.program.immediates.size(), plan.launch.threads,
               plan.width);
  RowEmitter emitter(k, shape, alignments, sweeps);
  switch (plan.form) {
  case RowPlan::Flat:
    emitter.emitFlat();
    break;
  case RowPlan::Scalar:
    emitter.emitScalar();
    break;
  case RowPlan::Split:
    emitter.emitSplit(plan);
    break;
  case RowPlan::Rows:
    emitter.emitRows(plan);
    break;
  case RowPlan::Kept:
    emitter.emitCachedRows(plan);
    break;
  }
  KernelLaunch launch = plan.launch;
  launch.sharedBytes = k.sharedBytes();
  if (failed(k.finish()))
    return failure();
  return launch;
}

} // namespace kiln::gpu
