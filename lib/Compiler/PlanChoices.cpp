//===- PlanChoices.cpp - Choices of a plan per stage ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanChoices.h"

#include "StageMenus.h"
#include "StepCost.h"

using namespace mlir;
using namespace kiln::support;
using namespace kiln;

/// Adds the importer's name for a value, or the name of the defining op if the
/// importer gave none.
static void addName(std::vector<std::string> &names, Value value) {
  StringRef name = getLocationName(value.getLoc());
  if (name.empty() && value.getDefiningOp())
    name = value.getDefiningOp()->getName().stripDialect();
  if (!llvm::is_contained(names, name))
    names.push_back(name.str());
}

void PlanChoices::addStage(const ForwardStage &stage, const StageRun &first) {
  StageChoice &choice = choices.emplace_back(
      static_cast<int64_t>(choices.size()),
      stage.layer ? stage.layer.getName() : StringRef(),
      stage.ops.empty() ? stage.output.getLoc() : stage.ops.front()->getLoc());
  choice.keepsInput = !first.dropsInput();
  if (stage.input)
    (choice.keepsInput ? choice.keptBytes : choice.repeatedBytes) +=
        bytesOf(stage.input.getType());
  llvm::SmallDenseSet<Value> counted{stage.input, stage.output};
  for (auto [i, residual] : llvm::enumerate(stage.residuals)) {
    bool keeps = first.saves() && (i >= 64 || first.saved >> i & 1);
    addName(keeps ? choice.keeps : choice.repeats, residual);
    if (Value tensor = tensorBehind(residual); counted.insert(tensor).second)
      (keeps ? choice.keptBytes : choice.repeatedBytes) +=
          bytesOf(tensor.getType());
  }
}

PlanChoices::PlanChoices(ProgramOp train, const StageChain &stages,
                         const RecomputeSchedule &schedule,
                         ArrayRef<OffloadChoice> offload,
                         const Machine &machine) {
  if (auto loop = dyn_cast<MicrobatchesOp>(phaseBlock(train).getParentOp()))
    microbatches = loop.getCount();
  for (int64_t k = 0; k < stages.size(); ++k)
    addStage(stages.stages()[k], schedule[k]);
  for (StageChoice &choice : choices) {
    choice.forwardRuns = llvm::count_if(schedule, [&](const StageRun &run) {
      return run.stage == choice.stage && run.kind != ChainOpKind::Backward;
    });
    for (Operation *op : stages.stages()[choice.stage].ops)
      choice.wholeSeconds += double(microbatches) * opSeconds(op, machine);
  }
  dropNumbers(train);
  numberForwardOps(train);
  SmallVector<Operation *> forward;
  for (Operation &op : phaseBlock(train)) {
    if (isa<ReadOp>(op))
      continue;
    if (!numberOf(&op))
      break;
    forward.push_back(&op);
    stageOf.push_back(stages.stageOf(&op));
  }
  // An offloaded value belongs to the stage that computes it.
  for (const OffloadChoice &value : offload) {
    int64_t stage = stageOf[value.op];
    if (stage < 0)
      continue;
    Value result = forward[value.op]->getResult(value.result);
    addName(choices[stage].offloads, result);
    choices[stage].offloadedBytes += bytesOf(result.getType());
  }
}

void PlanChoices::priceRepeats(ProgramOp train, const Machine &machine) {
  train.walk([&](RecomputeOp repeated) {
    repeated.walk([&](Operation *op) {
      auto number = numberOf(op);
      if (!number || stageOf[*number] < 0)
        return;
      choices[stageOf[*number]].repeatedSeconds +=
          double(microbatches) * opSeconds(op, machine);
    });
  });
  dropNumbers(train);
}

ArrayAttr PlanChoices::attribute(MLIRContext *context) const {
  Builder b(context);
  SmallVector<Attribute> stages;
  auto names = [&](const std::vector<std::string> &list) {
    SmallVector<Attribute> texts;
    for (const std::string &name : list)
      texts.push_back(b.getStringAttr(name));
    return b.getArrayAttr(texts);
  };
  for (const StageChoice &choice : choices) {
    stages.push_back(StageChoiceAttr::get(
        context, choice.stage, b.getStringAttr(choice.layer),
        choice.forwardRuns, choice.keepsInput, names(choice.keeps),
        names(choice.offloads), names(choice.repeats), choice.keptBytes,
        choice.offloadedBytes, choice.repeatedBytes,
        b.getF64FloatAttr(1e3 * choice.repeatedSeconds)));
  }
  return b.getArrayAttr(stages);
}
