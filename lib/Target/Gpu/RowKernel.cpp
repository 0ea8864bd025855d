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

#include "RowAccess.h"

#include "kiln/Target/Common/RowNodes.h"
#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::Kind;
using row::Node;
using row::NodeId;
using row::RowProgram;
using row::Space;
using row::Store;
using row::StoreKind;

namespace {

constexpr int64_t kBlock = 64; ///< Columns, and partial results.
constexpr int64_t kThreads = 256;
/// Of a row that is held in registers: 16 vectors per operand.
constexpr int64_t kCachedColumns = 1024;
/// For that, of the 255 that a thread has at most.
constexpr int64_t kCacheRegisters = 96;
/// Blocks of longer rows that are on their way at a time.
constexpr int64_t kUnrolled = 4;
/// Shared memory for sums down columns: more would leave few threads.
constexpr int64_t kPartialBytes = 24 * 1024;

enum class Shape { Flat, Scalar, Split, Rows };

bool hasLoad(const RowProgram &program, Access access) {
  return llvm::any_of(program.nodes, [&](const Node &node) {
    return node.kind == Kind::Load && node.access == access;
  });
}

bool hasStore(const RowProgram &program, StoreKind kind) {
  return llvm::any_of(program.stores,
                      [&](const Store &store) { return store.kind == kind; });
}

Shape shapeOf(const RowShape &shape, const row::SweepPlan &plan) {
  const RowProgram &program = shape.program;
  if (program.flat && shape.isDense())
    return Shape::Flat;
  if (plan.sweeps == 0)
    return Shape::Scalar;
  bool reduces = llvm::any_of(program.nodes, [](const Node &node) {
    return node.kind == Kind::ReduceSum || node.kind == Kind::ReduceMax;
  });
  bool looksAtRow =
      hasLoad(program, Access::RowElement) || hasStore(program, StoreKind::Row);
  return reduces || looksAtRow ? Shape::Rows : Shape::Split;
}

class RowEmitter {
public:
  RowEmitter(GpuBuilder &k, const RowShape &shape, Alignments alignments,
             const row::SweepPlan &plan)
      : program(shape.program), layouts(shape.layouts), alignments(alignments),
        numOperands(shape.layouts.size() - shape.program.stores.size()),
        plan(plan), k(k), values(program.nodes.size()),
        splats(program.nodes.size()), bases(program.nodes.size()) {
    for (auto [id, node] : llvm::enumerate(program.nodes)) {
      if (node.kind == Kind::Random)
        randoms[id] = startRandom(node);
      if (node.space == Space::Scalar)
        values[id] = node.kind == Kind::Load
                         ? k.load(k.arg(node.operand), typeOf(node))
                         : emitNode(k, node, inputsOf(node, values));
    }
  }

  void emitFlat();
  void emitScalar();
  void emitSplit();
  void emitRows(int64_t groups);

private:
  /// Columns of one thread in one block.
  struct Position {
    Value column;
    Mask mask;
    int64_t block = -1; ///< Its number, where it is known.
  };
  /// Where the elements of a row begin; `aligned` for vectors.
  struct Base {
    Value pointer;
    bool aligned = false;
  };
  struct RandomSource {
    Value key, step, firstSequence;
    Value rowInSequence, sequence;
  };

  Type typeOf(const Node &node) { return elementTypeOf(k, node.type); }
  Type typeOf(const Store &store) { return typeOf(program.nodes[store.value]); }
  SmallVector<Value, 3> inputsOf(const Node &node, ArrayRef<Value> from) {
    return llvm::map_to_vector<3>(node.inputs,
                                  [&](NodeId input) { return from[input]; });
  }
  unsigned argOf(const Store &store) { return numOperands + store.result; }
  Value toI64(Value integer) {
    if (integer.getType() == k.i64())
      return integer;
    return arith::ExtSIOp::create(k.b, k.i64(), integer);
  }
  /// Row `r` of argument `arg`, whose rows are `stride` elements apart.
  Base rowOf(unsigned arg, Type type, Value r, int64_t stride) {
    return {k.element(k.arg(arg), type, k.mul(r, k.i64Constant(stride))),
            isVectorAligned(k, type, alignments[arg], stride)};
  }
  /// Threads that work on a row.
  int64_t group() const { return kBlock / k.width(); }
  bool chunks() { return hasStore(program, StoreKind::ColumnPartial); }

  RandomSource startRandom(const Node &node);
  void startRow(Value r, Mask rowMask);
  void emitRowValues(int32_t level);
  void emitRowStores(Value condition);
  Base baseOf(NodeId id);
  void startSweep(int32_t s);
  Value emitRandom(NodeId id, Value column);
  Value emitSlices(NodeId id, const Position &position);
  Value emitElement(NodeId id, const Position &position,
                    ArrayRef<Value> current);
  void emitPositions(ArrayRef<Position> positions,
                     MutableArrayRef<Value> partials);
  void emitStore(size_t i, const Position &position, ArrayRef<Value> current);
  void chooseCached();
  void preload(ArrayRef<Position> positions);
  Position positionAt(Value column, bool whole, int64_t block = -1);
  void finishReductions(ArrayRef<Value> partials);
  void emitSweep(int32_t s);
  void addToPartial(size_t store, const Position &position, Value value);
  void writePartials(Value unit, Value active);
  Value laneInGroup() {
    return k.bitAnd(k.thread(), k.i64Constant(group() - 1));
  }

  const RowProgram &program;
  ArrayRef<Layout> layouts;
  Alignments alignments;
  unsigned numOperands;
  const row::SweepPlan &plan;
  GpuBuilder &k;

  /// By node: scalars of Scalar and Row nodes.
  SmallVector<Value> values;
  /// By node, in a sweep: those in every lane.
  SmallVector<Value> splats;
  /// By node, in a sweep, and by store, in a row.
  SmallVector<Base> bases, targets;
  /// By node: whether its vectors of a row are in `cache`, by block.
  SmallVector<bool> cached;
  llvm::DenseMap<std::pair<NodeId, int64_t>, Value> cache;
  llvm::MapVector<NodeId, RandomSource> randoms;
  /// By store: a sum down the columns of a split kernel.
  SmallVector<Value> columnSums;
  /// By store: a thread's sums in shared memory; null: in the result.
  SmallVector<Value> sharedSums;

  Value row;
  Mask active; ///< Of the row: whether there is one.
  int32_t sweep = 0;
  SmallVector<NodeId> reductions, elementNodes;
};

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// rng = {seed, step, first sequence}.
RowEmitter::RandomSource RowEmitter::startRandom(const Node &node) {
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
  for (auto &[id, source] : randoms) {
    Value period = k.i64Constant(program.nodes[id].period);
    source.rowInSequence = k.remUnsigned(row, period);
    source.sequence = k.add(source.firstSequence, k.divUnsigned(row, period));
  }
  targets.assign(program.stores.size(), Base());
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind == StoreKind::Full)
      targets[i] = rowOf(argOf(store), typeOf(store), row,
                         layouts[argOf(store)].rowStride);
}

void RowEmitter::emitRowValues(int32_t level) {
  bool looksAtRow = false;
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (node.space != Space::Row || plan.level[id] != level)
      continue;
    switch (node.kind) {
    case Kind::ReduceSum:
    case Kind::ReduceMax:
      break; // set by the sweep
    case Kind::RowIndex:
      values[id] = arith::TruncIOp::create(k.b, k.i32(), row);
      break;
    case Kind::Load: {
      Value base = k.arg(node.operand), offset = row;
      if (node.access == Access::RowElement) {
        base = rowOf(node.operand, typeOf(node), row,
                     layouts[node.operand].rowStride)
                   .pointer;
        offset = toI64(values[node.inputs[0]]);
        looksAtRow = true;
      }
      values[id] = loadScalar(k, k.element(base, typeOf(node), offset),
                              typeOf(node), active.all);
      break;
    }
    default:
      values[id] = emitNode(k, node, inputsOf(node, values));
    }
  }
  if (looksAtRow && hasStore(program, StoreKind::Full))
    k.barrier();
}

/// Stores values per row where `condition` holds.
void RowEmitter::emitRowStores(Value condition) {
  if (!hasStore(program, StoreKind::Row))
    return;
  k.ifThen(condition, [&] {
    for (const Store &store : program.stores)
      if (store.kind == StoreKind::Row)
        k.store(values[store.value],
                k.element(k.arg(argOf(store)), typeOf(store), row));
  });
}

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

RowEmitter::Base RowEmitter::baseOf(NodeId id) {
  const Node &node = program.nodes[id];
  if (plan.isReadBack(id, sweep))
    return targets[plan.savedBy[id]];
  if (node.kind != Kind::Load)
    return {};
  Type type = typeOf(node);
  switch (node.access) {
  case Access::Identity:
    return rowOf(node.operand, type, row, layouts[node.operand].rowStride);
  case Access::SumOfSlices:
    return rowOf(node.operand, type, row, program.cols);
  case Access::PerColumn:
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

/// Prepares what all blocks of sweep `s` share.
void RowEmitter::startSweep(int32_t s) {
  sweep = s;
  reductions = plan.reductionsOf(program, s);
  elementNodes = plan.nodesOf(program, s);
  splats.assign(program.nodes.size(), Value());
  auto spread = [&](NodeId id) {
    Space space = program.nodes[id].space;
    if ((space == Space::Scalar || space == Space::Row) && !splats[id])
      splats[id] = k.broadcast(values[id]);
  };
  for (NodeId id : elementNodes) {
    bases[id] = baseOf(id);
    if (!plan.isReadBack(id, s) && program.nodes[id].kind != Kind::Load)
      llvm::for_each(program.nodes[id].inputs, spread);
  }
  for (NodeId id : reductions)
    spread(program.nodes[id].inputs[0]);
  for (auto [i, store] : llvm::enumerate(program.stores))
    if (store.kind != StoreKind::Row && plan.storeSweep[i] == s)
      spread(store.value);
}

/// Of columns c to c+3, a multiple of 4: words c / 16 % 4 of four counters.
Value RowEmitter::emitRandom(NodeId id, Value column) {
  const RandomSource &source = randoms[id];
  Value counter = k.add(k.shiftLeft(k.shiftRight(column, 6), 4),
                        k.bitAnd(column, k.i64Constant(15)));
  std::array<Value, 4> words =
      emitPhilox(k, source.key,
                 {k.add(k.broadcast(counter), k.lanes(k.i64())),
                  k.broadcast(source.rowInSequence),
                  k.broadcast(source.sequence), k.broadcast(source.step)});
  Value word = k.bitAnd(k.shiftRight(column, 4), k.i64Constant(3));
  Value result = words[3];
  for (int64_t i = 2; i >= 0; --i)
    result = k.select(k.equal(word, k.i64Constant(i)), words[i], result);
  return result;
}

Value RowEmitter::emitSlices(NodeId id, const Position &position) {
  const Node &node = program.nodes[id];
  Type type = typeOf(node);
  int64_t elements = program.rows * program.cols;
  bool aligned = bases[id].aligned &&
                 isVectorAligned(k, type, alignments[node.operand], elements);
  auto loadSlice = [&](Value slice) {
    Value offset =
        k.add(k.mul(slice, k.i64Constant(elements)), position.column);
    return loadColumns(k, k.element(bases[id].pointer, type, offset), type,
                       aligned, position.mask);
  };
  return k.loop(k.i64Constant(1), k.i64Constant(node.period), 1,
                {loadSlice(k.i64Constant(0))},
                [&](Value slice, ValueRange carried) -> SmallVector<Value> {
                  return {k.add(carried[0], loadSlice(slice))};
                })[0];
}

/// The vector of a Full or Column node; `current` has those it depends on.
Value RowEmitter::emitElement(NodeId id, const Position &position,
                              ArrayRef<Value> current) {
  const Node &node = program.nodes[id];
  if (auto found = cache.find({id, position.block}); found != cache.end())
    return found->second;
  if (node.kind == Kind::Random)
    return emitRandom(id, position.column);
  if (node.kind == Kind::Load && node.access == Access::SumOfSlices)
    return emitSlices(id, position);
  if (plan.isReadBack(id, sweep) || node.kind == Kind::Load) {
    Type type = typeOf(node);
    return loadColumns(k, k.element(bases[id].pointer, type, position.column),
                       type, bases[id].aligned, position.mask);
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
  storeColumns(k, value,
               k.element(targets[i].pointer, typeOf(store), position.column),
               targets[i].aligned, position.mask);
  if (position.block >= 0 && cached[store.value])
    cache[{store.value, position.block}] = value;
}

/// Which nodes stay in registers from sweep to sweep: loads, and values that
/// later sweeps read back, of those that are read in more than one.
void RowEmitter::chooseCached() {
  cached.assign(program.nodes.size(), false);
  int64_t blocks = llvm::divideCeil(program.cols, kBlock), registers = 0;
  if (program.cols > kCachedColumns)
    return;
  SmallVector<int64_t> reads(program.nodes.size(), 0);
  for (int32_t s = 0; s < plan.sweeps; ++s)
    for (NodeId id : plan.nodesOf(program, s))
      reads[id] +=
          program.nodes[id].kind == Kind::Load || plan.savedBy[id] >= 0;
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    int64_t words = llvm::divideCeil(typeOf(node).getIntOrFloatBitWidth(), 32);
    if (reads[id] < 2 ||
        registers + blocks * k.width() * words > kCacheRegisters)
      continue;
    registers += blocks * k.width() * words;
    cached[id] = true;
  }
}

/// Loads what a sweep keeps of all positions before it does anything else: as
/// many bytes as possible are on their way at once.
void RowEmitter::preload(ArrayRef<Position> positions) {
  for (const Position &position : positions)
    for (NodeId id : elementNodes) {
      const Node &node = program.nodes[id];
      bool reads = node.kind == Kind::Load || plan.isReadBack(id, sweep);
      if (reads && cached[id] && !cache.count({id, position.block}))
        cache[{id, position.block}] = emitElement(id, position, {});
    }
}

/// All of a sweep at some positions; `partials` are those of its reductions. At
/// a position all loads come before all stores: mayShareSlot relies on it.
void RowEmitter::emitPositions(ArrayRef<Position> positions,
                               MutableArrayRef<Value> partials) {
  SmallVector<SmallVector<Value>> current(
      positions.size(), SmallVector<Value>(program.nodes.size()));
  for (NodeId id : elementNodes)
    for (auto [position, here] : llvm::zip(positions, current))
      here[id] = emitElement(id, position, here);
  for (auto [position, here] : llvm::zip(positions, current)) {
    for (auto [id, partial] : llvm::zip(reductions, partials)) {
      NodeId input = program.nodes[id].inputs[0];
      Value next = emitCombine(k, program.nodes[id], partial,
                               splats[input] ? splats[input] : here[input]);
      partial = selectColumns(k, position.mask, next, partial);
    }
    for (auto [i, store] : llvm::enumerate(program.stores))
      if (store.kind != StoreKind::Row && plan.storeSweep[i] == sweep)
        emitStore(i, position, here);
  }
}

/// The columns from `column` on, of which all exist if `whole`.
RowEmitter::Position RowEmitter::positionAt(Value column, bool whole,
                                            int64_t block) {
  Position position{column, active, block};
  if (whole)
    return position;
  Value end = k.i64Constant(program.cols);
  auto exists = [&](int64_t lane) {
    Value inside = k.less(k.add(column, k.i64Constant(lane)), end);
    return active.all ? k.bitAnd(active.all, inside) : inside;
  };
  // All four exist or none, if they come in fours.
  if (program.cols % k.width() == 0)
    position.mask = {exists(0), {}};
  else
    for (int64_t lane = 0; lane < k.width(); ++lane)
      position.mask.lanes.push_back(exists(lane));
  if (!position.mask.lanes.empty())
    position.mask.all = {};
  return position;
}

/// Combines the partial results of a group, by halving. Maxima are no
/// commutative function of NaN: the lower partial comes first.
void RowEmitter::finishReductions(ArrayRef<Value> partials) {
  for (auto [id, partial] : llvm::zip(reductions, partials)) {
    const Node &node = program.nodes[id];
    Value result = partial;
    for (int64_t half = group() / 2; half >= 1; half /= 2) {
      Value other = k.shuffleXor(result, half);
      if (node.kind != Kind::ReduceMax) {
        result = emitCombine(k, node, result, other);
        continue;
      }
      Value isUpper = k.equal(k.bitAnd(k.thread(), k.i64Constant(half)),
                              k.i64Constant(half));
      result = emitCombine(k, node, k.select(isUpper, other, result),
                           k.select(isUpper, result, other));
    }
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
  int64_t whole = program.cols / kBlock, tail = program.cols % kBlock;
  auto at = [&](Value block) {
    return k.add(first, k.mul(block, k.i64Constant(kBlock)));
  };
  if (program.cols <= kCachedColumns) {
    SmallVector<Position> positions;
    for (int64_t block = 0; block < whole + (tail > 0); ++block)
      positions.push_back(
          positionAt(at(k.i64Constant(block)), block < whole, block));
    preload(positions);
    ArrayRef<Position> rest(positions);
    for (; !rest.empty();
         rest = rest.drop_front(std::min<size_t>(kUnrolled, rest.size())))
      emitPositions(rest.take_front(kUnrolled), partials);
  } else {
    auto run = [&](int64_t begin, int64_t end, int64_t step) {
      partials = k.loop(k.i64Constant(begin), k.i64Constant(end), step,
                        partials, [&](Value block, ValueRange carried) {
                          SmallVector<Value> next(carried);
                          SmallVector<Position> positions;
                          for (int64_t i = 0; i < step; ++i)
                            positions.push_back(positionAt(
                                at(k.add(block, k.i64Constant(i))), true));
                          emitPositions(positions, next);
                          return next;
                        });
    };
    int64_t unrolled = whole / kUnrolled * kUnrolled;
    run(0, unrolled, kUnrolled);
    run(unrolled, whole, 1);
    if (tail > 0)
      emitPositions(positionAt(at(k.i64Constant(whole)), false), partials);
  }
  finishReductions(partials);
}

//===----------------------------------------------------------------------===//
// Sums down the columns
//===----------------------------------------------------------------------===//

void RowEmitter::addToPartial(size_t i, const Position &position, Value value) {
  if (!columnSums.empty()) {
    columnSums[i] = selectColumns(k, position.mask, k.add(columnSums[i], value),
                                  columnSums[i]);
    return;
  }
  // The thread's own elements, of shared memory or of the result.
  Type type = typeOf(program.stores[i]);
  bool isShared = !sharedSums.empty();
  bool aligned = isShared || targets[i].aligned;
  Value address = k.element(isShared ? sharedSums[i] : targets[i].pointer, type,
                            position.column);
  Value sum = loadColumns(k, address, type, aligned, position.mask);
  storeColumns(k, k.add(sum, value), address, aligned, position.mask);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

void RowEmitter::emitFlat() {
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

void RowEmitter::emitSplit() {
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
    if (!chunks())
      return emitRow(chunk);
    SmallVector<Value> zeros;
    SmallVector<size_t> sums;
    for (auto [i, store] : llvm::enumerate(program.stores))
      if (store.kind == StoreKind::ColumnPartial) {
        zeros.push_back(k.constantF(0, k.vectorOf(typeOf(store))));
        sums.push_back(i);
      }
    Value first = k.mul(chunk, k.i64Constant(program.rowsPerUnit));
    Value last = k.min(k.add(first, k.i64Constant(program.rowsPerUnit)),
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

void RowEmitter::emitRows(int64_t groups) {
  chooseCached();
  Value number = k.divUnsigned(k.thread(), k.i64Constant(group()));
  Value unit = k.add(k.mul(k.block(), k.i64Constant(groups)), number);
  bool fills = program.rows % (program.rowsPerUnit * groups) == 0;
  auto emitRow = [&](Value r, Value exists) {
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
  };
  auto existsAt = [&](Value r) {
    return fills ? Value() : k.less(r, k.i64Constant(program.rows));
  };
  if (!chunks()) {
    emitRow(unit, existsAt(unit));
    return;
  }

  Value first = k.mul(unit, k.i64Constant(program.rowsPerUnit));
  Value isUnit = existsAt(first);
  int64_t padded = llvm::alignTo(program.cols, k.width());
  int64_t sums = llvm::count_if(program.stores, [](const Store &store) {
    return store.kind == StoreKind::ColumnPartial;
  });
  bool isShared = true;
  int64_t bytes = 0;
  for (const Store &store : program.stores)
    if (store.kind == StoreKind::ColumnPartial)
      bytes += groups * padded * typeOf(store).getIntOrFloatBitWidth() / 8;
  isShared = bytes <= std::max(kPartialBytes, kSharedBytes / 2) && sums > 0;
  if (isShared) {
    sharedSums.assign(program.stores.size(), Value());
    for (auto [i, store] : llvm::enumerate(program.stores))
      if (store.kind == StoreKind::ColumnPartial)
        sharedSums[i] =
            k.element(k.shared(typeOf(store), groups * padded), typeOf(store),
                      k.mul(number, k.i64Constant(padded)));
  }
  /// Calls body(store, position, address of its sum) for all the thread's sums.
  auto forEachSum =
      [&](function_ref<void(size_t, const Position &, Value)> body) {
        active = {isUnit, {}};
        Value lane = k.mul(laneInGroup(), k.i64Constant(k.width()));
        for (auto [i, store] : llvm::enumerate(program.stores)) {
          if (store.kind != StoreKind::ColumnPartial)
            continue;
          Type type = typeOf(store);
          Base result = rowOf(argOf(store), type, unit, program.cols);
          targets.resize(program.stores.size());
          targets[i] = result;
          Value base = isShared ? sharedSums[i] : result.pointer;
          k.loop(k.i64Constant(0), k.i64Constant(program.cols), kBlock,
                 [&, i = i](Value block) {
                   Value column = k.add(block, lane);
                   body(i, positionAt(column, program.cols % kBlock == 0),
                        k.element(base, type, column));
                 });
        }
      };
  forEachSum([&](size_t i, const Position &position, Value address) {
    Value zero = k.constantF(0, k.vectorOf(typeOf(program.stores[i])));
    storeColumns(k, zero, address, isShared || targets[i].aligned,
                 position.mask);
  });
  // All groups of a block do as many rows: they meet at shuffles and barriers.
  k.loop(k.i64Constant(0), k.i64Constant(program.rowsPerUnit), 1, [&](Value i) {
    Value r = k.add(first, i);
    emitRow(r, existsAt(r));
  });
  if (isShared)
    forEachSum([&](size_t i, const Position &position, Value address) {
      Type type = typeOf(program.stores[i]);
      Value sum = loadColumns(k, address, type, true, position.mask);
      storeColumns(k, sum, k.element(targets[i].pointer, type, position.column),
                   targets[i].aligned, position.mask);
    });
}

/// Vectors that a row has in registers from sweep to sweep: of how many nodes.
/// What is computed of a load may stay, too, so it counts twice.
int64_t countKept(const RowProgram &program, const row::SweepPlan &plan) {
  SmallVector<int64_t> reads(program.nodes.size(), 0);
  for (int32_t s = 0; s < plan.sweeps; ++s)
    for (NodeId id : plan.nodesOf(program, s))
      reads[id] += program.nodes[id].space == Space::Full;
  return 2 * llvm::count_if(reads, [](int64_t count) { return count > 1; });
}

/// Groups of a block: as many as leave enough shared memory for their sums.
int64_t groupsOf(const RowProgram &program, int64_t group) {
  int64_t sums = llvm::count_if(program.stores, [](const Store &store) {
    return store.kind == StoreKind::ColumnPartial;
  });
  int64_t groups = kThreads / group;
  while (groups > std::max<int64_t>(1, kWarp / group) &&
         groups * sums * program.cols * 4 > kPartialBytes)
    groups /= 2;
  return groups;
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
  int64_t chunks = llvm::divideCeil(program.rows, program.rowsPerUnit);
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
    emitter.emitSplit();
    launch.units = chunks * llvm::divideCeil(program.cols, kBlock);
    launch.unitsPerBlock = groups;
    break;
  case Shape::Rows:
    emitter.emitRows(groups);
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
