//===- RowKernel.cpp - Row programs on a gpu ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every thread works on four consecutive columns at a time; 16 threads, a
// *group*, cover a block of 64. (Where rows have to be kept in registers and do
// not fit, a thread works on two, and a group has 32.) Four shapes:
//
//   flat     a thread per four elements of one long vector
//   scalar   a thread per row, where rows have single values only
//   split    a group per block of 64 columns and chunk of rows, where no row is
//            reduced
//   rows     a group per chunk of rows, which follows the program's SweepPlan
//            as on the cpu: one pass over a row's blocks per level of
//            reductions
//
// A group's partial results of a row reduction are those of the numerics
// contract: thread l has partials 4*l to 4*l+3, so halving 32, 16, 8 and 4 is
// between threads whose numbers differ in bit 8, 4, 2 and 1, and 2 and 1 within
// a thread (with two columns: 16 to 1, and 1). Rows of up to kCachedColumns
// columns stay in registers from sweep to sweep as far as there are registers,
// so memory is read once.
//
// Threads touch no element of each other's columns, so nothing has to wait but
// where whole rows are looked at: single elements of a row (RowElement) that a
// store may replace, and values per row that all threads of a group read and
// one writes. There all threads of a block meet at a barrier; hence all do the
// same number of rows, and groups without a row do nothing in them.
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::Kind;
using row::RowProgram;
using row::Space;
using row::StoreKind;

constexpr int64_t kThreads = 256;
/// That keep a large gpu busy.
constexpr int64_t kWantedGroups = 4096;
constexpr int64_t kMostRows = 24;

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

void RowEmitter::emitSplit(int64_t rowsPerUnit) {
  int64_t blocks = llvm::divideCeil(program.cols, kBlock);
  Value unit = k.add(k.mul(k.block(), k.i64Constant(k.threads() / group())),
                     k.divUnsigned(k.thread(), k.i64Constant(group())));
  k.ifThen(k.less(unit, k.units()), [&] {
    Value chunk = k.divUnsigned(unit, k.i64Constant(blocks));
    Value column = k.add(k.mul(k.remUnsigned(unit, k.i64Constant(blocks)),
                               k.i64Constant(kBlock)),
                         k.mul(laneInGroup(), k.i64Constant(k.width())));
    Position position = positionAt(column, program.cols % kBlock == 0);
    auto emitRow = [&](Value r) {
      startRow(r, {});
      emitRowValues(0);
      startSweep(0);
      emitPositions(position, {});
    };
    for (auto [id, node] : llvm::enumerate(program.nodes))
      if (isPerColumn(node)) {
        Base base = rowOf(node.operand, typeOf(node), k.i64Constant(0), 0);
        columnValues[id] =
            loadColumns(k, k.element(base.pointer, typeOf(node), column),
                        typeOf(node), base.aligned, position.mask);
      }
    SmallVector<Value> zeros;
    SmallVector<size_t> sums;
    for (auto [i, store] : llvm::enumerate(program.stores))
      if (store.kind == StoreKind::ColumnPartial) {
        zeros.push_back(k.constantF(0, k.vectorOf(typeOf(store))));
        sums.push_back(i);
      }
    Value first = k.mul(chunk, k.i64Constant(rowsPerUnit));
    Value last = k.min(k.add(first, k.i64Constant(rowsPerUnit)),
                       k.i64Constant(program.rows));
    SmallVector<Value> results =
        k.loop(first, last, 1, zeros, [&](Value r, ValueRange carried) {
          columnSums.assign(program.stores.size(), Value());
          for (auto [i, sum] : llvm::zip(sums, carried))
            columnSums[i] = sum;
          emitRow(r);
          return llvm::map_to_vector(sums,
                                     [&](size_t i) { return columnSums[i]; });
        });
    for (auto [i, sum] : llvm::zip(sums, results)) {
      const Store &store = program.stores[i];
      Base base = rowOf(argOf(store), typeOf(store), chunk, program.cols);
      storeColumns(k, sum, k.element(base.pointer, typeOf(store), column),
                   base.aligned, position.mask);
    }
  });
}

void RowEmitter::emitRowOf(Value unit, Value r, Value exists) {
  startRow(r, {exists, {}});
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind == StoreKind::ColumnPartial)
      targets[i] = rowOf(argOf(store), typeOf(store), unit, program.cols);
  emitRowValues(0);
  for (int32_t s = 0; s < plan.sweeps; ++s) {
    emitSweep(s);
    emitRowValues(s + 1);
  }
  if (hasLoad(program, Access::PerRow) && hasStore(program, StoreKind::Row))
    k.barrier();
  Value isFirst = k.equal(laneInGroup(), k.i64Constant(0));
  emitRowStores(exists ? k.bitAnd(exists, isFirst) : isFirst);
}

void RowEmitter::emitRows(int64_t groups, int64_t rowsPerGroup) {
  stageColumns();
  chooseCached();
  int64_t rows = chunks() ? program.rowsPerUnit : rowsPerGroup;
  Value number = k.divUnsigned(k.thread(), k.i64Constant(group()));
  Value unit = k.add(k.mul(k.block(), k.i64Constant(groups)), number);
  bool fills = program.rows % (rows * groups) == 0;
  auto existsAt = [&](Value r) {
    return fills ? Value() : k.less(r, k.i64Constant(program.rows));
  };
  Value first = k.mul(unit, k.i64Constant(rows));
  Value isUnit = existsAt(first);
  if (chunks()) {
    startSums(groups, number);
    zeroSums(unit, isUnit);
  }
  // All groups of a block do as many rows: they meet at shuffles and barriers.
  auto emitRow = [&](Value i) {
    Value r = k.add(first, i);
    emitRowOf(unit, r, existsAt(r));
  };
  if (rows == 1)
    emitRow(k.i64Constant(0));
  else
    k.loop(k.i64Constant(0), k.i64Constant(rows), 1, emitRow);
  if (chunks())
    storeSums(unit, isUnit);
}

namespace {

enum class Shape { Flat, Scalar, Split, Rows };

Shape shapeOf(const RowShape &shape, const row::SweepPlan &plan) {
  const RowProgram &program = shape.program;
  if (program.flat && shape.isDense())
    return Shape::Flat;
  if (plan.sweeps == 0)
    return Shape::Scalar;
  bool reduces = llvm::any_of(program.nodes, [](const row::Node &node) {
    return node.kind == Kind::ReduceSum || node.kind == Kind::ReduceMax;
  });
  bool looksAtRow =
      hasLoad(program, Access::RowElement) || hasStore(program, StoreKind::Row);
  return reduces || looksAtRow ? Shape::Rows : Shape::Split;
}

/// Vectors that a row has in registers from sweep to sweep: of how many nodes.
/// What is computed of a load may stay, too, so it counts twice.
int64_t countKept(const RowProgram &program, const row::SweepPlan &plan) {
  SmallVector<int64_t> reads(program.nodes.size(), 0);
  for (int32_t s = 0; s < plan.sweeps; ++s)
    for (row::NodeId id : plan.nodesOf(program, s))
      reads[id] += program.nodes[id].space == Space::Full;
  return 2 * llvm::count_if(reads, [](int64_t count) { return count > 1; });
}

/// Rows that a group works on, one by one, where any number will do: more of
/// them read values per column less often, but leave fewer blocks.
int64_t rowsFor(const RowProgram &program, int64_t groupsOfOneRow) {
  if (hasStore(program, StoreKind::ColumnPartial))
    return program.rowsPerUnit;
  if (llvm::none_of(program.nodes, isPerColumn))
    return 1;
  return std::clamp<int64_t>(groupsOfOneRow / kWantedGroups, 1, kMostRows);
}

/// Groups of a block: as many as leave enough shared memory for their sums.
int64_t groupsOf(const RowProgram &program, int64_t group) {
  int64_t sums = llvm::count_if(program.stores, [](const row::Store &store) {
    return store.kind == StoreKind::ColumnPartial;
  });
  int64_t most = kThreads / group, groups = most,
          least = std::max<int64_t>(1, kWarp / group);
  auto fits = [&] { return groups * sums * program.cols * 4 <= kPartialBytes; };
  while (groups > least && !fits())
    groups /= 2;
  // Sums in the result itself take no shared memory.
  return fits() ? groups : most;
}

} // namespace

FailureOr<KernelLaunch> emitRowKernel(mlir::gpu::GPUModuleOp kernels,
                                      StringRef name, const RowShape &shape,
                                      Alignments alignments) {
  const RowProgram &program = shape.program;
  row::SweepPlan plan = row::planSweeps(program);
  Shape kind = shapeOf(shape, plan);
  // A warp per row where half a warp has too few registers.
  int64_t width = kLanes;
  if (kind == Shape::Rows && program.cols <= kCachedColumns &&
      countKept(program, plan) * program.cols * kLanes / kBlock >
          kCacheRegisters)
    width = kBlock / kWarp;
  int64_t group = kBlock / width;
  int64_t groups =
      kind == Shape::Rows ? groupsOf(program, group) : kThreads / group;
  KernelLaunch launch;
  launch.threads = kind == Shape::Rows ? groups * group : kThreads;
  GpuBuilder k(kernels, name, shape.layouts.size(), program.immediates.size(),
               launch.threads, width);
  RowEmitter emitter(k, shape, alignments, plan);
  int64_t blocks = llvm::divideCeil(program.cols, kBlock);
  int64_t rows =
      rowsFor(program, program.rows * (kind == Shape::Split ? blocks : 1));
  int64_t chunks = llvm::divideCeil(program.rows, rows);
  switch (kind) {
  case Shape::Flat:
    emitter.emitFlat();
    launch.units = program.rows * program.cols;
    launch.unitsPerBlock = kThreads * kLanes;
    break;
  case Shape::Scalar:
    emitter.emitScalar();
    launch.units = program.rows;
    launch.unitsPerBlock = kThreads;
    break;
  case Shape::Split:
    emitter.emitSplit(rows);
    launch.units = chunks * blocks;
    launch.unitsPerBlock = groups;
    break;
  case Shape::Rows:
    emitter.emitRows(groups, rows);
    launch.units = chunks;
    launch.unitsPerBlock = groups;
    break;
  }
  launch.sharedBytes = k.sharedBytes();
  if (failed(k.finish()))
    return failure();
  return launch;
}

} // namespace kiln::gpu
