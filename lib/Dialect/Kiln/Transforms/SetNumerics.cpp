//===- SetNumerics.cpp - Fix what can change rounding -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All choices here are functions of shapes and the number of threads, so that
// the same program gets the same bits whatever is planned later.
//
//===----------------------------------------------------------------------===//

#include "VendorEpilogues.h"

#include "kiln/Abi/GemmGrid.h"
#include "kiln/Dialect/Kiln/IR/KilnLibrary.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_SETNUMERICS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// Keys per attention tile: a tile of scores, its probabilities and the packed
/// keys and values stay in the first-level cache.
static constexpr int64_t kAttentionKeyTile = 64;
/// Rows that one thread sums up before partial rows are added.
static constexpr int64_t kReductionChunk = 64;

static int64_t chooseReductionChunk(int64_t rows, int64_t threads) {
  // Enough chunks for every thread, but none shorter than 8 rows.
  int64_t chunk =
      std::min(kReductionChunk, (rows + 2 * threads - 1) / (2 * threads));
  return std::max<int64_t>(chunk, std::min<int64_t>(rows, 8));
}

/// A sum over all dimensions but the last becomes partial rows and their sum.
static void splitColumnSum(ReduceOp op, int64_t threads) {
  auto from = op.getX().getType();
  int64_t leading = op.getDims().size();
  if (op.getKind() != Reduction::Sum || leading != from.getRank() - 1 ||
      op.getDims().empty() || op.getDims().back() != leading - 1)
    return;
  OpBuilder builder(op);
  int64_t rows = getRowCount(from), cols = getColumnCount(from);
  int64_t chunk = chooseReductionChunk(rows, threads);
  auto partial = ReducePartialOp::create(
      builder, op.getLoc(),
      fullPrecision(from.clone({(rows + chunk - 1) / chunk, cols})), op.getX(),
      chunk);
  Value sum = ReduceCombineOp::create(builder, op.getLoc(), op.getType(),
                                      partial, Value());
  op.replaceAllUsesWith(sum);
  op.erase();
}

/// A mean is a sum and a factor.
static ReduceOp splitMean(ReduceOp op) {
  if (op.getKind() != Reduction::Mean)
    return op;
  OpBuilder builder(op);
  auto sum = ReduceOp::create(builder, op.getLoc(), op.getType(),
                              Reduction::Sum, op.getX(), op.getDims());
  int64_t count =
      op.getX().getType().getNumElements() / op.getType().getNumElements();
  Value mean = ScaleOp::create(builder, op.getLoc(), sum,
                               builder.getF64FloatAttr(1.0 / count));
  op.replaceAllUsesWith(mean);
  op.erase();
  return sum;
}

/// The optional accumulation operand of an op that can add while it stores, or
/// nothing.
static std::optional<MutableOperandRange> accumulateOperandOf(Operation *op) {
  if (auto matmul = dyn_cast_or_null<MatmulOp>(op))
    return matmul.getAccumulateMutable();
  if (auto scatter = dyn_cast_or_null<EmbeddingGradOp>(op))
    return scatter.getAccumulateMutable();
  if (auto combine = dyn_cast_or_null<ReduceCombineOp>(op))
    return combine.getAccumulateMutable();
  return std::nullopt;
}

/// x + producer(...) becomes producer(..., accumulate x) where the producer can
/// add while it stores and has no other use. A producer that accumulates
/// already passes x on to what it accumulates: x + (q + p) is computed as (x +
/// q) + p.
static bool accumulateInProducer(AddOp op) {
  for (auto [term, other] : {std::pair<Value, Value>(op.getB(), op.getA()),
                             {op.getA(), op.getB()}}) {
    Operation *producer = term.getDefiningOp();
    auto accumulate = accumulateOperandOf(producer);
    if (!accumulate || producer->getBlock() != op->getBlock() ||
        !term.hasOneUse())
      continue;
    // The sum takes the slot of `other`, which must not be wanted any more; a
    // broadcast has no slot: adding it is free in the next row dispatch.
    if (!other.hasOneUse() ||
        isa_and_nonnull<BroadcastOp>(other.getDefiningOp()))
      continue;
    if (accumulate->empty()) {
      producer->moveBefore(op);
      accumulate->assign(other);
    } else {
      Operation *root = producer;
      while (root && !accumulate->empty()) {
        Value next = (*accumulate)[0].get();
        root = next.hasOneUse() && next.getDefiningOp() &&
                       next.getDefiningOp()->getBlock() == op->getBlock()
                   ? next.getDefiningOp()
                   : nullptr;
        accumulate = accumulateOperandOf(root);
        if (!accumulate)
          root = nullptr;
      }
      Operation *def = other.getDefiningOp();
      if (!root || (def && def->getBlock() == root->getBlock() &&
                    !def->isBeforeInBlock(root)))
        continue;
      accumulate->assign(other);
    }
    op.replaceAllUsesWith(term);
    op.erase();
    return true;
  }
  return false;
}

namespace {

struct SetNumericsPass : kiln::impl::SetNumericsBase<SetNumericsPass> {
  using SetNumericsBase::SetNumericsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder builder(module.getContext());
    SmallVector<ReduceOp> reductions;
    module.walk([&](ReduceOp op) { reductions.push_back(op); });
    for (ReduceOp op : reductions)
      splitColumnSum(splitMean(op), maxThreads);

    SmallVector<AddOp> sums;
    module.walk([&](AddOp op) { sums.push_back(op); });
    for (AddOp op : sums)
      accumulateInProducer(op);

    if (module->hasAttr(kLibraryEpiloguesAttr))
      fuseLibraryEpilogues(module);

    auto setGrid = [&](auto matmul) {
      auto [gm, gn] =
          chooseGemmGrid(matmul.getM(), matmul.getN(), matmul.getK(),
                         matmul.getTransA(), maxThreads);
      matmul.setGridAttr(builder.getDenseI64ArrayAttr({gm, gn}));
    };
    module.walk([&](Operation *op) {
      if (auto matmul = dyn_cast<MatmulOp>(op)) {
        setGrid(matmul);
      } else if (auto matmul = dyn_cast<VendorGemmOpInterface>(op)) {
        setGrid(matmul);
      } else if (isa<AttentionOp, AttentionGradOp>(op)) {
        op->setAttr("kv_tile", builder.getI64IntegerAttr(kAttentionKeyTile));
      }
    });
  }
};

} // namespace
