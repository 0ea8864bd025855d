//===- TrainingFacts.cpp - Training facts of a module -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives the training options from the update, dropout and attention ops of
// the module. These ops exist at every level of the pipeline (at the level
// 'scheduled', in the bodies of kernels), so the result does not depend on the
// level.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/TrainingFacts.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <set>

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

namespace {

/// Weight decays of an update rule: `matrices` for parameters of rank 2 or
/// more, `vectors` for all others.
struct Decays {
  std::set<double> matrices, vectors;
};

/// The weight decays of all update rules. The key has the optimizer and all
/// options except the weight decay.
using Rules = std::map<UpdateRule, Decays>;

} // namespace

/// Adds the weight decay of an update op to the entry of its rule.
static void addUpdate(UpdateOpInterface op, Rules &rules) {
  UpdateDescription description = op.describeUpdate();
  UpdateRule rule;
  rule.optimizer = description.optimizer.str();
  for (auto [name, value] : description.options)
    rule.options[name.str()] = value;
  double decay = description.weightDecay;
  Decays &decays = rules[rule];
  bool isMatrix = tensorTypeOf(op.getParameter()).getRank() >= 2;
  (isMatrix ? decays.matrices : decays.vectors).insert(decay);
}

/// Appends `rule` to `list` once for each weight decay, together with the
/// parameters to which the decay applies: "matrices", "vectors" or "all", as in
/// the options of the user.
static void addRules(const UpdateRule &rule, const Decays &decays,
                     std::vector<UpdateRule> &list) {
  auto add = [&](double decay, const char *parameters) {
    UpdateRule whole = rule;
    whole.options["weight_decay"] = decay;
    whole.decay = parameters;
    list.push_back(std::move(whole));
  };
  auto isWithin = [](const std::set<double> &values, double value) {
    return values.empty() || values == std::set<double>{value};
  };
  double matrices = decays.matrices.empty() ? 0 : *decays.matrices.begin();
  double vectors = decays.vectors.empty() ? 0 : *decays.vectors.begin();
  if (isWithin(decays.matrices, matrices) && isWithin(decays.vectors, 0))
    return add(matrices, "matrices");
  if (isWithin(decays.matrices, vectors) && isWithin(decays.vectors, vectors))
    return add(vectors, "all");
  for (double decay : decays.matrices)
    add(decay, "matrices");
  for (double decay : decays.vectors)
    add(decay, "vectors");
}

TrainingInfo kiln::deriveTrainingInfo(ModuleOp module) {
  Rules rules;
  std::set<double> dropout, attention;
  auto insert = [](std::set<double> &values, const APFloat &p) {
    if (!p.isZero())
      values.insert(p.convertToDouble());
  };
  module.walk([&](Operation *op) {
    if (auto update = dyn_cast<UpdateOpInterface>(op))
      addUpdate(update, rules);
    else if (auto random = dyn_cast<DropoutOp>(op))
      insert(dropout, random.getP());
    else if (auto random = dyn_cast<AttentionOp>(op))
      insert(attention, random.getP());
  });
  TrainingInfo info;
  for (auto &[rule, decays] : rules)
    addRules(rule, decays, info.updates);
  std::sort(info.updates.begin(), info.updates.end());
  info.dropout.assign(dropout.begin(), dropout.end());
  info.attentionDropout.assign(attention.begin(), attention.end());
  if (auto list = module->getAttrOfType<ArrayAttr>(kEncodedAttr))
    for (auto encoded : list.getAsRange<EncodedAttr>())
      if (encoded.getLossy())
        ++info.lossy[encoded.getAs().str()];
  return info;
}
