//===- RowKernel.cpp - Row programs on a CPU ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row kernel processes its rows one by one, following the SweepPlan of the
// program:
//
//   scalars
//   for (unit : units of the call) {
//     zero the column partials of the unit;
//     for (row : rows of the unit) {
//       Row values that need no sweep;
//       for (block of 64 columns)     // sweep 0
//         loads, arithmetic, reductions, stores;
//       Row values that need sweep 0; sweep 1; ...
//       Row stores;
//     }
//   }
//
// A block of 64 columns is emitted one vector at a time, which limits live
// registers. Columns after the last full block are masked with constant masks.
// Each of the four vectors of a block has its own partial result of every
// reduction. At each column position, all loads precede all stores, since a
// result may be stored in the memory of an operand (mayShareSlot).
//
// If a row loads codes (quantized elements), they are decoded before its first
// sweep, one after another, onto the stack. This takes about one cycle per
// element; the sweeps then load vectors of decoded values.
//
// There are three kinds of kernels: over rows, over one long vector (flat
// programs), and the epilogue of a GEMM, whose range of columns is given at run
// time.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "kiln/Target/Common/RowNodes.h"
#include "kiln/Target/Common/VectorMath.h"

#include "kiln/Target/Cpu/Kernels.h"

using namespace mlir;

namespace kiln::cpu {

using row::Access;
using row::Kind;
using row::Node;
using row::NodeId;
using row::RowProgram;
using row::Space;
using row::Store;
using row::StoreKind;

namespace {

/// Minimum elements per call.
constexpr int64_t kGrainElements = 16384;
constexpr int64_t kVectors = kBlock / kLanes;
/// Maximum bytes of decoded values that a kernel keeps on the stack.
constexpr int64_t kDecodedBytes = 8192;
/// Elements per iteration of a loop that decodes a row.
constexpr int64_t kDecodedAtOnce = 8;

class RowEmitter {
public:
  /// `firstImmediate` is the number of immediates (scalar arguments) of the
  /// kernel that precede those of `program`.
  RowEmitter(ModuleOp module, StringRef name, const RowProgram &program,
             ArrayRef<Layout> layouts, unsigned firstImmediate)
      : program(program), plan(row::planSweeps(program)), layouts(layouts),
        numOperands(layouts.size() - program.stores.size()),
        firstImmediate(firstImmediate),
        k(module, name, layouts.size(),
          firstImmediate + program.immediates.size()),
        values(program.nodes.size()), splats(program.nodes.size()),
        bases(program.nodes.size()) {
    for (auto [id, node] : llvm::enumerate(program.nodes)) {
      if (node.kind == Kind::Random)
        randoms[id] = startRandom(node);
      if (node.space == Space::Scalar)
        values[id] = node.kind == Kind::Load
                         ? loadScalar(node, k.arg(node.operand))
                         : emitNode(k, node, inputsOf(node, values));
    }
  }

  void emitRows();
  void emitFlat();
  void emitColumnRange();

private:
  /// Masks of the vectors of a block; null selects the whole vector.
  using Masks = SmallVector<Value, kVectors>;
  /// The partial results of the reductions of a sweep, a loop over the columns
  /// of a row. The partial result of reduction i for vector v of a block is at
  /// index i * kVectors + v.
  using Partials = SmallVector<Value>;

  /// Return the element type in memory of a load, of a store, and of the
  /// location from which the current sweep reads a node.
  Type memoryOf(const Node &load) { return elementTypeOf(k, load.stored); }
  Type memoryOf(const Store &store) { return elementTypeOf(k, store.stored); }
  Type memoryOf(NodeId id) {
    return plan.isReadBack(id, sweep)
               ? memoryOf(program.stores[plan.savedBy[id]])
               : memoryOf(program.nodes[id]);
  }
  Value loadScalar(const Node &load, Value address) {
    return k.widen(k.load(address, memoryOf(load)));
  }
  SmallVector<Value, 3> inputsOf(const Node &node, ArrayRef<Value> from) {
    return llvm::map_to_vector<3>(node.inputs,
                                  [&](NodeId input) { return from[input]; });
  }
  Value resultOf(const Store &store) {
    return k.arg(numOperands + store.result);
  }
  Value toI64(Value integer) {
    if (integer.getType() == k.i64())
      return integer;
    return arith::ExtSIOp::create(k.b, k.i64(), integer);
  }
  /// Returns the pointer to row `row` of a matrix of `type`.
  Value rowOf(Value base, Type type, int64_t stride) {
    return k.element(base, type, k.mul(row, k.i64Constant(stride)));
  }

  RandomSource startRandom(const Node &node);
  void startRow(Value r);
  void reserveDecoded();
  void decodeRow();
  void emitRowValues(int32_t level);
  void emitRowStores();
  void zeroPartials(Value unit);

  void startSweep(int32_t s);
  Value baseOf(NodeId id);
  Partials emitBlock(Value column, const Masks &masks, Partials partials);
  void emitBlockNodes(Value column, const Masks &masks);
  Value emitElement(NodeId id, Value column, int64_t v, Value mask);
  void emitStores(Value column, Value mask);
  void finishReductions(const Partials &partials);
  void emitStaticSweep(int32_t s);

  const RowProgram &program;
  row::SweepPlan plan;
  ArrayRef<Layout> layouts;
  unsigned numOperands, firstImmediate;
  KernelBuilder k;

  /// Indexed by node: the scalars of Scalar and Row nodes and, while a block of
  /// columns is emitted, the vectors of the other nodes.
  SmallVector<Value> values;
  /// Indexed by node: Scalar and Row values broadcast to all lanes. Computed
  /// anew for each sweep.
  SmallVector<Value> splats;
  /// Indexed by node: address of the node's row. Computed anew for each sweep.
  SmallVector<Value> bases;
  /// Indexed by store: address of the row that the store writes. Computed anew
  /// for each row.
  SmallVector<Value> targets;
  /// Keyed by node: the vectors of nodes that are computed for a whole block at
  /// once.
  llvm::DenseMap<NodeId, SmallVector<Value, kVectors>> blockValues;

  llvm::MapVector<NodeId, RandomSource> randoms;
  /// Keyed by node: the decoded values of a row.
  llvm::MapVector<NodeId, Value> decoded;

  Value row;  ///< i64.
  Value unit; ///< i64; set only if there are partial sums of columns.
  int32_t sweep = 0;
  SmallVector<NodeId> reductions, elementNodes;
};

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void RowEmitter::emitRowValues(int32_t level) {
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (node.space != Space::Row || plan.level[id] != level)
      continue;
    switch (node.kind) {
    case Kind::ReduceSum:
    case Kind::ReduceMax:
      break; // The sweep over the columns sets the value.
    case Kind::RowIndex:
      values[id] = arith::TruncIOp::create(k.b, k.i32(), row);
      break;
    case Kind::Load: {
      Value base = k.arg(node.operand), offset = row;
      if (node.access == Access::RowElement) {
        base = rowOf(base, memoryOf(node), layouts[node.operand].rowStride);
        offset = toI64(values[node.inputs[0]]);
      }
      values[id] = loadScalar(node, k.element(base, memoryOf(node), offset));
      break;
    }
    default:
      values[id] = emitNode(k, node, inputsOf(node, values));
    }
  }
}

/// Reserves memory for the results of nodes that decode elements of an operand.
void RowEmitter::reserveDecoded() {
  int64_t left = kDecodedBytes;
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (node.kind != Kind::DecodeSigned && node.kind != Kind::DecodeUnsigned)
      continue;
    const Node &codes = program.nodes[node.inputs[0]];
    int64_t bytes = llvm::alignTo(bytesOf(node.type, program.cols), 64);
    if (codes.kind != Kind::Load || codes.access != Access::Identity ||
        bytes > left)
      continue;
    left -= bytes;
    decoded[id] = k.reserve(elementTypeOf(k, node.type), program.cols);
  }
}

void RowEmitter::decodeRow() {
  for (auto &[id, values] : decoded) {
    const Node &node = program.nodes[id];
    const Node &codes = program.nodes[node.inputs[0]];
    Type stored = memoryOf(codes), type = elementTypeOf(k, node.type);
    Value base =
        rowOf(k.arg(codes.operand), stored, layouts[codes.operand].rowStride);
    auto decode = [&, to = values](Value column) {
      Value code = k.load(k.element(base, stored, column), stored);
      // Store the value as an integer, since some processors can store more
      // integers than floats per cycle.
      Value bits = k.bitcast(emitNode(k, node, {code}), k.i32());
      k.store(bits, k.element(to, type, column));
    };
    int64_t whole = llvm::alignDown(program.cols, kDecodedAtOnce);
    k.loop(k.i64Constant(0), k.i64Constant(whole), kDecodedAtOnce,
           [&](Value column) {
             for (int64_t i = 0; i < kDecodedAtOnce; ++i)
               decode(k.add(column, k.i64Constant(i)));
           });
    for (int64_t column = whole; column < program.cols; ++column)
      decode(k.i64Constant(column));
  }
}

/// Loads the random state from the operand of `node`, which contains {seed,
/// step, first sequence}.
RandomSource RowEmitter::startRandom(const Node &node) {
  auto word = [&](int64_t i) {
    return k.load(k.element(k.arg(node.operand), k.i64(), i), k.i64());
  };
  RandomSource source;
  source.key =
      emitRandomKey(k, word(0), k.immediate(firstImmediate + node.immediate));
  source.step = word(1);
  source.firstSequence = word(2);
  return source;
}

void RowEmitter::startRow(Value r) {
  row = r;
  for (auto &[id, source] : randoms) {
    const Node &node = program.nodes[id];
    source.startRow(
        k,
        node.inputs.empty() ? row : k.add(row, toI64(values[node.inputs[0]])),
        node.period);
  }
  targets.assign(program.stores.size(), Value());
  for (auto [i, store] : llvm::enumerate(program.stores)) {
    if (store.kind == StoreKind::Full)
      targets[i] = rowOf(resultOf(store), memoryOf(store),
                         layouts[numOperands + store.result].rowStride);
    else if (store.kind == StoreKind::ColumnPartial)
      targets[i] = k.element(resultOf(store), memoryOf(store),
                             k.mul(unit, k.i64Constant(program.cols)));
  }
}

void RowEmitter::emitRowStores() {
  for (const Store &store : program.stores)
    if (store.kind == StoreKind::Row)
      k.store(k.roundTo(values[store.value], memoryOf(store)),
              k.element(resultOf(store), memoryOf(store), row));
}

void RowEmitter::zeroPartials(Value unit) {
  for (const Store &store : program.stores) {
    if (store.kind != StoreKind::ColumnPartial)
      continue;
    Type type = memoryOf(store);
    Value zero = k.constantF(0, k.vectorOf(type));
    Value base = k.element(resultOf(store), type,
                           k.mul(unit, k.i64Constant(program.cols)));
    int64_t whole = program.cols / kLanes * kLanes;
    k.loop(k.i64Constant(0), k.i64Constant(whole), kLanes, [&](Value column) {
      k.storeVector(zero, k.element(base, type, column));
    });
    if (whole < program.cols)
      k.storeVector(zero, k.element(base, type, whole),
                    k.firstLanes(program.cols - whole));
  }
}

void RowEmitter::emitRows() {
  reserveDecoded();
  auto emitRow = [&](Value r) {
    startRow(r);
    decodeRow();
    emitRowValues(0);
    for (int32_t s = 0; s < plan.sweeps; ++s) {
      emitStaticSweep(s);
      emitRowValues(s + 1);
    }
    emitRowStores();
  };
  // With column sums, a unit of work is a chunk of rows, even if a chunk has
  // one row.
  bool chunks = llvm::any_of(program.stores, [](const Store &store) {
    return store.kind == StoreKind::ColumnPartial;
  });
  if (!chunks) {
    k.loop(k.begin(), k.end(), 1, emitRow);
  } else {
    k.loop(k.begin(), k.end(), 1, [&](Value u) {
      unit = u;
      zeroPartials(u);
      Value first = k.mul(u, k.i64Constant(program.rowsPerUnit));
      Value last = k.add(first, k.i64Constant(program.rowsPerUnit));
      k.loop(first, k.min(last, k.i64Constant(program.rows)), 1, emitRow);
    });
  }
  k.finish();
}

void RowEmitter::emitFlat() {
  startRow(k.i64Constant(0));
  startSweep(0);
  Value count = k.sub(k.end(), k.begin());
  Value whole = k.sub(count, k.bitAnd(count, k.i64Constant(kBlock - 1)));
  Value middle = k.add(k.begin(), whole);
  k.loop(k.begin(), middle, kBlock,
         [&](Value element) { emitBlock(element, Masks(kVectors), {}); });
  k.loop(middle, k.end(), kLanes, [&](Value element) {
    emitBlock(element, {k.lanesBetween(element, element, k.end())}, {});
  });
  k.finish();
}

void RowEmitter::emitColumnRange() {
  Value low = k.immediate(0), high = k.immediate(1);
  Value first = k.bitAnd(low, k.i64Constant(-kBlock));
  k.loop(k.begin(), k.end(), 1, [&](Value r) {
    startRow(r);
    emitRowValues(0);
    if (plan.sweeps > 0) {
      startSweep(0);
      k.loop(first, high, kBlock, [&](Value column) {
        Value isWhole = arith::AndIOp::create(
            k.b, k.less(k.sub(low, k.i64Constant(1)), column),
            k.less(k.add(column, k.i64Constant(kBlock - 1)), high));
        auto emitMasked = [&] {
          Masks masks;
          for (int64_t v = 0; v < kVectors; ++v)
            masks.push_back(k.lanesBetween(
                k.add(column, k.i64Constant(v * kLanes)), low, high));
          emitBlock(column, masks, {});
        };
        k.ifThen(
            isWhole, [&] { emitBlock(column, Masks(kVectors), {}); },
            emitMasked);
      });
    }
    emitRowStores();
  });
  k.finish();
}

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

Value RowEmitter::baseOf(NodeId id) {
  const Node &node = program.nodes[id];
  if (plan.isReadBack(id, sweep))
    return targets[plan.savedBy[id]];
  if (node.kind != Kind::Load)
    return {};
  Value base = k.arg(node.operand);
  Type type = memoryOf(node);
  switch (node.access) {
  case Access::Identity:
    return rowOf(base, type, layouts[node.operand].rowStride);
  case Access::SumOfSlices:
    return rowOf(base, type, program.cols);
  case Access::PerColumn:
    return base;
  case Access::Modulo: {
    Value r = k.remUnsigned(row, k.i64Constant(node.period));
    return k.element(base, type, k.mul(r, k.i64Constant(program.cols)));
  }
  case Access::Gathered: {
    Value r = toI64(values[node.inputs[0]]);
    return k.element(base, type, k.mul(r, k.i64Constant(program.cols)));
  }
  case Access::PerRow:
  case Access::Scalar:
  case Access::RowElement:
    break;
  }
  llvm_unreachable("not a load per element");
}

/// Prepares the values that all blocks of sweep `s` share.
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

/// Emits random words and sums of slices, which are computed for all columns of
/// a block together.
void RowEmitter::emitBlockNodes(Value column, const Masks &masks) {
  blockValues.clear();
  for (NodeId id : elementNodes) {
    const Node &node = program.nodes[id];
    if (plan.isReadBack(id, sweep))
      continue;
    if (node.kind == Kind::Random) {
      const RandomSource &source = randoms[id];
      auto block =
          emitRandomBlock(k, source.key, k.shiftRight(column, 6),
                          source.rowInSequence, source.sequence, source.step);
      blockValues[id].assign(block.begin(), block.end());
      continue;
    }
    if (node.kind != Kind::Load || node.access != Access::SumOfSlices)
      continue;
    Type type = memoryOf(node);
    auto loadSlice = [&](Value slice, size_t v) {
      Value offset = k.mul(slice, k.i64Constant(program.rows * program.cols));
      offset = k.add(offset, k.add(column, k.i64Constant(v * kLanes)));
      return k.loadWide(k.element(bases[id], type, offset), type, masks[v]);
    };
    SmallVector<Value> first;
    for (size_t v = 0; v < masks.size(); ++v)
      first.push_back(loadSlice(k.i64Constant(0), v));
    SmallVector<Value> sums =
        k.loop(k.i64Constant(1), k.i64Constant(node.period), 1, first,
               [&](Value slice, ValueRange carried) {
                 SmallVector<Value> next;
                 for (auto [v, sum] : llvm::enumerate(carried))
                   next.push_back(k.add(sum, loadSlice(slice, v)));
                 return next;
               });
    blockValues[id].assign(sums.begin(), sums.end());
  }
}

/// Emits the vector of a Full or Column node at `column`, which is vector `v`
/// of its block.
Value RowEmitter::emitElement(NodeId id, Value column, int64_t v, Value mask) {
  const Node &node = program.nodes[id];
  if (auto found = blockValues.find(id); found != blockValues.end())
    return found->second[v];
  if (auto found = decoded.find(id); found != decoded.end()) {
    Type type = elementTypeOf(k, node.type);
    return k.loadVector(k.element(found->second, type, column), type, mask);
  }
  if (plan.isReadBack(id, sweep) || node.kind == Kind::Load) {
    Type type = memoryOf(id);
    return k.loadWide(k.element(bases[id], type, column), type, mask);
  }
  if (node.kind == Kind::ColumnIndex)
    return k.add(k.broadcast(arith::TruncIOp::create(k.b, k.i32(), column)),
                 k.lanes(k.i32()));
  SmallVector<Value, 3> inputs;
  for (NodeId input : node.inputs)
    inputs.push_back(splats[input] ? splats[input] : values[input]);
  return emitNode(k, node, inputs);
}

void RowEmitter::emitStores(Value column, Value mask) {
  for (auto [i, store] : llvm::enumerate(program.stores)) {
    if (store.kind == StoreKind::Row || plan.storeSweep[i] != sweep)
      continue;
    Value value =
        splats[store.value] ? splats[store.value] : values[store.value];
    Type type = memoryOf(store);
    Value address = k.element(targets[i], type, column);
    if (store.kind == StoreKind::ColumnPartial)
      value = k.add(k.loadVector(address, type, mask), value);
    k.storeRounded(value, address, type, mask);
  }
}

/// Emits one vector per element of `masks` for the block at `column`. Returns
/// the new partial results.
RowEmitter::Partials RowEmitter::emitBlock(Value column, const Masks &masks,
                                           Partials partials) {
  emitBlockNodes(column, masks);
  for (auto [v, mask] : llvm::enumerate(masks)) {
    Value position = v == 0 ? column : k.add(column, k.i64Constant(v * kLanes));
    for (NodeId id : elementNodes)
      values[id] = emitElement(id, position, v, mask);
    for (auto [i, id] : llvm::enumerate(reductions)) {
      NodeId input = program.nodes[id].inputs[0];
      Value &partial = partials[i * kVectors + v];
      Value next = emitCombine(k, program.nodes[id], partial,
                               splats[input] ? splats[input] : values[input]);
      partial = mask ? k.select(mask, next, partial) : next;
    }
    emitStores(position, mask);
  }
  return partials;
}

/// Reduces the partial results of every reduction as a binary tree: combines
/// partial j with partial j + 32, then with partial j + 16, and so on.
void RowEmitter::finishReductions(const Partials &partials) {
  for (auto [i, id] : llvm::enumerate(reductions)) {
    const Node &node = program.nodes[id];
    SmallVector<Value> vectors(partials.begin() + i * kVectors,
                               partials.begin() + (i + 1) * kVectors);
    auto combine = [&](Value x, Value y) { return emitCombine(k, node, x, y); };
    for (size_t half = kVectors / 2; half >= 1; half /= 2)
      for (size_t v = 0; v < half; ++v)
        vectors[v] = combine(vectors[v], vectors[v + half]);
    values[id] = k.reduceLanes(vectors[0], combine);
  }
}

void RowEmitter::emitStaticSweep(int32_t s) {
  startSweep(s);
  Partials partials;
  for (NodeId id : reductions)
    partials.append(kVectors, emitNeutral(k, program.nodes[id]));
  int64_t whole = program.cols / kBlock * kBlock;
  if (whole > kBlock)
    partials =
        k.loop(k.i64Constant(0), k.i64Constant(whole), kBlock, partials,
               [&](Value column, ValueRange carried) {
                 return emitBlock(column, Masks(kVectors), Partials(carried));
               });
  else if (whole > 0)
    partials = emitBlock(k.i64Constant(0), Masks(kVectors), partials);
  if (int64_t rest = program.cols - whole) {
    Masks masks(rest / kLanes);
    if (rest % kLanes != 0)
      masks.push_back(k.firstLanes(rest % kLanes));
    partials = emitBlock(k.i64Constant(whole), masks, partials);
  }
  finishReductions(partials);
}

} // namespace

KernelLaunch emitRowKernel(ModuleOp module, StringRef name,
                           const RowShape &shape) {
  const RowProgram &program = shape.program;
  RowEmitter emitter(module, name, program, shape.layouts,
                     /*firstImmediate=*/0);
  KernelLaunch launch;
  if (program.flat && shape.isDense()) {
    emitter.emitFlat();
    launch.units = program.rows * program.cols;
    launch.grain = kGrainElements;
    return launch;
  }
  emitter.emitRows();
  launch.units = llvm::divideCeil(program.rows, program.rowsPerUnit);
  launch.grain = std::max<int64_t>(
      1, kGrainElements /
             std::max<int64_t>(1, program.cols * program.rowsPerUnit));
  return launch;
}

KernelLaunch emitRowEpilogue(ModuleOp module, StringRef name,
                             const RowShape &shape) {
  RowEmitter(module, name, shape.program, shape.layouts, /*firstImmediate=*/2)
      .emitColumnRange();
  KernelLaunch launch;
  launch.units = shape.program.rows;
  return launch;
}

void addRowKernel(KernelEmitters &emitters) {
  emitters.addRows(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
        FailureOr<RowShape> shape = readRows(kernel);
        if (failed(shape))
          return failure();
        auto emit = shape->epilogue ? emitRowEpilogue : emitRowKernel;
        return emit(module, kernel.getSymName(), *shape);
      }});
}

} // namespace kiln::cpu
