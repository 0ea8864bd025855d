//===- SetNumerics.cpp - Choices that affect rounding -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All choices of this pass depend only on shapes and the number of threads, and
// are stored in the ops. Later passes and the planner therefore do not change
// the bits of results.
//
//===----------------------------------------------------------------------===//

#include "Epilogues.h"

#include "kiln/Abi/GemmGrid.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {
#define GEN_PASS_DEF_SETNUMERICS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// Keys per attention tile. With this size, a tile of scores, its probabilities
/// and the packed keys and values fit the L1 cache.
static constexpr int64_t kAttentionKeyTile = 64;
/// Maximum number of rows of a chunk. One thread adds the rows of a chunk to
/// one partial sum.
static constexpr int64_t kReductionChunk = 64;

static int64_t chooseReductionChunk(int64_t rows, int64_t threads) {
  // Make at least two chunks per thread, but none shorter than 8 rows.
  int64_t chunk =
      std::min(kReductionChunk, (rows + 2 * threads - 1) / (2 * threads));
  return std::max<int64_t>(chunk, std::min<int64_t>(rows, 8));
}

/// Splits a sum over all dimensions except the last into two ops: the first
/// sums chunks of rows, the second adds these partial sums.
static void splitColumnSum(ReduceOp op, int64_t threads) {
  auto from = op.getX().getType();
  int64_t leading = op.getDims().size();
  if (op.getKind() != Reduction::Sum || leading != from.getRank() - 1 ||
      op.getDims().empty() || op.getDims().back() != leading - 1)
    return;
  LayerListener layer(getLayer(op));
  OpBuilder builder(op, &layer);
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

/// Splits a mean into a sum and a scale. Returns the sum, or `op` if it is not
/// a mean. The sum of f16 elements is f32 and is rounded after it is scaled,
/// because it may exceed the range of f16 although the mean does not.
static ReduceOp splitMean(ReduceOp op) {
  if (op.getKind() != Reduction::Mean)
    return op;
  LayerListener layer(getLayer(op));
  OpBuilder builder(op, &layer);
  RankedTensorType type = op.getType();
  RankedTensorType wide =
      type.getElementType().isF16() ? fullPrecision(type) : type;
  auto sum = ReduceOp::create(builder, op.getLoc(), wide, Reduction::Sum,
                              op.getX(), op.getDims());
  int64_t count = op.getX().getType().getNumElements() / type.getNumElements();
  Value mean = ScaleOp::create(builder, op.getLoc(), sum,
                               builder.getF64FloatAttr(1.0 / count));
  op.replaceAllUsesWith(builder.createOrFold<CastOp>(op.getLoc(), type, mean));
  op.erase();
  return sum;
}

/// Returns the optional operand onto which an op accumulates its result, or
/// std::nullopt if the op cannot accumulate.
static std::optional<MutableOperandRange> accumulateOperandOf(Operation *op) {
  if (auto matmul = dyn_cast_or_null<MatmulOp>(op))
    return matmul.getAccumulateMutable();
  if (auto scatter = dyn_cast_or_null<EmbeddingGradOp>(op))
    return scatter.getAccumulateMutable();
  if (auto combine = dyn_cast_or_null<ReduceCombineOp>(op))
    return combine.getAccumulateMutable();
  return std::nullopt;
}

/// Replaces x + producer(...) by producer(..., accumulate x) if the producer
/// can accumulate and has no other use. If the producer already accumulates its
/// own result p onto a value q, makes the producer of q accumulate onto x: x +
/// (q + p) becomes (x + q) + p.
static bool accumulateInProducer(AddOp op) {
  for (auto [term, other] : {std::pair<Value, Value>(op.getB(), op.getA()),
                             {op.getA(), op.getB()}}) {
    Operation *producer = term.getDefiningOp();
    auto accumulate = accumulateOperandOf(producer);
    if (!accumulate || producer->getBlock() != op->getBlock() ||
        !term.hasOneUse())
      continue;
    // The sum overwrites the memory of `other`, so the add must be the only
    // reader of `other`. The result of a broadcast has no memory to overwrite.
    // Keep the add in this case, because a row kernel that reads the sum can
    // compute the add at no cost.
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

  using GemmKernels = llvm::StringMap<GemmKernel>;

  FailureOr<GemmKernels> readKernels() {
    GemmKernels kernels;
    for (StringRef entry : gemmKernels) {
      auto [type, name] = entry.split(':');
      auto kernel = gemmKernelOf(name);
      if (!support::elementTypeNamed(type) || !kernel) {
        emitError(getOperation().getLoc(), "option 'gemm-kernels' lists '")
            << entry << "', expected TYPE:KERNEL, where KERNEL is "
            << gemmKernelChoices;
        return failure();
      }
      kernels[type] = *kernel;
    }
    return kernels;
  }

  static void setKernel(Operation *op, const GemmKernels &kernels) {
    auto matmul = dyn_cast<MatmulOp>(op);
    if (!matmul)
      return;
    Type element = tensorTypeOf(matmul.getA()).getElementType();
    auto kernel = kernels.find(support::infoOf(elementTypeOf(element)).name);
    if (kernel != kernels.end() && kernel->second != GemmKernel::Blas)
      matmul.setKernel(StringRef(nameOf(kernel->second)));
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder builder(module.getContext());
    FailureOr<GemmKernels> kernels = readKernels();
    if (failed(kernels))
      return signalPassFailure();
    SmallVector<ReduceOp> reductions;
    module.walk([&](ReduceOp op) { reductions.push_back(op); });
    for (ReduceOp op : reductions)
      splitColumnSum(splitMean(op), maxThreads);

    SmallVector<AddOp> sums;
    module.walk([&](AddOp op) { sums.push_back(op); });
    for (AddOp op : sums)
      accumulateInProducer(op);

    if (failed(formEpilogues(module, EpilogueKind::Vendor,
                             getAnalysis<RowPrograms>())))
      return signalPassFailure();

    module.walk([&](Operation *op) {
      if (auto gemm = dyn_cast<GemmOpInterface>(op)) {
        auto [gm, gn] = chooseGemmGrid(gemm.getM(), gemm.getN(), gemm.getK(),
                                       gemm.getTransA(), maxThreads);
        gemm.setGridAttr(builder.getDenseI64ArrayAttr({gm, gn}));
        setKernel(op, *kernels);
      } else if (isa<AttentionOp, AttentionGradOp>(op)) {
        op->setAttr("kv_tile", builder.getI64IntegerAttr(kAttentionKeyTile));
      }
    });
  }
};

} // namespace
