//===- QuantizeResiduals.cpp - Residuals as codes of 8 or 4 bits ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The forward pass encodes a residual directly after its definition. The
// backward pass decodes it before its first reader, and again before each later
// reader that is more than kNearby ops after the last decoding, so that no
// decoded value is kept for long. Views of the residual become views of the
// decoded value.
//
//===----------------------------------------------------------------------===//

#include "BlockCodes.h"
#include "Residuals.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Fusion.h"
#include "kiln/Dialect/Kiln/Transforms/Lossy.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_QUANTIZERESIDUALS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class Quantizer {
public:
  Quantizer(ProgramOp program, int64_t bits) : program(program), bits(bits) {}
  /// Encodes residuals. Appends descriptions of the encodings to `done`.
  void run(SmallVectorImpl<Attribute> &done);

private:
  void apply(Value residual, ArrayRef<ResidualRead> reads,
             const BlockCodes &codes);
  Value encode(OpBuilder &builder, Value x, Value scales,
               const BlockCodes &codes);
  Value viewOf(OpBuilder &builder, Value through, IRMapping &decoded);

  ProgramOp program;
  int64_t bits;
  llvm::DenseMap<Operation *, int64_t> order; ///< Position of each op.
};

} // namespace

/// Returns the first half of the elements of `x` if `half` is 0, and the second
/// half if it is 1.
static Value halfOf(OpBuilder &builder, Value x, int64_t half) {
  auto type = tensorTypeOf(x);
  int64_t count = type.getNumElements() / 2;
  if (type.getRank() != 1)
    x = ReshapeOp::create(builder, x.getLoc(), type.clone(2 * count), x);
  return SliceOp::create(builder, x.getLoc(), type.clone(count), x,
                         ArrayRef<int64_t>{half * count});
}

Value Quantizer::encode(OpBuilder &builder, Value x, Value scales,
                        const BlockCodes &codes) {
  SmallVector<Value, 4> inputs = {x, scales};
  if (codes.bits == 4)
    inputs = {halfOf(builder, x, 0), halfOf(builder, x, 1),
              halfOf(builder, scales, 0), halfOf(builder, scales, 1)};
  auto type =
      RankedTensorType::get({codes.codeBytes}, builder.getIntegerType(8));
  return BlockEncodeOp::create(builder, x.getLoc(), type, inputs);
}

/// Returns the view of the decoded residual that corresponds to the view
/// `through` of the residual. `decoded` maps the residual and its views.
Value Quantizer::viewOf(OpBuilder &builder, Value through, IRMapping &decoded) {
  if (Value known = decoded.lookupOrNull(through))
    return known;
  Operation *view = through.getDefiningOp();
  viewOf(builder, view->getOperand(0), decoded);
  builder.clone(*view, decoded);
  return decoded.lookup(through);
}

void Quantizer::apply(Value residual, ArrayRef<ResidualRead> reads,
                      const BlockCodes &codes) {
  LayerListener layer(getDefiningLayer(residual));
  OpBuilder builder(residual.getContext(), &layer);
  builder.setInsertionPointAfterValue(residual);
  Location loc = residual.getLoc();
  Value scales =
      BlockScalesOp::create(builder, loc, codes.scales, residual, codes.bits);
  Value bytes = encode(builder, residual, scales, codes);

  OpBuilder backward(residual.getContext());
  IRMapping decoded;
  int64_t first = INT64_MIN / 2;
  for (const ResidualRead &read : reads) {
    if (order.lookup(read.reader) - first > kNearby) {
      first = order.lookup(read.reader);
      backward.setInsertionPoint(read.reader);
      decoded = IRMapping();
      decoded.map(residual,
                  BlockDecodeOp::create(backward, loc, residual.getType(),
                                        bytes, scales)
                      .getResult());
    }
    read.reader->replaceUsesOfWith(read.through,
                                   viewOf(backward, read.through, decoded));
  }
}

void Quantizer::run(SmallVectorImpl<Attribute> &done) {
  Operation *phase = findBackwardPhase(program);
  if (!phase)
    return;
  for (Operation &op : program.getBlock())
    order[&op] = static_cast<int64_t>(order.size());
  BlockCodeChooser chooser(program, phase, bits);
  // Choose before the first encoding adds readers to the forward pass.
  ResidualMap residuals = findResiduals(program, phase);
  SmallVector<std::optional<BlockCodes>> chosen;
  for (auto &[residual, reads] : residuals)
    chosen.push_back(chooser.find(residual, reads));
  for (auto [entry, codes] : llvm::zip(residuals, chosen)) {
    auto &[residual, reads] = entry;
    if (!codes)
      continue;
    done.push_back(describeEncoding(residual, "q" + std::to_string(bits),
                                    /*lossy=*/true, codes->bytes()));
    apply(residual, reads, *codes);
  }
}

namespace {

struct QuantizeResidualsPass
    : kiln::impl::QuantizeResidualsBase<QuantizeResidualsPass> {
  using QuantizeResidualsBase::QuantizeResidualsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::string error;
    auto spec = LossySpec::parse(lossy, error);
    if (!spec) {
      emitError(module.getLoc(), error);
      return signalPassFailure();
    }
    if (spec->bits == 0)
      return;
    SmallVector<Attribute> done;
    if (auto list = module->getAttrOfType<ArrayAttr>(kEncodedAttr))
      llvm::append_range(done, list);
    for (ProgramOp program : module.getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        Quantizer(program, spec->bits).run(done);
    if (!done.empty())
      module->setAttr(kEncodedAttr, ArrayAttr::get(module.getContext(), done));
  }
};

} // namespace
