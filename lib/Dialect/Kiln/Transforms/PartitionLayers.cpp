//===- PartitionLayers.cpp - Division of layers over ranks ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensor parallelism (Shoeybi et al., 2019, arXiv:1909.08053): the ranks of the
// axis tp compute with the same sequences, and divide the matrices of layers.
// The pass rewrites the forward program before it is differentiated, so that
// differentiation creates the collectives of the backward pass.
//
//===----------------------------------------------------------------------===//

#include "ColumnGroups.h"
#include "RandomInputs.h"
#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "llvm/Support/MathExtras.h"

namespace kiln {
#define GEN_PASS_DEF_PARTITIONLAYERS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class LayerPartitioner {
public:
  LayerPartitioner(ProgramOp program, SymbolTable &symbols, int64_t ranks)
      : program(program), symbols(symbols), ranks(ranks),
        builder(program.getContext(), &layer) {}
  LogicalResult run();

private:
  void divideColumns(const ColumnGroups &groups);
  void divideWeight(ReadOp read, int64_t dim, const ColumnGroup &group);
  void divideValue(Value value, const ColumnGroup &group);
  void setHeads(Operation *op, int64_t size);
  void sumMatmul(MatmulOp matmul);
  void divideVocabulary();
  void divideTable(int64_t rows, ArrayRef<ReadOp> reads);

  void divideState(ReadOp read, ArrayRef<int64_t> shape, int64_t blocks);
  void share(OpOperand &operand);
  Value sum(Operation *op);
  void addRankToRandomState();

  ProgramOp program;
  SymbolTable &symbols;
  int64_t ranks;
  LayerListener layer;
  OpBuilder builder;
  DenseMap<Value, Value> shared;
  bool isChanged = false;
};

} // namespace

/// Replaces the state that `read` reads by this rank's shard of the state. The
/// shard has the shape `shape` and consists of `blocks` blocks. Changes the
/// type of `read` accordingly.
void LayerPartitioner::divideState(ReadOp read, ArrayRef<int64_t> shape,
                                   int64_t blocks) {
  auto state = symbols.lookup<StateOp>(read.getState());
  RankedTensorType whole = state.getTensorType();
  RankedTensorType type = whole.clone(shape);
  state.setShardAttr(ShardAttr::get(builder.getContext(), whole, tensorAxis(),
                                    blocks, Attribute()));
  state.setTypeAttr(TypeAttr::get(type));
  read.getResult().setType(type);
  isChanged = true;
}

/// Replaces the operand of a divided computation by a kiln.share of the
/// operand, an identity whose gradient is summed over the ranks. All divided
/// computations with this operand read the same kiln.share.
void LayerPartitioner::share(OpOperand &operand) {
  Value value = operand.get();
  Value &share = shared[value];
  Operation *user = operand.getOwner();
  if (!share) {
    layer.enter(getLayer(user));
    builder.setInsertionPointAfterValue(value);
    share = ShareOp::create(builder, user->getLoc(), value, tensorAxis());
  }
  operand.set(share);
}

/// Sums the result of an op over the ranks, each of which has computed one
/// summand.
Value LayerPartitioner::sum(Operation *op) {
  Value partial = op->getResult(0);
  layer.enter(getLayer(op));
  builder.setInsertionPointAfter(op);
  auto sum = AllReduceOp::create(builder, op->getLoc(), partial, tensorAxis());
  partial.replaceAllUsesExcept(sum.getOutputs().front(), sum);
  return sum.getOutputs().front();
}

/// Adds the column with the index of this rank to the random state.
void LayerPartitioner::addRankToRandomState() {
  BlockArgument rng = program.getInput(InputRole::Rng);
  rng.setType(RankedTensorType::get({1, 4}, builder.getI64Type()));
  program.setFunctionType(builder.getFunctionType(
      program.getBlock().getArgumentTypes(), program.getResultTypes()));
}

/// Divides the dimension `dim` of a parameter in the same way as the columns of
/// `group`.
void LayerPartitioner::divideWeight(ReadOp read, int64_t dim,
                                    const ColumnGroup &group) {
  SmallVector<int64_t> shape(tensorTypeOf(read.getY()).getShape());
  int64_t blocks = shape[dim] / group.extent;
  shape[dim] = blocks * group.part;
  for (int64_t size : ArrayRef(shape).take_front(dim))
    blocks *= size;
  divideState(read, shape, blocks);
}

/// Divides the columns of a value as `group` specifies.
void LayerPartitioner::divideValue(Value value, const ColumnGroup &group) {
  RankedTensorType type = tensorTypeOf(value);
  if (auto read = value.getDefiningOp<ReadOp>())
    return divideWeight(read, type.getRank() - 1, group);
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = shape.back() / group.extent * group.part;
  value.setType(type.clone(shape));
  if (auto constant = value.getDefiningOp<ConstantOp>())
    constant.setValueAttr(cast<DenseElementsAttr>(constant.getValue())
                              .resizeSplat(type.clone(shape)));
}

/// Sums the partial results of a matmul whose left operand is divided.
void LayerPartitioner::sumMatmul(MatmulOp matmul) {
  Value addend = matmul.getAccumulate();
  matmul.getAccumulateMutable().clear();
  Value total = sum(matmul);
  if (!addend)
    return;
  builder.setInsertionPointAfterValue(total);
  auto add = AddOp::create(builder, matmul.getLoc(), total, addend);
  total.replaceAllUsesExcept(add, add);
}

/// Divides, over the ranks, the columns of the intermediate values between two
/// matmuls (see ColumnGroups.h), and accordingly the weights of these matmuls.
void LayerPartitioner::divideColumns(const ColumnGroups &groups) {
  // The ops that compute with heads, each with the number of columns of a head.
  SmallVector<std::pair<Operation *, int64_t>> heads;
  SmallVector<MatmulOp> sources, sinks;
  SmallVector<BroadcastOp> broadcasts;
  for (Operation &op : program.getBlock()) {
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      if (groups.divided(matmul.getY()))
        sources.push_back(matmul);
      if (groups.divided(matmul.getA()))
        sinks.push_back(matmul);
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      if (groups.divided(attention.getQ()))
        heads.push_back({attention, attention.getHeadDim()});
    } else if (auto rope = dyn_cast<RopeOp>(op)) {
      if (groups.divided(rope.getX()))
        heads.push_back(
            {rope, tensorTypeOf(rope.getX()).getDimSize(1) / rope.getHeads()});
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      if (groups.divided(broadcast.getY()) && !groups.divided(broadcast.getX()))
        broadcasts.push_back(broadcast);
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      if (const ColumnGroup *group = groups.divided(slice.getX())) {
        SmallVector<int64_t> offsets(slice.getOffsets());
        offsets[1] = offsets[1] / group->extent * group->part;
        slice.setOffsets(offsets);
      }
    }
  }
  for (MatmulOp matmul : sources)
    divideWeight(matmul.getB().getDefiningOp<ReadOp>(),
                 matmul.getTransB() ? 0 : 1, *groups.divided(matmul.getY()));
  for (MatmulOp matmul : sinks)
    divideWeight(matmul.getB().getDefiningOp<ReadOp>(),
                 matmul.getTransB() ? 1 : 0, *groups.divided(matmul.getA()));
  for (Value value : groups.dividedValues())
    divideValue(value, *groups.divided(value));
  for (auto [op, size] : heads)
    setHeads(op, size);
  for (MatmulOp matmul : sources)
    share(matmul->getOpOperand(0));
  for (BroadcastOp broadcast : broadcasts)
    share(broadcast->getOpOperand(0));
  for (MatmulOp matmul : sinks)
    sumMatmul(matmul);
}

/// Sets the numbers of heads of an op from the types of its operands.
void LayerPartitioner::setHeads(Operation *op, int64_t size) {
  auto headsOf = [&](Value value) {
    return tensorTypeOf(value).getDimSize(1) / size;
  };
  if (auto rope = dyn_cast<RopeOp>(op)) {
    rope.setHeads(headsOf(rope.getX()));
    return;
  }
  auto attention = cast<AttentionOp>(op);
  int64_t heads = headsOf(attention.getO());
  auto lse = tensorTypeOf(attention.getLse());
  attention.getLse().setType(lse.clone(
      {int64_t(attention.getSequences()) * heads, lse.getDimSize(1)}));
  attention.setHeads(heads);
  attention.setKvHeads(headsOf(attention.getK()));
  if (attention.getRng())
    addRankToRandomState();
}

/// Divides, over the ranks, the rows of each parameter that only embeddings and
/// the linear head read, and that the program does not write.
void LayerPartitioner::divideVocabulary() {
  llvm::DenseSet<StringAttr> written = findWritten(program);
  DenseMap<StringAttr, SmallVector<ReadOp>> reads;
  SmallVector<StringAttr> names;
  for (ReadOp read : program.getBlock().getOps<ReadOp>()) {
    SmallVector<ReadOp> &all = reads[read.getStateAttr().getAttr()];
    if (all.empty())
      names.push_back(read.getStateAttr().getAttr());
    all.push_back(read);
  }
  for (StringAttr name : names) {
    auto state = symbols.lookup<StateOp>(name);
    RankedTensorType type = state.getTensorType();
    auto isVocabulary = [](OpOperand &use) {
      Operation *user = use.getOwner();
      return (isa<EmbeddingOp>(user) || isa<LinearCrossEntropyOp>(user)) &&
             use.getOperandNumber() == 1;
    };
    bool divides = state.getRole() == Role::Parameter && !state.getShard() &&
                   !written.contains(name) && type.getRank() == 2 &&
                   type.getDimSize(0) >= ranks &&
                   llvm::all_of(reads[name], [&](ReadOp read) {
                     return llvm::all_of(read->getUses(), isVocabulary);
                   });
    if (divides)
      divideTable(type.getDimSize(0), reads[name]);
  }
}

/// Divides the rows of a table over the ranks.
void LayerPartitioner::divideTable(int64_t rows, ArrayRef<ReadOp> reads) {
  for (ReadOp read : reads) {
    RankedTensorType type = tensorTypeOf(read.getY());
    SmallVector<int64_t> shape = {int64_t(llvm::divideCeil(rows, ranks)),
                                  type.getDimSize(1)};
    if (read == reads.front())
      divideState(read, shape, /*blocks=*/1);
    read.getResult().setType(type.clone(shape));
    for (Operation *user :
         llvm::make_early_inc_range(read.getResult().getUsers())) {
      if (auto embedding = dyn_cast<EmbeddingOp>(user)) {
        embedding.getRankMutable().assign(getOrAddTensorRank(program));
        sum(embedding);
        continue;
      }
      auto loss = cast<LinearCrossEntropyOp>(user);
      loss.getRankMutable().assign(getOrAddTensorRank(program));
      loss.setClasses(rows);
      share(loss->getOpOperand(0));
    }
  }
}

LogicalResult LayerPartitioner::run() {
  ColumnGroups groups(program, symbols, ranks);
  if (AttentionOp attention = groups.tooFewHeads())
    return attention.emitOpError("has ")
           << attention.getKvHeads()
           << " key heads, which cannot be divided over " << ranks
           << " ranks; use at most " << attention.getKvHeads()
           << " ranks for tensor parallelism (mesh tp=N)";
  divideColumns(groups);
  divideVocabulary();
  if (!isChanged)
    return program.emitOpError(
        "has neither an embedding nor two matmuls in sequence whose matrices "
        "could be divided over the ranks of tensor parallelism; remove tp from "
        "the mesh");
  return success();
}

namespace {

struct PartitionLayersPass
    : kiln::impl::PartitionLayersBase<PartitionLayersPass> {
  using PartitionLayersBase::PartitionLayersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto parsed = support::parseMesh(mesh);
    if (!parsed.ok()) {
      emitError(module.getLoc(), "mesh " + parsed.status().message());
      return signalPassFailure();
    }
    int64_t ranks = parsed->sizeOf(support::tensorAxis);
    if (ranks == 1)
      return;
    FailureOr<ProgramOp> forward = findForward(module);
    if (failed(forward))
      return signalPassFailure();
    setMesh(module, *parsed);
    SymbolTable symbols(module);
    if (failed(LayerPartitioner(*forward, symbols, ranks).run()))
      return signalPassFailure();
  }
};

} // namespace
