//===- OptimizerRules.cpp - The registry of optimizers --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using Options = SmallVector<OptimizerOption, 4>;

static constexpr double kAny = HUGE_VAL;

static UnitAttr unitIf(OpBuilder &builder, bool condition) {
  return condition ? builder.getUnitAttr() : UnitAttr();
}

static UpdateOpInterface buildAdam(OpBuilder &builder, Location loc,
                                   const OptimizerSpec &spec,
                                   const UpdateValues &v) {
  auto real = [&](double value) { return builder.getF64FloatAttr(value); };
  Type p = v.parameter.getType(), m = v.states[0].getType(),
       s = v.states[1].getType();
  return AdamOp::create(
      builder, loc, TypeRange{p, m, s}, v.parameter, v.states[0], v.states[1],
      v.gradient, v.factor, v.rate, v.step, v.apply,
      real(spec.get("beta1")), real(spec.get("beta2")), real(spec.get("eps")),
      real(v.weightDecay), unitIf(builder, spec.rule->name == "adamw"));
}

static UpdateOpInterface buildMomentum(OpBuilder &builder, Location loc,
                                       const OptimizerSpec &spec,
                                       const UpdateValues &v) {
  return MomentumOp::create(
      builder, loc, TypeRange{v.parameter.getType(), v.states[0].getType()},
      v.parameter, v.states[0], v.gradient, v.factor, v.rate,
      v.apply, builder.getF64FloatAttr(spec.get("momentum")),
      builder.getF64FloatAttr(v.weightDecay),
      unitIf(builder, spec.rule->name == "nesterov"));
}

static UpdateOpInterface buildSgd(OpBuilder &builder, Location loc,
                                  const OptimizerSpec &,
                                  const UpdateValues &v) {
  return SgdOp::create(builder, loc, v.parameter.getType(), v.parameter,
                       v.gradient, v.factor, v.rate, v.apply,
                       builder.getF64FloatAttr(v.weightDecay));
}

static UpdateOpInterface buildLion(OpBuilder &builder, Location loc,
                                   const OptimizerSpec &spec,
                                   const UpdateValues &v) {
  return LionOp::create(
      builder, loc, TypeRange{v.parameter.getType(), v.states[0].getType()},
      v.parameter, v.states[0], v.gradient, v.factor, v.rate,
      v.apply, builder.getF64FloatAttr(spec.get("beta1")),
      builder.getF64FloatAttr(spec.get("beta2")),
      builder.getF64FloatAttr(v.weightDecay));
}

ArrayRef<OptimizerRule> kiln::optimizerRules() {
  auto adamOptions = [](double decay) {
    return Options{{"weight_decay", decay, 0, kAny},
                   {"beta1", 0.9, 0, 1},
                   {"beta2", 0.999, 0, 1},
                   {"eps", 1e-8, 0, kAny}};
  };
  const Options momentum = {{"weight_decay", 0, 0, kAny},
                            {"momentum", 0.9, 0, 1}};
  static const OptimizerRule rules[] = {
      {"adamw", adamOptions(0.01), {"m", "v"}, true, buildAdam, {1}},
      {"adam", adamOptions(0), {"m", "v"}, true, buildAdam, {1}},
      {"sgd", {{"weight_decay", 0, 0, kAny}}, {}, false, buildSgd},
      {"momentum", momentum, {"momentum"}, false, buildMomentum},
      {"nesterov", momentum, {"momentum"}, false, buildMomentum},
      {"lion",
       {{"weight_decay", 0, 0, kAny},
        {"beta1", 0.9, 0, 1},
        {"beta2", 0.99, 0, 1}},
       {"m"},
       false,
       buildLion},
  };
  return rules;
}
