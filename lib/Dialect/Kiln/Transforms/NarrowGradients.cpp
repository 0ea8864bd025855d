//===- NarrowGradients.cpp - Storage type of gradients --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_NARROWGRADIENTS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Returns `gradient` rounded to `element`. If `gradient` is the result of a
/// cast from `element`, returns the operand of the cast.
static Value rounded(Value gradient, Type element) {
  RankedTensorType type = tensorTypeOf(gradient).clone(element);
  if (auto cast = gradient.getDefiningOp<CastOp>();
      cast && cast.getX().getType() == type)
    return cast.getX();
  OpBuilder builder(gradient.getContext());
  builder.setInsertionPointAfterValue(gradient);
  auto cast = CastOp::create(builder, gradient.getLoc(), type, gradient);
  setLayer(cast, getDefiningLayer(gradient));
  return cast;
}

namespace {

struct NarrowGradientsPass
    : kiln::impl::NarrowGradientsBase<NarrowGradientsPass> {
  using NarrowGradientsBase::NarrowGradientsBase;

  void runOnOperation() override {
    std::optional<ElementType> narrow = support::elementTypeNamed(type);
    if (!narrow || !isNarrowFloat(irTypeOf(*narrow, &getContext()))) {
      getOperation().emitError("type is '")
          << type << "', expected a narrow float such as bf16";
      return signalPassFailure();
    }
    Type element = irTypeOf(*narrow, &getContext());
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        if (failed(narrowGradients(program, element)))
          return signalPassFailure();
  }

private:
  LogicalResult narrowGradients(ProgramOp program, Type element) {
    ReturnOp ret = program.getReturn();
    for (OpOperand &operand : ret->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      auto state = program.getResultAttrOfType<FlatSymbolRefAttr>(
          index, "kiln.gradient");
      if (!state || tensorTypeOf(operand.get()).getElementType() == element)
        continue;
      if (!tensorTypeOf(operand.get()).getElementType().isF32())
        return program.emitOpError("result ")
               << index << ", the gradient of " << state << ", has type "
               << operand.get().getType()
               << ", expected f32 elements, because only f32 is narrowed to "
               << element;
      operand.set(rounded(operand.get(), element));
    }
    program.setFunctionType(FunctionType::get(program.getContext(),
                                              program.getArgumentTypes(),
                                              ret->getOperandTypes()));
    return success();
  }
};

} // namespace
