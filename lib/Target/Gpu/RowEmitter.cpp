//===- RowEmitter.cpp - Rows and sweeps of a GPU kernel -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"
#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::Kind;
using row::RowProgram;
using row::Space;
using row::StoreKind;

/// Column blocks that one iteration of an unrolled loop processes.
constexpr int64_t kUnrolled = 4;
/// Maximum registers for the slices that a SumOfSlices load reads before it
/// adds the first slice.
constexpr int64_t kSliceWords = 32;

RowEmitter::RowEmitter(GpuBuilder &k, const RowShape &shape,
                       Alignments alignments, const row::SweepPlan &sweeps)
    : program(shape.program), layouts(shape.layouts), alignments(alignments),
      numOperands(shape.layouts.size() - shape.program.stores.size()),
      sweeps(sweeps), k(k), values(program.nodes.size()),
      splats(program.nodes.size()), stagedColumns(program.nodes.size()),
      bases(program.nodes.size()), keptRows(program.nodes.size()) {
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (node.kind == Kind::Random)
      randoms[id] = startRandom(node);
    if (node.space == Space::Scalar)
      values[id] =
          node.kind == Kind::Load
              ? k.widen(k.load(k.arg(node.operand), storedTypeOf(node)))
              : emitNode(k, node, inputsOf(node, values));
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Loads the random state from the operand of `node`, which contains {seed,
/// step, first sequence}.
RandomSource RowEmitter::startRandom(const Node &node) {
  auto word = [&](int64_t i) {
    return k.load(k.element(k.arg(node.operand), k.i64(), i), k.i64());
  };
  RandomSource source;
  source.key = emitRandomKey(k, word(0), k.immediate(node.immediate));
  source.step = word(1);
  source.firstSequence = word(2);
  return source;
}

void RowEmitter::startRow(Value r, Mask rowMask) {
  row = r;
  active = rowMask;
  cache.clear();
  nextRandom.clear();
  for (auto &[id, source] : randoms) {
    const Node &node = program.nodes[id];
    source.startRow(
        k,
        node.inputs.empty() ? row : k.add(row, toI64(values[node.inputs[0]])),
        node.period);
  }
  targets.assign(program.stores.size(), Base());
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind == StoreKind::Full)
      targets[i] = rowOf(argOf(store), storedTypeOf(store), row,
                         layouts[argOf(store)].rowStride);
}

void RowEmitter::emitRowValues(int32_t level) {
  bool looksAtRow = false;
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (node.space != Space::Row || sweeps.level[id] != level)
      continue;
    switch (node.kind) {
    case Kind::ReduceSum:
    case Kind::ReduceMax:
      break; // The sweep sets these values.
    case Kind::RowIndex:
      values[id] = arith::TruncIOp::create(k.b, k.i32(), row);
      break;
    case Kind::Load: {
      Type type = storedTypeOf(node);
      Value base = k.arg(node.operand), offset = row;
      if (node.access == Access::RowElement) {
        base = rowOf(node.operand, type, row, layouts[node.operand].rowStride)
                   .pointer;
        offset = toI64(values[node.inputs[0]]);
        looksAtRow = true;
      }
      values[id] = k.widen(
          loadScalar(k, k.element(base, type, offset), type, active.all));
      break;
    }
    default:
      values[id] = emitNode(k, node, inputsOf(node, values));
    }
  }
  if (looksAtRow && hasStore(program, StoreKind::Full))
    k.barrier();
}

/// Stores per-row values if `condition` holds.
void RowEmitter::emitRowStores(Value condition) {
  if (!hasStore(program, StoreKind::Row))
    return;
  k.ifThen(condition, [&] {
    for (const Store &store : program.stores)
      if (store.kind == StoreKind::Row)
        k.store(k.roundTo(values[store.value], storedTypeOf(store)),
                k.element(k.arg(argOf(store)), storedTypeOf(store), row));
  });
}

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

RowEmitter::Base RowEmitter::baseOf(NodeId id) {
  const Node &node = program.nodes[id];
  if (sweeps.isReadBack(id, sweep))
    return targets[sweeps.savedBy[id]];
  if (node.kind != Kind::Load)
    return {};
  Type type = storedTypeOf(node);
  switch (node.access) {
  case Access::Identity:
    return rowOf(node.operand, type, row, layouts[node.operand].rowStride);
  case Access::SumOfSlices:
    return rowOf(node.operand, type, row, program.cols);
  case Access::PerColumn:
    if (stagedColumns[id])
      return {stagedColumns[id], !blockShift};
    return rowOf(node.operand, type, k.i64Constant(0), 0);
  case Access::Modulo:
    return rowOf(node.operand, type,
                 k.remUnsigned(row, k.i64Constant(node.period)), program.cols);
  case Access::Gathered:
    return rowOf(node.operand, type, toI64(values[node.inputs[0]]),
                 program.cols);
  case Access::PerRow:
  case Access::Scalar:
  case Access::RowElement:
    break;
  }
  llvm_unreachable("not a load per element");
}

/// Prepares the values that all column blocks of sweep `s` share.
void RowEmitter::startSweep(int32_t s) {
  sweep = s;
  reductions = sweeps.reductionsOf(program, s);
  elementNodes = sweeps.nodesOf(program, s);
  splats.assign(program.nodes.size(), Value());
  auto spread = [&](NodeId id) {
    Space space = program.nodes[id].space;
    if ((space == Space::Scalar || space == Space::Row) && !splats[id])
      splats[id] = k.broadcast(values[id]);
  };
  for (NodeId id : elementNodes) {
    bases[id] = baseOf(id);
    if (!sweeps.isReadBack(id, s) && program.nodes[id].kind != Kind::Load)
      llvm::for_each(program.nodes[id].inputs, spread);
  }
  for (NodeId id : reductions)
    spread(program.nodes[id].inputs[0]);
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind != StoreKind::Row && sweeps.storeSweep[i] == s)
      spread(store.value);
}

/// Emits the random words of the columns that start at `column`. Philox
/// computes four words from the counter of a lane; the lane uses word
/// column / 16 % 4.
Value RowEmitter::emitRandom(NodeId id, Value column) {
  std::array<Value, 4> words = emitRandomWords(id, column);
  Value word = k.bitAnd(k.shiftRight(column, 4), k.i64Constant(3));
  Value result = words[3];
  for (int64_t i = 2; i >= 0; --i)
    result = k.select(k.equal(word, k.i64Constant(i)), words[i], result);
  return result;
}

/// Emits all four words that Philox computes from the counter of each lane. The
/// lanes hold the columns that start at `column`.
std::array<Value, 4> RowEmitter::emitRandomWords(NodeId id, Value column) {
  const RandomSource &source = randoms[id];
  Value counter = k.add(k.shiftLeft(k.shiftRight(column, 6), 4),
                        k.bitAnd(column, k.i64Constant(15)));
  return emitPhilox(k, source.key,
                    {k.add(k.broadcast(counter), k.lanes(k.i64())),
                     k.broadcast(source.rowInSequence),
                     k.broadcast(source.sequence), k.broadcast(source.step)});
}

/// Emits the random words of the first position of a thread and saves the words
/// of the thread's other positions, which use the same counters.
Value RowEmitter::emitSpreadRandom(NodeId id, const Position &position) {
  std::array<Value, 4> words = emitRandomWords(id, position.column);
  for (int64_t i = 1; i < spread; ++i)
    nextRandom[{id, i}] = words[i];
  return words[0];
}

/// Emits random words from Philox counters that threads share. A thread needs
/// one of the four words of each of its counters, and the threads 16, 32 and 48
/// columns away need the other three. Each of these four threads therefore
/// evaluates one counter, and a transposition in two shuffle steps distributes
/// the words. With two columns per thread, the four counters belong to two
/// adjacent column blocks.
Value RowEmitter::emitSharedRandom(NodeId id, const Position &position) {
  constexpr int64_t count = 4;
  int64_t width = k.width(), distance = 16 / width;
  if (width != count && position.block < 0)
    return emitRandom(id, position.column);
  const RandomSource &source = randoms[id];
  Value column = position.column;
  Value number = k.bitAnd(k.shiftRight(laneInGroup(), llvm::Log2_64(distance)),
                          k.i64Constant(count - 1));
  auto bit = [&](int64_t i) {
    return k.equal(k.bitAnd(number, k.i64Constant(i)), k.i64Constant(i));
  };
  Value block = k.add(k.shiftRight(column, 6),
                      k.shiftRight(number, llvm::Log2_64(width)));
  Value counter =
      k.add(k.add(k.shiftLeft(block, 4), k.bitAnd(column, k.i64Constant(15))),
            k.bitAnd(number, k.i64Constant(width - 1)));
  std::array<Value, count> words =
      emitPhilox(k, source.key,
                 {counter, source.rowInSequence, source.sequence, source.step});
  // Transpose: word i of thread j becomes word j of thread i.
  for (int64_t step = 1; step < count; step *= 2) {
    Value isUpper = bit(step);
    for (int64_t i = 0; i < count; ++i) {
      if (i & step)
        continue;
      Value &low = words[i], &high = words[i | step];
      Value other = k.shuffleXor(k.select(isUpper, low, high), step * distance);
      low = k.select(isUpper, other, low);
      high = k.select(isUpper, high, other);
    }
  }
  SmallVector<Value> results;
  for (int64_t i = 0; i < count; i += width)
    results.push_back(wideOf(k, ArrayRef(words).slice(i, width)));
  for (size_t i = 1; i < results.size(); ++i)
    nextRandom[{id, position.block + i}] = results[i];
  return results.front();
}

Value RowEmitter::emitSlices(NodeId id, const Position &position) {
  const Node &node = program.nodes[id];
  Type type = storedTypeOf(node);
  int64_t elements = program.rows * program.cols;
  bool aligned = bases[id].aligned &&
                 isVectorAligned(k, type, alignments[node.operand], elements);
  auto loadSlice = [&](Value slice) {
    Value offset =
        k.add(k.mul(slice, k.i64Constant(elements)), position.column);
    return k.widen(loadColumns(k, k.element(bases[id].pointer, type, offset),
                               type, aligned, position.mask));
  };
  // Load `atOnce` slices before adding the first, so that several loads are in
  // flight. The slices are added in order.
  int64_t words =
      k.width() * llvm::divideCeil(type.getIntOrFloatBitWidth(), 32);
  int64_t atOnce = std::max<int64_t>(kSliceWords / words, 1);
  auto addFrom = [&](Value first, int64_t count, Value sum) {
    SmallVector<Value> slices;
    for (int64_t i : llvm::seq(count))
      slices.push_back(loadSlice(k.add(first, k.i64Constant(i))));
    for (Value slice : slices)
      sum = sum ? k.add(sum, slice) : slice;
    return sum;
  };
  int64_t inLoop = llvm::alignDown(node.period, atOnce);
  int64_t rest = node.period - inLoop;
  // The sum starts with the first slice instead of zero.
  int64_t begin = inLoop > 0 ? atOnce : rest;
  Value sum = addFrom(k.i64Constant(0), begin, {});
  if (begin < inLoop)
    sum = k.loop(k.i64Constant(begin), k.i64Constant(inLoop), atOnce, {sum},
                 [&](Value slice, ValueRange carried) -> SmallVector<Value> {
                   return {addFrom(slice, atOnce, carried[0])};
                 })[0];
  if (inLoop > 0 && rest > 0)
    sum = addFrom(k.i64Constant(inLoop), rest, sum);
  return sum;
}

/// Emits the vector of a Full or Column node; `current` holds its inputs.
Value RowEmitter::emitElement(NodeId id, const Position &position,
                              ArrayRef<Value> current) {
  const Node &node = program.nodes[id];
  if (auto found = columnValues.find({id, position.block});
      found != columnValues.end())
    return found->second;
  if (auto found = cache.find({id, position.block}); found != cache.end())
    return found->second;
  if (auto found = nextRandom.find({id, position.block});
      found != nextRandom.end()) {
    Value result = found->second;
    nextRandom.erase(found);
    return result;
  }
  if (node.kind == Kind::Random)
    return sharesRandom ? emitSharedRandom(id, position)
           : spread > 1 ? emitSpreadRandom(id, position)
                        : emitRandom(id, position.column);
  bool isReadBack = sweeps.isReadBack(id, sweep);
  if (keptRows[id] && (isReadBack || node.kind == Kind::Load))
    return emitKept(id, position);
  if (node.kind == Kind::Load && node.access == Access::SumOfSlices)
    return emitSlices(id, position);
  if (isReadBack || node.kind == Kind::Load) {
    Type type = isReadBack ? storedTypeOf(program.stores[sweeps.savedBy[id]])
                           : storedTypeOf(node);
    return k.widen(
        loadColumns(k, k.element(bases[id].pointer, type, position.column),
                    type, bases[id].aligned, position.mask));
  }
  if (node.kind == Kind::ColumnIndex)
    return k.add(
        k.broadcast(arith::TruncIOp::create(k.b, k.i32(), position.column)),
        k.lanes(k.i32()));
  SmallVector<Value, 3> inputs;
  for (NodeId input : node.inputs)
    inputs.push_back(splats[input] ? splats[input] : current[input]);
  return emitNode(k, node, inputs);
}

void RowEmitter::emitStore(size_t i, const Position &position,
                           ArrayRef<Value> current) {
  const Store &store = program.stores[i];
  Value value =
      splats[store.value] ? splats[store.value] : current[store.value];
  if (store.kind == StoreKind::ColumnPartial)
    return addToPartial(i, position, value);
  Type type = storedTypeOf(store);
  Value stored = k.roundTo(value, type);
  storeColumns(k, stored, k.element(targets[i].pointer, type, position.column),
               targets[i].aligned, position.mask);
  if (keptRows[store.value] && sweeps.savedBy[store.value] == int32_t(i))
    keep(store.value, position, stored);
  if (position.block >= 0 && cached[store.value])
    cache[{store.value, position.block}] = value;
}

/// Selects the nodes whose values stay in registers between sweeps: those that
/// at least two sweeps would read from memory, as far as registers permit.
void RowEmitter::chooseCached() {
  cached.assign(program.nodes.size(), false);
  int64_t blocks = llvm::divideCeil(program.cols, kBlock), registers = 0;
  if (program.cols > kCachedColumns)
    return;
  SmallVector<int64_t> reads(program.nodes.size(), 0);
  for (int32_t s = 0; s < sweeps.sweeps; ++s)
    for (NodeId id : sweeps.nodesOf(program, s))
      reads[id] +=
          program.nodes[id].kind == Kind::Load || sweeps.savedBy[id] >= 0;
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    int64_t words = llvm::divideCeil(typeOf(node).getIntOrFloatBitWidth(), 32);
    if (reads[id] < 2 || stagedColumns[id] ||
        registers + blocks * k.width() * words > kCacheRegisters)
      continue;
    registers += blocks * k.width() * words;
    cached[id] = true;
  }
}

/// Copies per-column values of `count` columns to shared memory, once for all
/// rows of the thread block. A null `first` means column 0.
void RowEmitter::stageColumns(Value first, int64_t count, int64_t mostBytes) {
  int64_t padded = llvm::alignTo(count, k.width()), bytes = 0;
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (!isPerColumn(node))
      continue;
    Type type = storedTypeOf(node);
    int64_t size = elementBytes(type, padded);
    if (bytes + size > mostBytes)
      continue;
    bytes += size;
    Base from = rowOf(node.operand, type, k.i64Constant(0), 0);
    Value to = k.shared(type, padded);
    int64_t step = k.threads() * k.width();
    k.loop(k.mul(k.thread(), k.i64Constant(k.width())), k.i64Constant(count),
           step, [&](Value i) {
             Value column = first ? k.add(first, i) : i;
             Position position = positionAt(
                 column, program.cols % (first ? count : k.width()) == 0);
             Value vector =
                 loadColumns(k, k.element(from.pointer, type, column), type,
                             from.aligned, position.mask);
             storeColumns(k, vector, k.element(to, type, i),
                          /*aligned=*/true, {});
           });
    stagedColumns[id] = to;
  }
  if (bytes > 0)
    k.barrier();
}

/// At the start of a sweep, loads the values that stay in registers, for all
/// positions, so that many loads are in flight.
void RowEmitter::preload(ArrayRef<Position> positions) {
  for (const Position &position : positions)
    for (NodeId id : elementNodes) {
      const Node &node = program.nodes[id];
      bool reads = node.kind == Kind::Load || sweeps.isReadBack(id, sweep);
      if (reads && cached[id] && !cache.count({id, position.block}))
        cache[{id, position.block}] = emitElement(id, position, {});
    }
}

/// Emits the body of a sweep (a loop over the columns of a row) for the columns
/// at the given positions; `partials` are the partial results of its
/// reductions. At each position, all loads precede all stores, since a result
/// may be stored in the memory of an operand (mayShareSlot).
void RowEmitter::emitPositions(ArrayRef<Position> positions,
                               MutableArrayRef<Value> partials) {
  SmallVector<SmallVector<Value>> current(
      positions.size(), SmallVector<Value>(program.nodes.size()));
  for (NodeId id : elementNodes)
    for (auto [position, here] : llvm::zip(positions, current))
      here[id] = emitElement(id, position, here);
  for (auto [position, here] : llvm::zip(positions, current)) {
    for (NodeId id : reductions) {
      if (!terms)
        break;
      NodeId input = program.nodes[id].inputs[0];
      terms->push_back(selectColumns(
          k, position.mask, splats[input] ? splats[input] : here[input],
          emitNeutral(k, program.nodes[id])));
    }
    for (auto [id, partial] : llvm::zip(reductions, partials)) {
      NodeId input = program.nodes[id].inputs[0];
      Value next = emitCombine(k, program.nodes[id], partial,
                               splats[input] ? splats[input] : here[input]);
      partial = selectColumns(k, position.mask, next, partial);
    }
    for (auto [i, store] : llvm::enumerate(program.stores))
      if (store.kind != StoreKind::Row && sweeps.storeSweep[i] == sweep)
        emitStore(i, position, here);
  }
}

/// Returns the position of the columns that start at `column`. If `whole` is
/// true, all of these columns exist.
RowEmitter::Position RowEmitter::positionAt(Value column, bool whole,
                                            int64_t block) {
  Position position{column, active, block};
  if (whole)
    return position;
  Value end = k.i64Constant(program.cols);
  auto exists = [&](int64_t lane) {
    Value here = k.add(column, k.i64Constant(lane));
    // Columns before the row have negative indices, which exceed `end` as
    // unsigned numbers.
    Value inside = blockShift ? k.lessUnsigned(here, end) : k.less(here, end);
    return active.all ? k.bitAnd(active.all, inside) : inside;
  };
  // If a row consists of whole vectors, either all lanes of a vector exist or
  // none.
  if (program.cols % k.width() == 0 && !blockShift)
    position.mask = {exists(0), {}};
  else
    for (int64_t lane = 0; lane < k.width(); ++lane)
      position.mask.lanes.push_back(exists(lane));
  if (!position.mask.lanes.empty())
    position.mask.all = {};
  // Most vectors of a long row consist of existing columns.
  // `position.mask.whole` is true for such a vector, so that one access
  // suffices.
  if ((blockShift || keptTiles > 0) && !position.mask.lanes.empty()) {
    Value isWhole =
        k.lessUnsigned(column, k.sub(end, k.i64Constant(k.width() - 1)));
    position.mask.whole = active.all ? k.bitAnd(active.all, isWhole) : isWhole;
  }
  return position;
}

/// Reduces the partial maxima of a group of threads as a binary tree. The
/// maximum is not commutative for NaN and signed zeros, so the partial with the
/// lower index is the first operand.
Value RowEmitter::combineMaxima(const Node &node, Value partials) {
  auto combine = [&](Value isUpper, Value x, Value other) {
    return emitCombine(k, node, k.select(isUpper, other, x),
                       k.select(isUpper, x, other));
  };
  if (!blockShift) {
    for (int64_t half = group() / 2; half >= 1; half /= 2) {
      Value other = exchange(partials, half);
      Value isUpper = k.equal(k.bitAnd(k.thread(), k.i64Constant(half)),
                              k.i64Constant(half));
      partials = combine(isUpper, partials, other);
    }
    return k.reduceLanes(
        partials, [&](Value x, Value y) { return emitCombine(k, node, x, y); });
  }
  // The first column block begins `blockShift` columns before the row. The
  // index of a lane's partial depends on this shift and is computed at run
  // time.
  Value first =
      k.sub(k.mul(laneInGroup(), k.i64Constant(k.width())), blockShift);
  SmallVector<Value> lanes;
  for (int64_t i = 0; i < k.width(); ++i)
    lanes.push_back(k.lane(partials, i));
  auto isUpper = [&](int64_t lane, int64_t half) {
    Value number = k.add(first, k.i64Constant(lane));
    return k.equal(k.bitAnd(number, k.i64Constant(half)), k.i64Constant(half));
  };
  for (int64_t half = kBlock / 2; half >= 1; half /= 2)
    for (int64_t i = 0, e = std::min(half, k.width()); i < e; ++i) {
      Value other = half < k.width() ? lanes[i + half]
                                     : k.shuffleXor(lanes[i], half / k.width());
      lanes[i] = combine(isUpper(i, half), lanes[i], other);
    }
  return lanes[0];
}

/// Reduces the partial results of a group of threads as a binary tree.
void RowEmitter::finishReductions(ArrayRef<Value> partials) {
  for (auto [id, partial] : llvm::zip(reductions, partials)) {
    const Node &node = program.nodes[id];
    if (node.kind == Kind::ReduceMax) {
      values[id] = combineMaxima(node, partial);
      continue;
    }
    Value result = partial;
    for (int64_t half = group() / 2; half >= 1; half /= 2)
      result = emitCombine(k, node, result, exchange(result, half));
    values[id] = k.reduceLanes(
        result, [&](Value x, Value y) { return emitCombine(k, node, x, y); });
  }
}

void RowEmitter::emitSweep(int32_t s) {
  startSweep(s);
  SmallVector<Value> partials;
  for (NodeId id : reductions)
    partials.push_back(emitNeutral(k, program.nodes[id]));
  Value first = k.mul(laneInGroup(), k.i64Constant(k.width()));
  if (blockShift)
    first = k.sub(first, blockShift);
  int64_t whole = program.cols / kBlock, tail = program.cols % kBlock;
  auto at = [&](Value block) {
    return k.add(first, k.mul(block, k.i64Constant(kBlock)));
  };
  int64_t step = startTiles() ? chunk.tileBlocks : kUnrolled;
  auto emitTile = [&](Value block, ArrayRef<Position> positions,
                      MutableArrayRef<Value> partials) {
    startTile(block);
    emitPositions(positions, partials);
    finishTile(positions.size());
  };
  // Values cached in registers need constant block indices, so the loop over
  // the column blocks is unrolled.
  if (llvm::is_contained(cached, true)) {
    SmallVector<Position> positions;
    for (int64_t block = 0; block < whole + (tail > 0); ++block)
      positions.push_back(
          positionAt(at(k.i64Constant(block)), block < whole, block));
    preload(positions);
    ArrayRef<Position> rest(positions);
    for (; !rest.empty();
         rest = rest.drop_front(std::min<size_t>(step, rest.size())))
      emitTile(k.i64Constant(rest.front().block), rest.take_front(step),
               partials);
  } else if (blocksAtOnce > kUnrolled) {
    emitManyBlocks(first, partials);
  } else {
    auto run = [&](int64_t begin, int64_t end, int64_t step) {
      partials = k.loop(k.i64Constant(begin), k.i64Constant(end), step,
                        partials, [&](Value block, ValueRange carried) {
                          SmallVector<Value> next(carried);
                          SmallVector<Position> positions;
                          for (int64_t i = 0; i < step; ++i)
                            positions.push_back(positionAt(
                                at(k.add(block, k.i64Constant(i))), true));
                          emitTile(block, positions, next);
                          return next;
                        });
    };
    auto runPart = [&](int64_t block) {
      Value number = k.i64Constant(block);
      emitTile(number, positionAt(at(number), false), partials);
    };
    // If the first block begins `blockShift` columns before the row, there is
    // one block more, and the first block and the last two blocks may be
    // partial.
    int64_t begin = blockShift ? 1 : 0;
    if (blockShift)
      runPart(0);
    int64_t unrolled = begin + (whole - begin) / step * step;
    run(begin, unrolled, step);
    run(unrolled, whole, 1);
    if (tail > 0 || blockShift)
      runPart(whole);
    if (blockShift)
      runPart(whole + 1);
  }
  finishReductions(partials);
}

} // namespace kiln::gpu
