//===- RowEmitter.h - Emitter of row programs on a GPU ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the kernel of a row program. RowKernel.cpp describes the forms of a
// kernel and the distribution of work among threads. The members hold the state
// of the current row and sweep: startRow() begins a row, and startSweep()
// begins a pass over its columns.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ROWEMITTER_H
#define KILN_LIB_TARGET_GPU_ROWEMITTER_H

#include "RowAccess.h"
#include "RowPlan.h"

#include "kiln/Target/Common/RowNodes.h"
#include "kiln/Target/Common/VectorMath.h"

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
  /// The columns of one thread in one column block.
  struct Position {
    Value column;
    Mask mask;
    /// The index of the column block, or -1 if the index is not a constant. In
    /// a kernel of the form RowPlan::Split, the index of this position among
    /// the positions of the thread.
    int64_t block = -1;
  };
  /// Address of the first element of a row; `aligned` is true if vector
  /// accesses to the row are aligned.
  struct Base {
    Value pointer;
    bool aligned = false;
  };

  /// Returns the type of a node's value.
  Type typeOf(const Node &node) { return elementTypeOf(k, node.type); }
  /// Returns the type of the loaded or stored elements in memory.
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
  /// Returns row `r` of argument `arg` with a row stride of `stride` elements
  /// of `type`.
  Base rowOf(unsigned arg, Type type, Value r, int64_t stride) {
    return {k.element(k.arg(arg), type, k.mul(r, k.i64Constant(stride))),
            isVectorAligned(k, type, alignments[arg],
                            isFlat || blockShift ? 0 : stride)};
  }
  /// Returns the number of threads that process a row.
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
  /// Combines the elements of all column blocks of a row with `partials`.
  /// `first` is the index of the thread's first column.
  void emitManyBlocks(Value first, llvm::MutableArrayRef<Value> partials);
  /// Returns the value of x in another thread of the same row. The index of
  /// that thread is the index of this thread XOR `distance`.
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
  /// Returns the index of this thread's first column within a tile.
  Value placeInTile() { return k.mul(rowThread, k.i64Constant(k.width())); }
  /// Returns the index of the first value of `position` in a cached row.
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

  /// Indexed by node: the scalars of Scalar and Row nodes.
  llvm::SmallVector<Value> values;
  /// Indexed by node: the scalars in `values`, broadcast to all lanes in each
  /// sweep.
  llvm::SmallVector<Value> splats;
  /// Indexed by node: per-column values in shared memory, or null.
  llvm::SmallVector<Value> stagedColumns;
  /// `bases` is indexed by node and has the addresses of the rows that a sweep
  /// reads. `targets` is indexed by store and has the addresses of the rows
  /// that are written. `targets` is set anew for each row.
  llvm::SmallVector<Base> bases, targets;
  /// Indexed by node: true if `cache` holds the vectors of the node for the
  /// current row. `cache` is keyed by node and column block.
  llvm::SmallVector<bool> cached;
  using Cache = llvm::DenseMap<std::pair<NodeId, int64_t>, Value>;
  Cache cache;
  /// Keyed by node and position: per-column values that a thread of a split
  /// kernel loads once for all rows.
  Cache columnValues;
  llvm::MapVector<NodeId, RandomSource> randoms;
  int64_t spread = 1;
  int64_t blocksAtOnce = 1;
  bool sharesRandom = false;
  /// Keyed by node and column block: random words that were computed together
  /// with those of a previous block.
  Cache nextRandom;
  /// Keyed by store and position: column sums of a split kernel.
  Cache columnSums;
  /// Indexed by store: the column sums of a thread in shared memory. Empty if
  /// the threads accumulate their sums in the result of the kernel.
  llvm::SmallVector<Value> sharedSums;

  /// Column sums of a chunk of rows that all groups of a thread block process
  /// together.
  struct Chunk {
    /// Groups per thread block, and column blocks per tile. Both are 0 if each
    /// group processes its own chunk.
    int64_t groups = 0, tileBlocks = 0;
    int64_t columns = 0; ///< Row length of `sums`.
    /// Indexed by store: the row of `sums` that contains the column sums of the
    /// store. The stores of one sweep have adjacent rows.
    llvm::SmallVector<int64_t> slots;
    Value sums, tile; ///< Column sums and a tile of terms, in shared memory.
    Value number;     ///< Index of this thread's group in the thread block.
    // State of the current sweep.
    int64_t firstSlot = 0, numSlots = 0;
    Value firstColumn;
    bool isEmpty = true; ///< The tile holds no terms yet.
  } chunk;

  /// Indexed by node: the cached row values of the node in shared memory, or
  /// null.
  llvm::SmallVector<Value> keptRows;
  /// Number of tiles of a cached row, and how many of them are in shared
  /// memory.
  int64_t keptTiles = 0, sharedTiles = 0;
  int64_t keptThreads = 0; ///< Threads that process a cached row.
  /// Shared memory for each reduction of a sweep (a loop over the columns of a
  /// row): two tiles of terms, and 64 partial results.
  Value keptTerms, keptPartials;
  /// If not null, emitPositions appends the reduction terms of a sweep to this
  /// list instead of combining them.
  llvm::SmallVector<Value> *terms = nullptr;

  bool isFlat = false; ///< The program is processed as a single row.
  Value row;
  /// The number of columns by which the first column block begins before the
  /// row, so that column blocks are aligned in memory. Null if the first block
  /// begins at the start of the row.
  Value blockShift;
  /// If rows are cached in shared memory, the index of the thread among the
  /// threads of its row. In other kernels, the index of the thread in its block
  /// if hiddenThread() computed it, and null if k.thread() is used instead.
  Value rowThread;
  Mask active; ///< Selects all columns if the row exists, else none.
  int32_t sweep = 0;
  llvm::SmallVector<NodeId> reductions, elementNodes;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ROWEMITTER_H
