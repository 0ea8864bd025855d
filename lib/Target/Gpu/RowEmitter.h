//===- RowEmitter.h - Row programs on a gpu ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes one kernel of a row program: RowKernel.cpp says in which shape, and
// how threads share the work. What it knows of a row at one moment is in its
// members: startRow() begins a row, startSweep() a pass over its columns.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ROWEMITTER_H
#define KILN_LIB_TARGET_GPU_ROWEMITTER_H

#include "RowAccess.h"
#include "RowPlan.h"

#include "kiln/Target/Common/RowNodes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace kiln::gpu {

class RowEmitter {
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Node = row::Node;
  using NodeId = row::NodeId;
  using Store = row::Store;

public:
  RowEmitter(GpuBuilder &k, const RowShape &shape, Alignments alignments,
             const row::SweepPlan &sweeps);

  void emitFlat();
  void emitScalar();
  void emitSplit(const RowPlan &plan);
  void emitRows(const RowPlan &plan);
  void emitCachedRows(const RowPlan &plan);

private:
  /// Columns of one thread in one block.
  struct Position {
    Value column;
    Mask mask;
    /// Its number, where it is known; in a split kernel that of the position
    /// among those of the thread.
    int64_t block = -1;
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

  /// Of a node's value.
  Type typeOf(const Node &node) { return elementTypeOf(k, node.type); }
  /// Of the elements in memory that are loaded or stored.
  Type storedTypeOf(const Node &load) { return elementTypeOf(k, load.stored); }
  Type storedTypeOf(const Store &store) {
    return elementTypeOf(k, store.stored);
  }
  llvm::SmallVector<Value, 3> inputsOf(const Node &node,
                                       llvm::ArrayRef<Value> from) {
    return llvm::map_to_vector<3>(node.inputs,
                                  [&](NodeId input) { return from[input]; });
  }
  unsigned argOf(const Store &store) { return numOperands + store.result; }
  Value toI64(Value integer) {
    if (integer.getType() == k.i64())
      return integer;
    return mlir::arith::ExtSIOp::create(k.b, k.i64(), integer);
  }
  /// Row `r` of argument `arg`, whose rows are `stride` elements of `type`
  /// apart.
  Base rowOf(unsigned arg, Type type, Value r, int64_t stride) {
    return {k.element(k.arg(arg), type, k.mul(r, k.i64Constant(stride))),
            isVectorAligned(k, type, alignments[arg],
                            isFlat || blockShift ? 0 : stride)};
  }
  /// Threads that work on a row.
  int64_t group() const { return kBlock / (k.width() * spread); }
  bool chunks() { return hasStore(program, row::StoreKind::ColumnPartial); }

  RandomSource startRandom(const Node &node);
  void startRow(Value r, Mask rowMask);
  void emitRowValues(int32_t level);
  void emitRowStores(Value condition);
  Base baseOf(NodeId id);
  void startSweep(int32_t s);
  std::array<Value, 4> emitRandomWords(NodeId id, Value column);
  Value emitRandom(NodeId id, Value column);
  Value emitSpreadRandom(NodeId id, const Position &position);
  Value emitSharedRandom(NodeId id, const Position &position);
  Value emitSlices(NodeId id, const Position &position);
  Value emitElement(NodeId id, const Position &position,
                    llvm::ArrayRef<Value> current);
  void emitPositions(llvm::ArrayRef<Position> positions,
                     llvm::MutableArrayRef<Value> partials);
  void emitStore(size_t i, const Position &position,
                 llvm::ArrayRef<Value> current);
  void chooseCached();
  void stageColumns(Value first, int64_t count,
                    int64_t mostBytes = kStagedBytes);
  void preload(llvm::ArrayRef<Position> positions);
  void emitChunk(const RowPlan &plan, Value chunk, Value column);
  void emitRowsFrom(Value first, int64_t count,
                    llvm::ArrayRef<Position> positions);
  Position positionAt(Value column, bool whole, int64_t block = -1);
  Value combineMaxima(const Node &node, Value partials);
  void finishReductions(llvm::ArrayRef<Value> partials);
  void emitSweep(int32_t s);
  /// Combines all blocks of a row, from the thread's column `first` on, with
  /// `partials`.
  void emitManyBlocks(Value first, llvm::MutableArrayRef<Value> partials);
  /// The value of the thread of the row whose number differs in the bits of
  /// `distance`.
  Value exchange(Value x, int64_t distance);
  void addToPartial(size_t store, const Position &position, Value value);
  void startSums(int64_t groups, Value number);
  void
  forEachSum(Value unit, Value isUnit,
             llvm::function_ref<void(const Store &store, const Base &result,
                                     const Position &position, Value sum)>
                 body);
  void zeroSums(Value unit, Value isUnit);
  void storeSums(Value unit, Value isUnit);
  Value emitKept(NodeId id, const Position &position);
  void keep(NodeId id, const Position &position, Value stored);
  llvm::SmallVector<Value>
  forEachTile(int64_t atOnce, mlir::ValueRange initial,
              llvm::function_ref<llvm::SmallVector<Value>(
                  Value tile, llvm::ArrayRef<Position> positions,
                  mlir::ValueRange carried)>
                  body,
              bool inRegisters = false);
  void loadKept();
  Value inAdders(size_t i, Value otherwise,
                 llvm::function_ref<Value(Value partial)> body);
  Value combineTile(const Node &node, Value tile, Value partial, Value initial);
  Value halvePartials(const Node &node, Value partials);
  void finishKept(llvm::ArrayRef<Value> partials);
  llvm::SmallVector<Value> combineInOrder(llvm::ArrayRef<Value> partials,
                                          bool inRegisters);
  void emitOrderedSweep();
  void emitMaximaSweep();
  void emitKeptSweep(int32_t s);
  void emitKeptRow(const RowPlan &plan, Value r, Value exists);
  int64_t tileColumns() const { return keptThreads * k.width(); }
  /// Of the thread in its tile, and in shared memory.
  Value placeInTile() { return k.mul(rowThread, k.i64Constant(k.width())); }
  /// Of a position's values in a row that is kept.
  Value keptPlaceOf(const Position &position) {
    return blockShift ? k.add(position.column, blockShift) : position.column;
  }
  void startChunk(const RowPlan &plan, Value number);
  bool startTiles();
  void startTile(Value block);
  void addToTile(size_t store, const Position &position, Value value);
  void finishTile(int64_t blocks);
  void storeChunk(Value unit);
  void emitRowOf(const RowPlan &plan, Value unit, Value r, Value exists);
  Value laneInGroup() {
    return k.bitAnd(rowThread ? rowThread : k.thread(),
                    k.i64Constant(group() - 1));
  }
  Value hiddenThread();

  const row::RowProgram &program;
  llvm::ArrayRef<Layout> layouts;
  Alignments alignments;
  unsigned numOperands;
  const row::SweepPlan &sweeps;
  GpuBuilder &k;

  /// By node: scalars of Scalar and Row nodes.
  llvm::SmallVector<Value> values;
  /// By node, in a sweep: those in every lane.
  llvm::SmallVector<Value> splats;
  /// By node: values per column in shared memory, or null.
  llvm::SmallVector<Value> stagedColumns;
  /// By node, in a sweep, and by store, in a row.
  llvm::SmallVector<Base> bases, targets;
  /// By node: whether its vectors of a row are in `cache`, by block.
  llvm::SmallVector<bool> cached;
  using Cache = llvm::DenseMap<std::pair<NodeId, int64_t>, Value>;
  Cache cache;
  /// Of a split kernel's thread, which keeps them for all rows.
  Cache columnValues;
  llvm::MapVector<NodeId, RandomSource> randoms;
  int64_t spread = 1;
  int64_t blocksAtOnce = 1;
  bool sharesRandom = false;
  /// By node and block: what came with the random numbers of a block before.
  Cache nextRandom;
  /// By store and position: a sum down the columns of a split kernel.
  Cache columnSums;
  /// By store: a thread's sums in shared memory; null: in the result.
  llvm::SmallVector<Value> sharedSums;

  /// Sums of a chunk on which all groups of a block work.
  struct Chunk {
    int64_t groups = 0, tileBlocks = 0; ///< 0: there is none
    int64_t columns = 0;                ///< of a row of `sums`
    /// By store: the row of `sums`; stores of one sweep are neighbours.
    llvm::SmallVector<int64_t> slots;
    Value sums, tile; ///< in shared memory
    Value number;     ///< of the group
    // In a sweep.
    int64_t firstSlot = 0, numSlots = 0;
    Value firstColumn;
    bool isEmpty = true; ///< Whether nothing is in the tile yet.
  } chunk;

  /// By node: its values of a row in shared memory, or null.
  llvm::SmallVector<Value> keptRows;
  /// Of a row, and of those the ones in shared memory.
  int64_t keptTiles = 0, sharedTiles = 0;
  int64_t keptThreads = 0; ///< that work on a row
  /// In shared memory, for each reduction of a sweep: two tiles, and 64 partial
  /// results.
  Value keptTerms, keptPartials;
  /// Where emitPositions leaves what a sweep's reductions combine, instead of
  /// combining it; or null.
  llvm::SmallVector<Value> *terms = nullptr;

  bool isFlat = false; ///< One row only, whatever the program's.
  Value row;
  Value blockShift; ///< Columns that its first block begins before it, or null.
  /// The thread's number, as hiddenThread() has it or among those of a kept
  /// row, or null.
  Value rowThread;
  Mask active; ///< Of the row: whether there is one.
  int32_t sweep = 0;
  llvm::SmallVector<NodeId> reductions, elementNodes;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ROWEMITTER_H
