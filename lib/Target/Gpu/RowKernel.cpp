//===- RowKernel.cpp - Row programs on a GPU ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row program computes the reductions of each row and its element-wise
// results. Columns are processed in column blocks of 64. A *group* of 16
// threads covers a column block, with four adjacent columns per thread. (A
// thread has two columns, and a group 32 threads, if caching rows takes too
// many registers. A thread has eight columns if all elements are narrow floats
// and no reduction fixes the width.) A kernel has one of five forms:
//
//   flat:    // one long vector; all accesses are dense
//     i = (blockIdx.x * blockDim.x + threadIdx.x) * width;
//     store(i, f(load(i)));
//   scalar:  // one thread per row; the program has no columns
//     r = blockIdx.x * blockDim.x + threadIdx.x;
//     store(r, f(load(r)));
//   split:   // one group per column block and chunk of rows; no row reductions
//     for (r : chunk)
//       store(r, block, f(load(r, block)));
//   rows:    // one group per chunk of rows
//     for (r : chunk)
//       for (sweep : sweeps) {          // one per level of reductions
//         for (block : column blocks)
//           partial = combine(partial, f(load(r, block)));
//         value = reduce(partial);      // binary tree over the group
//       }
//   kept:    // one thread block per row, cached in shared memory
//     See CachedRows.cpp.
//
// Launch: 256 threads per block, but 64 in small flat kernels in which each
// thread sums several slices of an operand. A flat kernel has `width` elements
// per thread and a scalar kernel one row per thread; split and rows kernels
// have several groups per block. In a split kernel with narrow rows and per-
// column values, all groups of a block process the same columns. In a rows
// kernel with column sums, all groups of a block share one chunk (RowSums.cpp).
// Bytes: each sweep reads its operands once. Rows of up to kCachedColumns
// columns stay in registers between sweeps if there are enough registers; all
// sweeps together then read each operand once.
//
// RowProgram.h prescribes the 64 partial results of a row reduction. Thread l
// of a group has partials 4*l to 4*l+3. Tree step s combines the partials p and
// p XOR s. The steps 32, 16, 8 and 4 thus combine thread l with thread
// l XOR s/4, and the steps 2 and 1 combine lanes of a thread. (With two columns
// per thread, the steps 32 to 2 combine threads and step 1 combines lanes.) If
// there are few rows, a thread has one or two partials and many loads in flight
// (SplitRows.cpp).
//
// Column blocks of long rows that start at unaligned addresses can be *shifted*
// to aligned addresses: the first block then starts up to 63 columns before the
// row. The index of a thread's partial then depends on the shift of the row,
// but the difference between the indices of two threads does not. Each step of
// the tree therefore combines partials of the same threads in every row.
//
// Threads access disjoint columns, except in shared memory. Global memory
// therefore needs barriers only for two kinds of values that several threads
// access: single elements of a row (RowElement) that a store may replace, and
// per-row values, which all threads of a group read and one thread writes. All
// threads of a thread block must reach these barriers, so all groups iterate
// over the same number of rows; groups without a row are masked.
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::StoreKind;

/// In a split kernel, a thread processes one or more vectors of adjacent
/// columns. Consecutive vectors of a thread start this number of columns apart.
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
      exists(k.width() - 1), [&] { emitPositions(Position{first, {}}, {}); },
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
  // Returns the index of this thread's group, among all groups of the launch,
  // if the index of the thread block is `i`.
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

/// Emits the columns of this thread, of which `column` is the first, in all
/// rows of `chunk`.
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
  // For each sum, the index of its store and the index of its position.
  SmallVector<std::pair<NodeId, int64_t>> sumsOf;
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

/// Emits `count` rows, with all loads before all stores. This needs no barrier,
/// since no thread stores to elements that another thread loads.
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

/// Returns the thread index through a warp shuffle. The compiler cannot hoist
/// values that depend on the result of the shuffle, so they are recomputed for
/// every row.
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
  // All groups iterate over the same number of rows, since all threads must
  // reach every shuffle and barrier.
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

void addRowKernel(KernelEmitters &emitters) {
  emitters.addRows([](mlir::gpu::GPUModuleOp kernels, rt::KernelOp kernel,
                      Alignments alignments) -> FailureOr<KernelLaunch> {
    FailureOr<RowShape> shape = readRows(kernel);
    if (failed(shape))
      return failure();
    return emitRowKernel(kernels, kernel.getSymName(), *shape, alignments);
  });
}

} // namespace kiln::gpu
