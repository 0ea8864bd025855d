//===- DivideRows.cpp - Division of rows over ranks -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DivideRows.h"

#include "RandomInputs.h"
#include "RowDependence.h"
#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/StageChain.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;

namespace {

class RowDivider {
public:
  RowDivider(ProgramOp program, int64_t rows, int64_t ranks)
      : program(program), rows(rows),
        rowsPerRank(llvm::divideCeil(rows, ranks)),
        isPadded(rowsPerRank * ranks != rows),
        builder(program.getContext(), &layer) {}
  void run();

private:
  bool isRoot(Operation &op) const;
  void findDivided();
  void divide(Operation *op);
  void divideRoot(AllReduceOp sum);
  RankedTensorType shardType(Value whole) const;
  Value shardOf(Value whole);
  Value buildShard(Value whole);
  Value repeatRows(const RepeatedRows &repeated, Value whole);
  Value cloneFor(Operation *op, const RowDependence &dependence, Value result);
  bool isFixed(Value value) const;
  Value shareOf(Value value);
  void gather(Value whole);
  void eraseDead();

  ProgramOp program;
  int64_t rows, rowsPerRank;
  bool isPadded; ///< True if the last ranks have padding rows.
  LayerListener layer;
  OpBuilder builder;
  /// The ops that compute the rows of one rank, in program order, and how they
  /// depend on rows. The entries of sums over ranks (see isRoot()) are empty.
  llvm::MapVector<Operation *, RowDependence> divided;
  DenseMap<Value, Value> shards; ///< This rank's rows of a value.
  DenseMap<Value, Value> shares; ///< For a value that is equal on all ranks:
                                 ///< what ops on divided rows read instead.
};

} // namespace

/// Returns true if `op` sums a matrix over the ranks, and the rows of the sum
/// can be divided among the ranks.
bool RowDivider::isRoot(Operation &op) const {
  auto sum = dyn_cast<AllReduceOp>(op);
  return sum && sum.getAxis() == tensorAxis() && sum->getNumResults() == 1 &&
         hasRows(sum->getResult(0), rows) &&
         tensorTypeOf(sum->getResult(0)).getRank() == 2;
}

/// Finds the ops that are divided: the sums over ranks, and the ops that
/// compute their results row by row from the rows of these sums.
void RowDivider::findDivided() {
  auto isDivided = [&](Value value) {
    return divided.contains(value.getDefiningOp());
  };
  for (Operation &op : program.getBlock()) {
    if (isRoot(op)) {
      divided.insert({&op, {}});
      continue;
    }
    if (llvm::none_of(op.getOperands(), isDivided))
      continue;
    std::optional<RowDependence> found = findRowDependence(&op, rows);
    if (!found || (isPadded && !found->isFinite))
      continue;
    for (auto [operand, isByRow] :
         llvm::zip_equal(op.getOperands(), found->isByRow))
      if (isByRow && isDivided(operand)) {
        divided.insert({&op, std::move(*found)});
        break;
      }
  }
  // Keep a sum whole if neither a divided op nor a kiln.share reads it.
  divided.remove_if([&](auto &entry) {
    return isRoot(*entry.first) &&
           llvm::none_of(entry.first->getUsers(), [&](Operation *user) {
             return divided.contains(user) || isa<ShareOp>(user);
           });
  });
}

/// Returns the type of the rows of `whole` that one rank has.
RankedTensorType RowDivider::shardType(Value whole) const {
  RankedTensorType type = tensorTypeOf(whole);
  SmallVector<int64_t> shape = {rowsPerRank};
  if (type.getRank() > 1 && type.getNumElements() != rows)
    shape.push_back(type.getNumElements() / rows);
  else if (hasRows(whole, rows) && type.getRank() == 2)
    shape.push_back(1);
  return type.clone(shape);
}

void RowDivider::divideRoot(AllReduceOp sum) {
  Value whole = sum->getResult(0);
  auto scatter = ReduceScatterOp::create(builder, sum.getLoc(),
                                         TypeRange(shardType(whole)),
                                         sum.getInputs(), sum.getAxis());
  shards[whole] = scatter.getOutputs().front();
}

/// Clones an op so that the clone computes the rows of this rank. Returns the
/// result of the clone that corresponds to `result`.
Value RowDivider::cloneFor(Operation *op, const RowDependence &dependence,
                           Value result) {
  IRMapping mapping;
  for (auto [operand, isByRow] :
       llvm::zip_equal(op->getOperands(), dependence.isByRow))
    mapping.map(operand, isByRow ? shardOf(operand) : shareOf(operand));
  Operation *clone = builder.clone(*op, mapping);
  setLayer(clone, getLayer(op));
  for (auto [whole, part] :
       llvm::zip_equal(op->getResults(), clone->getResults())) {
    part.setType(shardType(whole));
    shards[whole] = part;
  }
  if (dependence.numbersRows)
    cast<RowNumberOpInterface>(clone).setShardOfRows(
        getOrAddTensorRank(program), rows);
  return shards.lookup(result);
}

/// Returns the rows of `whole` that this rank has. If no op computes these rows
/// yet, builds one at the insertion point.
Value RowDivider::shardOf(Value whole) {
  Value &shard = shards[whole];
  if (!shard) {
    Value built = buildShard(whole);
    shards[whole] = built;
    return built;
  }
  return shard;
}

Value RowDivider::buildShard(Value whole) {
  Operation *op = whole.getDefiningOp();
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  if (auto elements =
          constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
      elements && elements.isSplat()) {
    auto part = cast<ConstantOp>(builder.clone(*op));
    part.setValueAttr(elements.resizeSplat(shardType(whole)));
    part.getResult().setType(shardType(whole));
    return part;
  }
  // If `whole` repeats the rows of another tensor, the source, this rank looks
  // up its rows in the source. With only one sequence, the source has as many
  // rows as `whole`. In this case, look up rows only if the source depends on
  // states alone and is cheap to compute.
  if (std::optional<RepeatedRows> repeated = findRepeatedRows(whole);
      repeated && (repeated->period < rows || isFixed(repeated->source)))
    return repeatRows(*repeated, whole);
  std::optional<RowDependence> dependence;
  if (op)
    dependence = findRowDependence(op, rows);
  // The op can be cloned for the rows of this rank if the only operands that it
  // reads row by row are inputs of the program, such as tokens.
  auto isInput = [](auto pair) {
    auto [operand, isByRow] = pair;
    return !isByRow || isa<BlockArgument>(operand);
  };
  if (dependence &&
      llvm::all_of(llvm::zip_equal(op->getOperands(), dependence->isByRow),
                   isInput))
    return cloneFor(op, *dependence, whole);
  return TakeShardOp::create(builder, whole.getLoc(), shardType(whole), whole,
                             tensorAxis());
}

/// Builds the rows that this rank has of a matrix that repeats the rows of a
/// source, such as the embeddings of positions. Looks up each row in the
/// source, or broadcasts the source if it has only one row.
Value RowDivider::repeatRows(const RepeatedRows &repeated, Value whole) {
  RankedTensorType type = shardType(whole);
  int64_t columns = type.getDimSize(1);
  Location loc = whole.getLoc();
  Value source = shareOf(repeated.source);
  bool isRow = repeated.period == 1;
  auto sourceType = tensorTypeOf(source).clone(
      isRow ? ArrayRef({columns}) : ArrayRef({repeated.period, columns}));
  source = builder.createOrFold<ReshapeOp>(loc, sourceType, source);
  if (isRow)
    return BroadcastOp::create(builder, loc, type, source,
                               ArrayRef<int64_t>{1});
  auto positions = ShardPositionsOp::create(
      builder, loc, RankedTensorType::get({rowsPerRank}, builder.getI32Type()),
      getOrAddTensorRank(program), repeated.period);
  return EmbeddingOp::create(builder, loc, type, positions, source,
                             /*rank=*/Value(), /*padding_index=*/IntegerAttr());
}

/// Returns true if a value depends on states only, and is cheap to compute.
bool RowDivider::isFixed(Value value) const {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<ReadOp>(op))
    return true;
  return op && isMemoryEffectFree(op) && !isHeavyOp(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isFixed(operand); });
}

/// Returns a kiln.share of `value`, which is the same on all ranks. Ops on the
/// rows of one rank read this op instead of `value`, so that the ranks sum the
/// gradient of `value`. If `value` is computed from states, shares the states
/// instead and computes `value` again from them. The ranks then sum the
/// gradients of the states.
Value RowDivider::shareOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->hasTrait<OpTrait::ConstantLike>() ||
      !isa<FloatType>(tensorTypeOf(value).getElementType()))
    return value;
  if (Value found = shares.lookup(value))
    return found;
  Value share;
  if (!isa<ReadOp>(op) && isFixed(value)) {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, shareOf(operand));
    Operation *clone = builder.clone(*op, mapping);
    share = clone->getResult(cast<OpResult>(value).getResultNumber());
  } else {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(value);
    share = ShareOp::create(builder, value.getLoc(), value, tensorAxis());
  }
  shares[value] = share;
  return share;
}

void RowDivider::divide(Operation *op) {
  builder.setInsertionPoint(op);
  layer.enter(getLayer(op));
  if (auto sum = dyn_cast<AllReduceOp>(op))
    divideRoot(sum);
  else
    cloneFor(op, divided[op], op->getResult(0));
}

/// Gathers the rows of all ranks for the ops that read a value as a whole. All
/// readers in one layer share a gather. Readers in different layers are far
/// apart, so each layer has a gather of its own, and the gathered rows need not
/// stay in memory from one layer to the next.
void RowDivider::gather(Value whole) {
  llvm::MapVector<Attribute, SmallVector<OpOperand *>> readers;
  for (OpOperand &use : whole.getUses())
    if (!divided.contains(use.getOwner()))
      readers[getLayer(use.getOwner())].push_back(&use);
  for (auto &[key, uses] : readers) {
    Operation *first = uses.front()->getOwner();
    for (OpOperand *use : uses)
      if (use->getOwner()->isBeforeInBlock(first))
        first = use->getOwner();
    builder.setInsertionPoint(first);
    layer.enter(getLayer(first));
    auto gathered =
        AllGatherOp::create(builder, whole.getLoc(), TypeRange(whole.getType()),
                            shards.lookup(whole), tensorAxis());
    for (OpOperand *use : uses)
      use->set(gathered.getOutputs().front());
  }
}

void RowDivider::eraseDead() {
  for (Operation *op : llvm::reverse(llvm::make_first_range(divided))) {
    assert(op->use_empty() && "all users read shards or gathered values");
    op->erase();
  }
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(program.getBlock())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void RowDivider::run() {
  findDivided();
  for (Operation *op : llvm::make_first_range(divided))
    divide(op);
  for (Operation *op : llvm::make_first_range(divided))
    for (Value result : op->getResults())
      gather(result);
  eraseDead();
}

void kiln::divideRows(ProgramOp program) {
  auto module = program->getParentOfType<ModuleOp>();
  int64_t ranks = meshSizeOf(module, tensorAxis());
  BlockArgument tokens = program.getInput(InputRole::Tokens);
  if (ranks > 1 && tokens)
    RowDivider(program, tensorTypeOf(tokens).getNumElements(), ranks).run();
}
