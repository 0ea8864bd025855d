//===- TileEpilogues.cpp - Epilogues on the tiles of matmuls --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Merges a row dispatch with a matmul whose result it reads. A dispatch is
// never split: if it contains a norm or a column sum, the whole dispatch
// remains a separate kernel. The merged dispatch is at the position of the
// matmul, so the other operands of the row dispatch must be defined before the
// matmul.
//
//===----------------------------------------------------------------------===//

#include "TileEpilogues.h"

#include "kiln/Dialect/Kiln/Transforms/Fusion.h"

using namespace mlir;
using namespace kiln;

/// Returns true if `value` is defined before `op`, or can be defined before
/// `op` by moving only state reads and views.
static bool canExistBefore(Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != op->getBlock() || def->isBeforeInBlock(op))
    return true;
  if (isa<ReadOp>(def))
    return true;
  return familyOf(def) == Family::View &&
         canExistBefore(def->getOperand(0), op);
}

static void moveBefore(Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != op->getBlock() || def->isBeforeInBlock(op))
    return;
  for (Value operand : def->getOperands())
    moveBefore(operand, op);
  def->moveBefore(op);
}

/// Returns true if a matmul reads a sum over micro-batches. An epilogue could
/// overwrite this sum tile by tile while other tiles of the matmul still read
/// it.
static bool readsSum(MatmulOp matmul) {
  auto loop = dyn_cast<MicrobatchesOp>(matmul->getParentOp());
  if (!loop)
    return false;
  auto isSum = [&](Value value) {
    while (Operation *def = value.getDefiningOp()) {
      if (!isa<ReshapeOp, SliceOp>(def))
        return false;
      value = def->getOperand(0);
    }
    return llvm::is_contained(loop.getSumArguments(), value);
  };
  return isSum(matmul.getA()) || isSum(matmul.getB());
}

/// Returns the fused locations of both ops. The location of the matmul is the
/// last one and gives the merged dispatch its name.
static Location locationOf(DispatchOp dispatch, MatmulOp matmul) {
  SmallVector<Location> parts = {dispatch.getLoc()};
  if (auto fused = dyn_cast<FusedLoc>(dispatch.getLoc()))
    parts.assign(fused.getLocations().begin(), fused.getLocations().end());
  llvm::erase(parts, matmul.getLoc());
  parts.push_back(matmul.getLoc());
  return FusedLoc::get(matmul.getContext(), parts);
}

namespace {

struct Candidate {
  MatmulOp matmul;
  DispatchOp dispatch;
  /// Index of the dispatch operand that is the result of the matmul.
  unsigned operand = 0;

  bool keepsMatmul() const { return !matmul->hasOneUse(); }
  bool qualifies(Operation *phase, RowPrograms &rowPrograms);
  void emit();
};

} // namespace

bool Candidate::qualifies(Operation *phase, RowPrograms &rowPrograms) {
  if (matmul.getAccumulate() || matmul.getType().getRank() != 2 ||
      readsSum(matmul))
    return false;
  if (phase && phase->getBlock() == matmul->getBlock() &&
      phase->isBeforeInBlock(matmul) != phase->isBeforeInBlock(dispatch))
    return false;
  // A dispatch that updates a state is delayed until all other readers of the
  // state have run. A merged matmul would be delayed, too, so such a dispatch
  // is not merged.
  for (OpResult result : dispatch->getResults())
    if (getTiedOperand(result))
      return false;
  if (!llvm::all_of(dispatch.getInputs(), [&](Value input) {
        return input == matmul.getResult() || canExistBefore(input, matmul);
      }))
    return false;
  const row::RowProgram *rows = rowPrograms.get(
      rowOpsOf(dispatch.getBody().front(), matmul.getM(), matmul.getN()));
  return rows &&
         row::isEpilogue(*rows, static_cast<int32_t>(operand), keepsMatmul());
}

void Candidate::emit() {
  SmallVector<Value> inputs = {matmul.getA(), matmul.getB()};
  for (Value input : dispatch.getInputs())
    if (input != matmul.getResult()) {
      moveBefore(input, matmul);
      inputs.push_back(input);
    }
  SmallVector<Type> types(dispatch->getResultTypes());
  bool keeps = keepsMatmul();
  if (keeps)
    types.push_back(matmul.getType());

  OpBuilder builder(matmul);
  Location loc = locationOf(dispatch, matmul);
  auto fused = DispatchOp::create(
      builder, loc, types, stringifyFamily(Family::Gemm), inputs,
      builder.getDenseI64ArrayAttr({matmul.getM(), matmul.getN()}));
  openIsolatedBody(builder, fused, inputs);
  Block &body = fused.getBody().front(), &epilogue = dispatch.getBody().front();

  auto tile = cast<MatmulOp>(builder.clone(*matmul));
  tile.getAMutable().assign(body.getArgument(0));
  tile.getBMutable().assign(body.getArgument(1));
  IRMapping mapping;
  unsigned next = 2;
  for (BlockArgument argument : epilogue.getArguments())
    mapping.map(argument, argument.getArgNumber() == operand
                              ? Value(tile.getResult())
                              : body.getArgument(next++));
  for (Operation &op : epilogue.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> yielded;
  for (Value value : epilogue.getTerminator()->getOperands())
    yielded.push_back(mapping.lookup(value));
  if (keeps)
    yielded.push_back(tile.getResult());
  YieldOp::create(builder, loc, yielded);

  for (auto [old, result] :
       llvm::zip(dispatch->getResults(), fused->getResults()))
    old.replaceAllUsesWith(result);
  dispatch.erase();
  if (keeps)
    matmul.replaceAllUsesWith(fused->getResults().back());
  matmul.erase();
}

void kiln::formTileEpilogues(Block &block, RowPrograms &rowPrograms) {
  auto phases = block.getOps<PhaseOp>();
  Operation *phase =
      phases.empty() ? nullptr : (*phases.begin()).getOperation();
  DenseMap<Operation *, int64_t> order;
  SmallVector<DispatchOp> dispatches;
  for (Operation &op : block) {
    order[&op] = static_cast<int64_t>(order.size());
    if (auto dispatch = dyn_cast<DispatchOp>(op))
      if (dispatch.getFamily() == Family::Row)
        dispatches.push_back(dispatch);
  }
  for (DispatchOp dispatch : dispatches) {
    // If the dispatch reads several matmuls, merge the dispatch with the last
    // matmul, because the results of the earlier matmuls are defined before it.
    Candidate candidate;
    candidate.dispatch = dispatch;
    for (auto [i, input] : llvm::enumerate(dispatch.getInputs())) {
      auto matmul = input.getDefiningOp<MatmulOp>();
      if (!matmul || matmul->getBlock() != &block ||
          (candidate.matmul && matmul->isBeforeInBlock(candidate.matmul)))
        continue;
      candidate.matmul = matmul;
      candidate.operand = static_cast<unsigned>(i);
    }
    if (candidate.matmul &&
        order.lookup(dispatch) - order.lookup(candidate.matmul) <= kNearby &&
        candidate.qualifies(phase, rowPrograms))
      candidate.emit();
  }
}
