//===- Int8Sums.cpp - Sums of gradients as 8-bit codes --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks first sum the scales of their blocks, and then use these sums as common
// scales. With these scales, the codes of all ranks add up to at most 127, so
// that they are summed as integers, without decoding. IntSGD (K. Mishchenko et
// al., "IntSGD: Adaptive Floatless Compression of Stochastic Gradients", ICLR
// 2022, arXiv:2102.08374) also sums integers, but has one scale for all
// elements. Rounding is stochastic, so that the sums are unbiased.
//
//===----------------------------------------------------------------------===//

#include "GradientSchemes.h"
#include "RandomInputs.h"
#include "kiln/Support/GradientCompression.h"

using namespace mlir;
using namespace kiln;

/// Elements that share a scale.
static constexpr int64_t kBlock = 256;
/// Gradients with fewer elements are not compressed, because computing their
/// codes and scales takes several launches.
static constexpr int64_t kLeastElements = 4096;
static constexpr int64_t kLargestCode = 127;

namespace {

class Int8Sums final : public GradientScheme {
public:
  Int8Sums(const support::GradientCompression &compression, ModuleOp module,
           ProgramOp train)
      : GradientScheme(compression, module, train), key(firstFreeKey(module)) {}

  std::string needs() const override {
    return "gradients of at least " + std::to_string(kLeastElements) +
           " elements, a multiple of " + std::to_string(kBlock);
  }
  std::optional<int64_t> bytesOf(RankedTensorType gradient) const override;
  LogicalResult check() override;
  void begin(ArrayRef<CompressedGradient> gradients,
             Operation *position) override;
  SmallVector<Value> finish(Operation *position) override;

private:
  Value random();

  struct Coded {
    Value part; ///< The gradient of this rank in full precision.
    Value scales, codes;
  };
  SmallVector<Coded> bucket;
  Value rng;
  int64_t key; ///< The key of the next random op.
};

} // namespace

static RankedTensorType scalesOf(RankedTensorType gradient) {
  return RankedTensorType::get({gradient.getNumElements() / kBlock},
                               fullPrecision(gradient).getElementType());
}

std::optional<int64_t> Int8Sums::bytesOf(RankedTensorType gradient) const {
  int64_t elements = gradient.getNumElements();
  if (elements < kLeastElements || elements % kBlock != 0)
    return std::nullopt;
  return elements + kiln::bytesOf(scalesOf(gradient));
}

LogicalResult Int8Sums::check() {
  if (ranks <= support::maxInt8Ranks)
    return success();
  return train.emitOpError("sums the gradients of ")
         << ranks << " ranks, but 8-bit codes can be summed over at most "
         << support::maxInt8Ranks << " ranks; use powersgd";
}

/// Returns the random state of this rank: a tensor of the seed, the step and
/// the index of the first sequence.
Value Int8Sums::random() {
  if (rng)
    return rng;
  int64_t microbatches = 1;
  for (auto op : train.getBlock().getOps<MicrobatchesOp>())
    microbatches = op.getCount();
  rng = getOrAddRng(train, microbatches);
  if (microbatches == 1)
    return rng;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&train.getBlock());
  return rng = SliceOp::create(builder, train.getLoc(),
                               tensorTypeOf(rng).clone({1, 3}), rng,
                               ArrayRef<int64_t>{0, 0});
}

void Int8Sums::begin(ArrayRef<CompressedGradient> gradients,
                     Operation *position) {
  builder.setInsertionPoint(position);
  bucket.clear();
  SmallVector<Value> scales, codes;
  for (const CompressedGradient &gradient : gradients) {
    LayerOps o(builder, gradient.part);
    RankedTensorType type = tensorTypeOf(gradient.part);
    Value part = o.cast(gradient.part, fullPrecision(type).getElementType());
    Value own = o.create<BlockScalesOp>(scalesOf(type), part,
                                        builder.getI64IntegerAttr(8));
    // `own` is m / 127, where m is the largest magnitude in the block on this
    // rank. Use m / (127 - ranks) instead. If the elements of all ranks are
    // divided by the sum of these scales, the quotients add up to at most
    // 127 - ranks. Noise and rounding change a quotient by at most 1 on each
    // rank, so the codes add up to at most 127.
    scales.push_back(
        o.scale(own, double(kLargestCode) / double(kLargestCode - ranks)));
    bucket.push_back({part, {}, {}});
  }
  for (auto [coded, summed] : llvm::zip_equal(bucket, sum(scales))) {
    LayerOps o(builder, coded.part);
    coded.scales = summed;
    Value noisy =
        o.create<DitherOp>(coded.part.getType(), coded.part, summed, random(),
                           builder.getI64IntegerAttr(key++));
    auto type = RankedTensorType::get(
        {tensorTypeOf(coded.part).getNumElements()}, builder.getI8Type());
    codes.push_back(o.create<BlockEncodeOp>(type, ValueRange{noisy, summed}));
  }
  for (auto [coded, summed] : llvm::zip_equal(bucket, sum(codes)))
    coded.codes = summed;
}

SmallVector<Value> Int8Sums::finish(Operation *position) {
  builder.setInsertionPoint(position);
  SmallVector<Value> sums;
  for (const Coded &coded : bucket) {
    LayerOps o(builder, coded.part);
    sums.push_back(o.create<BlockDecodeOp>(coded.part.getType(), coded.codes,
                                           coded.scales));
  }
  return sums;
}

std::unique_ptr<GradientScheme>
kiln::createInt8Sums(const support::GradientCompression &compression,
                     ModuleOp module, ProgramOp train) {
  return std::make_unique<Int8Sums>(compression, module, train);
}
