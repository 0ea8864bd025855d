//===- CachedRows.cpp - Rows cached in shared memory ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   kept(operands, results):
//     for (row : rows of this block) {       // rowsPerGroup, one by one
//       cached = load(row);                  // into shared memory
//       __syncthreads();
//       for (sweep : sweeps) {
//         for (tile : row) {
//           terms[tile % 2] = f(cached, tile);
//           __syncthreads();
//           if (adder of the reduction)      // 64 threads, one per partial
//             partial = combine(partial, terms[tile % 2]);
//         }
//         value = reduce(partials);          // binary tree
//       }
//     }
//
// Launch: one thread block of 128, 256 or 384 threads per row. If rows share
// per-column values, a block of up to 512 threads processes 1, 2 or 4 rows at a
// time, with an equal number of threads per row.
// Shared: the cached row values, two tiles of terms and 64 partials per
// reduction, and per-column values.
// Bytes: all sweeps read the row from shared memory, so global memory is read
// once; results are written once.
//
// The threads of a row cover a *tile* of adjacent columns, 64 per group of 16
// threads. If a row does not fit into shared memory, its last tiles stay in the
// registers of the threads that process them.
//
// Sums follow the order that docs/design/numerics.md prescribes: partial p adds
// the columns p, p + 64, ... one by one. All threads therefore compute the
// terms of a tile and store them to shared memory, and 64 threads, one per
// partial, add them while the others continue with the next tile. Two tile
// buffers make one barrier per tile sufficient. The term of a column past the
// end is the neutral element, which for a sum is +0: adding +0 changes no sum
// that starts with +0.
//
// The maximum is associative, but for zeros of both signs it is not
// commutative. Maxima may therefore be computed in any grouping that preserves
// the order of the operands. Each group of threads processes a contiguous range
// of the column blocks without barriers. Then 64 threads combine the partials
// of the groups in the order of the groups.
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::Kind;
using row::StoreKind;

/// Loads in flight per thread, and tiles per iteration of a sweep (a loop over
/// the columns of a row) that has no reductions.
constexpr int64_t kLoadsAtOnce = 8, kTilesAtOnce = 2;

Value RowEmitter::emitKept(NodeId id, const Position &position) {
  Type type = elementTypeOf(k, keptTypeOf(program, sweeps, id));
  Value place = k.element(keptRows[id], type, keptPlaceOf(position));
  return k.widen(loadColumns(k, place, type, /*aligned=*/true, {}));
}

void RowEmitter::keep(NodeId id, const Position &position, Value stored) {
  Type type = elementTypeOf(k, keptTypeOf(program, sweeps, id));
  storeColumns(k, stored, k.element(keptRows[id], type, keptPlaceOf(position)),
               /*aligned=*/true, {});
}

/// Calls `body` for all tiles or, if `inRegisters`, only for the tiles in
/// registers. A call processes up to `atOnce` tiles. `tile` is the index of the
/// first tile of the call.
SmallVector<Value> RowEmitter::forEachTile(
    int64_t atOnce, ValueRange initial,
    function_ref<SmallVector<Value>(Value tile, ArrayRef<Position> positions,
                                    ValueRange carried)>
        body,
    bool inRegisters) {
  int64_t columns = tileColumns();
  SmallVector<Value> carried(initial);
  auto positionIn = [&](Value tile, bool whole) {
    Value column = k.add(k.mul(tile, k.i64Constant(columns)), placeInTile());
    return positionAt(blockShift ? k.sub(column, blockShift) : column, whole);
  };
  auto run = [&](int64_t begin, int64_t end, int64_t step) {
    if (begin >= end)
      return;
    carried = k.loop(k.i64Constant(begin), k.i64Constant(end), step, carried,
                     [&](Value tile, ValueRange values) {
                       SmallVector<Position> positions;
                       for (int64_t i : llvm::seq(step))
                         positions.push_back(
                             positionIn(k.add(tile, k.i64Constant(i)), true));
                       return body(tile, positions, values);
                     });
  };
  auto runPart = [&](int64_t number, bool isWhole) {
    Value tile = k.i64Constant(number);
    Position position = positionIn(tile, isWhole);
    if (number >= sharedTiles)
      position.block = number;
    carried = body(tile, position, carried);
  };
  int64_t begin = inRegisters ? sharedTiles : blockShift ? 1 : 0;
  if (blockShift && !inRegisters)
    runPart(0, false);
  // `blockShift` moves the columns of each tile by less than one column block
  // towards the start of the row, so only tile 0 can begin before the row.
  // Tiles 1 to allWhole - 1 are therefore whole with and without a shift.
  int64_t allWhole = program.cols / columns;
  int64_t whole = std::max(begin, std::min(allWhole, sharedTiles));
  int64_t several = begin + (whole - begin) / atOnce * atOnce;
  run(begin, several, atOnce);
  run(several, whole, 1);
  for (int64_t tile : llvm::seq(whole, keptTiles))
    runPart(tile, tile < allWhole);
  return carried;
}

/// Copies the first tiles of a row to shared memory, where elements have the
/// type keptTypeOf(), and the remaining tiles to registers.
void RowEmitter::loadKept() {
  SmallVector<NodeId> loads;
  sweep = 0;
  for (auto [id, node] : llvm::enumerate(program.nodes))
    if (keptRows[id] && node.kind == Kind::Load) {
      loads.push_back(id);
      bases[id] = baseOf(id);
    }
  if (loads.empty())
    return;
  auto loadOf = [&](NodeId id, const Position &position) {
    const Node &node = program.nodes[id];
    if (node.access == Access::SumOfSlices)
      return emitSlices(id, position);
    Type type = storedTypeOf(node);
    return loadColumns(k, k.element(bases[id].pointer, type, position.column),
                       type, bases[id].aligned, position.mask);
  };
  int64_t atOnce = std::max<int64_t>(1, kLoadsAtOnce / loads.size());
  forEachTile(atOnce, {}, [&](Value, ArrayRef<Position> positions, ValueRange) {
    SmallVector<Value> loaded;
    for (const Position &position : positions)
      for (NodeId id : loads)
        loaded.push_back(loadOf(id, position));
    size_t next = 0;
    for (const Position &position : positions)
      for (NodeId id : loads) {
        Value stored = loaded[next++];
        if (position.block < 0)
          keep(id, position, stored);
        else
          cache[{id, position.block}] = k.widen(stored);
      }
    return SmallVector<Value>();
  });
  k.barrier();
}

/// A reduction has 64 partial results ("partials") per row, each of which is
/// computed by one thread. Runs `body` in the 64 consecutive threads that
/// compute those of reduction `i`: thread t of the row has partial t % 64.
/// Returns the value of `body`, or `otherwise` in all other threads.
Value RowEmitter::inAdders(size_t i, Value otherwise,
                           function_ref<Value(Value partial)> body) {
  Value partial = k.bitAnd(rowThread, k.i64Constant(kBlock - 1));
  int64_t number = i % (keptThreads / kBlock);
  Value isAdder = k.equal(k.shiftRight(rowThread, llvm::Log2_64(kBlock)),
                          k.i64Constant(number));
  auto branch = scf::IfOp::create(k.b, TypeRange{otherwise.getType()}, isAdder,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(k.b, body(partial));
  k.b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(k.b, otherwise);
  return branch.getResult(0);
}

/// Combines, in column order, the values of a tile that belong to the partial
/// result with the index `partial`. Starts from `initial` if it is not null.
Value RowEmitter::combineTile(const Node &node, Value tile, Value partial,
                              Value initial) {
  Value result = initial;
  for (int64_t i : llvm::seq(tileColumns() / kBlock)) {
    Value place =
        k.element(tile, k.f32(), k.add(partial, k.i64Constant(i * kBlock)));
    Value next = k.load(place, k.f32());
    result = result ? emitCombine(k, node, result, next) : next;
  }
  return result;
}

/// Reduces 64 partials in shared memory as a binary tree. Every warp computes
/// the same result.
Value RowEmitter::halvePartials(const Node &node, Value partials) {
  Value lane = k.bitAnd(k.thread(), k.i64Constant(kWarp - 1));
  Value number = blockShift ? k.sub(lane, blockShift) : lane;
  auto load = [&](int64_t offset) {
    Value place =
        k.element(partials, k.f32(), k.add(lane, k.i64Constant(offset)));
    return k.load(place, k.f32());
  };
  // The maximum is not commutative for signed zeros, so the lower partial is
  // the first operand.
  auto combine = [&](Value x, Value other, int64_t half) {
    if (node.kind != Kind::ReduceMax)
      return emitCombine(k, node, x, other);
    Value isUpper =
        k.equal(k.bitAnd(number, k.i64Constant(half)), k.i64Constant(half));
    return emitCombine(k, node, k.select(isUpper, other, x),
                       k.select(isUpper, x, other));
  };
  Value result = combine(load(0), load(kWarp), kWarp);
  for (int64_t half = kWarp / 2; half >= 1; half /= 2)
    result = combine(result, k.shuffleXor(result, half), half);
  return result;
}

/// Finishes the reductions of a sweep (a loop over the columns of a row). Each
/// reduction has 64 partial results, one in each of 64 threads.
void RowEmitter::finishKept(ArrayRef<Value> partials) {
  Type type = k.f32();
  auto resultsOf = [&](size_t i) {
    return k.element(keptPartials, type, k.i64Constant(i * kBlock));
  };
  for (size_t i : llvm::seq(reductions.size()))
    inAdders(i, partials[i], [&](Value partial) {
      k.store(partials[i], k.element(resultsOf(i), type, partial));
      return partials[i];
    });
  k.barrier();
  for (auto [i, id] : llvm::enumerate(reductions))
    values[id] = halvePartials(program.nodes[id], resultsOf(i));
}

/// Combines the terms of the tiles of a sweep with `partials` and returns the
/// new partials. Each of the 64 threads of a reduction holds one partial. If
/// `inRegisters` is true, combines only the tiles in registers.
SmallVector<Value> RowEmitter::combineInOrder(ArrayRef<Value> partials,
                                              bool inRegisters) {
  int64_t columns = tileColumns();
  auto tileOf = [&](size_t i, Value number) {
    Value half = k.bitAnd(number, k.i64Constant(1));
    return k.element(keptTerms, k.f32(),
                     k.add(k.mul(half, k.i64Constant(columns)),
                           k.i64Constant(2 * i * columns)));
  };
  return forEachTile(
      1, partials,
      [&](Value tile, ArrayRef<Position> positions, ValueRange carried) {
        SmallVector<Value> found;
        terms = &found;
        emitPositions(positions, {});
        terms = nullptr;
        for (auto [i, term] : llvm::enumerate(found))
          storeColumns(k, term,
                       k.element(tileOf(i, tile), k.f32(), placeInTile()),
                       /*aligned=*/true, {});
        k.barrier();
        SmallVector<Value> next;
        for (auto [i, id] : llvm::enumerate(reductions))
          next.push_back(inAdders(i, carried[i], [&, i = i, id = id](Value p) {
            return combineTile(program.nodes[id], tileOf(i, tile), p,
                               carried[i]);
          }));
        return next;
      },
      inRegisters);
}

void RowEmitter::emitOrderedSweep() {
  SmallVector<Value> partials;
  for (NodeId id : reductions)
    partials.push_back(k.lane(emitNeutral(k, program.nodes[id]), 0));
  finishKept(combineInOrder(partials, /*inRegisters=*/false));
}

/// Emits a sweep (a loop over the columns of a row) that only computes maxima
/// and stores no results.
void RowEmitter::emitMaximaSweep() {
  Value group = k.divUnsigned(rowThread, k.i64Constant(kBlock / k.width()));
  Value own = k.mul(laneInGroup(), k.i64Constant(k.width()));
  if (blockShift)
    own = k.sub(own, blockShift);
  auto columnOf = [&](Value block) {
    return k.add(own, k.mul(block, k.i64Constant(kBlock)));
  };
  SmallVector<Value> partials;
  for (NodeId id : reductions)
    partials.push_back(emitNeutral(k, program.nodes[id]));
  auto run = [&](Value begin, Value end, int64_t step) {
    partials = k.loop(
        begin, end, step, partials, [&](Value block, ValueRange carried) {
          SmallVector<Value> next(carried);
          SmallVector<Position> positions;
          for (int64_t i : llvm::seq(step))
            positions.push_back(
                positionAt(columnOf(k.add(block, k.i64Constant(i))), true));
          emitPositions(positions, next);
          return next;
        });
  };
  // All groups of threads evaluate an incomplete column block, but only the
  // group to which the block belongs uses the result.
  Value exists = active.all;
  auto runPart = [&](int64_t block) {
    Value isOwn = k.equal(group, k.i64Constant(block / sharedTiles));
    active.all = exists ? k.bitAnd(exists, isOwn) : isOwn;
    emitPositions(positionAt(columnOf(k.i64Constant(block)), false), partials);
    active.all = exists;
  };
  int64_t shared = sharedTiles * tileColumns() / kBlock;
  int64_t whole = std::min(program.cols / kBlock, shared);
  int64_t end = std::min<int64_t>(
      llvm::divideCeil(program.cols + (blockShift ? kBlock - 1 : 0), kBlock),
      shared);
  if (blockShift)
    runPart(0);
  Value first = k.mul(group, k.i64Constant(sharedTiles));
  Value low = blockShift ? k.select(k.less(first, k.i64Constant(1)),
                                    k.i64Constant(1), first)
                         : first;
  Value high =
      k.min(k.add(first, k.i64Constant(sharedTiles)), k.i64Constant(whole));
  high = k.select(k.less(high, low), low, high);
  Value several = k.add(low, k.bitAnd(k.sub(high, low), k.i64Constant(-4)));
  run(low, several, 4);
  run(several, high, 1);
  for (int64_t block : llvm::seq(whole, end))
    runPart(block);

  int64_t columns = tileColumns();
  auto partialsOf = [&](size_t i) {
    return k.element(keptTerms, k.f32(), k.i64Constant(2 * i * columns));
  };
  for (auto [i, partial] : llvm::enumerate(partials))
    storeColumns(k, partial, k.element(partialsOf(i), k.f32(), placeInTile()),
                 /*aligned=*/true, {});
  k.barrier();
  SmallVector<Value> combined;
  for (auto [i, id] : llvm::enumerate(reductions))
    combined.push_back(
        inAdders(i, k.constantF(0, k.f32()), [&, i = i, id = id](Value p) {
          return combineTile(program.nodes[id], partialsOf(i), p, {});
        }));
  if (sharedTiles < keptTiles) {
    k.barrier();
    combined = combineInOrder(combined, /*inRegisters=*/true);
  }
  finishKept(combined);
}

void RowEmitter::emitKeptSweep(int32_t s) {
  startSweep(s);
  bool isOrdered = false;
  for (NodeId id : reductions)
    isOrdered |= program.nodes[id].kind != Kind::ReduceMax;
  for (auto [i, store] : llvm::enumerate(program.stores))
    isOrdered |= store.kind != StoreKind::Row && sweeps.storeSweep[i] == s;
  // Threads exchange random words and must therefore execute the same
  // iterations. In emitMaximaSweep(), groups of threads execute different
  // iterations, so a sweep with random words counts as ordered.
  for (NodeId id : elementNodes)
    isOrdered |= program.nodes[id].kind == Kind::Random;
  if (reductions.empty())
    forEachTile(kTilesAtOnce, {},
                [&](Value, ArrayRef<Position> positions, ValueRange) {
                  emitPositions(positions, {});
                  return SmallVector<Value>();
                });
  else if (isOrdered)
    emitOrderedSweep();
  else
    emitMaximaSweep();
}

void RowEmitter::emitKeptRow(const RowPlan &plan, Value r, Value exists) {
  if (plan.blockAlignment > 1)
    blockShift = k.bitAnd(k.mul(r, k.i64Constant(plan.rowStride)),
                          k.i64Constant(plan.blockAlignment - 1));
  startRow(r, {exists, {}});
  emitRowValues(0);
  loadKept();
  for (int32_t s = 0; s < sweeps.sweeps; ++s) {
    emitKeptSweep(s);
    emitRowValues(s + 1);
  }
  if (hasLoad(program, Access::PerRow) && hasStore(program, StoreKind::Row))
    k.barrier();
  Value isFirst = k.equal(rowThread, k.i64Constant(0));
  emitRowStores(exists ? k.bitAnd(exists, isFirst) : isFirst);
  blockShift = {};
}

void RowEmitter::emitCachedRows(const RowPlan &plan) {
  int64_t together = plan.groups, rows = plan.rowsPerGroup;
  keptThreads = k.threads() / together;
  int64_t columns = tileColumns();
  keptTiles = llvm::divideCeil(program.cols + plan.blockAlignment - 1, columns);
  sharedTiles = keptTiles - plan.registerTiles;
  Value number = k.i64Constant(0);
  rowThread = k.thread();
  if (together > 1) {
    number = k.divUnsigned(k.thread(), k.i64Constant(keptThreads));
    rowThread = k.bitAnd(k.thread(), k.i64Constant(keptThreads - 1));
  }
  auto shareOf = [&](Type type, int64_t count) {
    return k.element(k.shared(type, together * count), type,
                     k.mul(number, k.i64Constant(count)));
  };
  for (NodeId id : plan.kept)
    keptRows[id] = shareOf(elementTypeOf(k, keptTypeOf(program, sweeps, id)),
                           sharedTiles * columns);
  size_t most = 0;
  for (int32_t s = 0; s < sweeps.sweeps; ++s)
    most = std::max(most, sweeps.reductionsOf(program, s).size());
  if (most > 0) {
    keptTerms = shareOf(k.f32(), 2 * most * columns);
    keptPartials = shareOf(k.f32(), most * kBlock);
  }
  stageColumns({}, program.cols, plan.stagedBytes);
  cached.assign(program.nodes.size(), false);
  sharesRandom = true;
  // All threads must iterate over the same number of rows, since the code of a
  // row contains barriers.
  bool fills = program.rows % (rows * together) == 0;
  Value first = k.add(k.mul(k.block(), k.i64Constant(rows * together)), number);
  auto emitRow = [&](Value i) {
    Value r = k.add(first, k.mul(i, k.i64Constant(together)));
    emitKeptRow(plan, r,
                fills ? Value() : k.less(r, k.i64Constant(program.rows)));
  };
  if (rows == 1)
    emitRow(k.i64Constant(0));
  else
    k.loop(k.i64Constant(0), k.i64Constant(rows), 1, emitRow);
}

} // namespace kiln::gpu
