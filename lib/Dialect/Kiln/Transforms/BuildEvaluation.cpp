//===- BuildEvaluation.cpp - Evaluation and generation programs -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DivideRows.h"
#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_BUILDEVALUATION
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Removes dropout and the writes of states, because dropout is the identity
/// and states do not change outside of training.
static void removeTrainingEffects(ProgramOp program) {
  program.walk([](Operation *op) {
    if (isa<WriteOp>(op)) {
      op->erase();
    } else if (auto dropout = dyn_cast<DropoutOp>(op)) {
      dropout.replaceAllUsesWith(dropout.getX());
      dropout.erase();
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      attention.setP(APFloat(0.0));
      attention.getRngMutable().clear();
    }
  });
}

/// Erases all ops that have no used result, and all unused inputs.
static void removeDeadCode(ProgramOp program) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(program.getBlock())))
    if (isOpTriviallyDead(&op))
      op.erase();
  for (unsigned i = program.getNumArguments(); i-- > 0;)
    if (program.getArgument(i).use_empty())
      (void)program.eraseArgument(i);
}

/// Returns false if the rows of the logits of a loss are not those of the
/// tokens: there are more or fewer rows than tokens, or one transpose changes
/// the order of the targets of the rows. Several transposes are not examined.
static bool hasRowPerToken(ProgramOp program, Operation *loss) {
  BlockArgument tokens = program.getInput(InputRole::Tokens);
  if (tokens && tensorTypeOf(tokens).getNumElements() !=
                    tensorTypeOf(loss->getOperand(0)).getDimSize(0))
    return false;
  Value targets = loss->getOperand(isa<LinearCrossEntropyOp>(loss) ? 2 : 1);
  // Several transposes may restore the order.
  int64_t transposes = 0;
  while (Operation *op = targets.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp>(op))
      break;
    targets = op->getOperand(0);
    auto transpose = dyn_cast<TransposeOp>(op);
    if (!transpose)
      continue;
    SmallVector<int64_t> dims(transpose.getPermutation());
    llvm::erase_if(dims, [&](int64_t dim) {
      return tensorTypeOf(targets).getDimSize(dim) == 1;
    });
    transposes += !llvm::is_sorted(dims);
  }
  return transposes != 1;
}

/// Makes the program return, instead of the loss, the logits of the row whose
/// index is the new input `position`. A language-model head that is part of the
/// loss computes only this row. Fails if the loss is not a cross entropy with
/// one row per token.
static LogicalResult returnLogits(ProgramOp program) {
  Operation *loss = program.getReturn().getValues().front().getDefiningOp();
  if (!isa_and_nonnull<CrossEntropyOp, LinearCrossEntropyOp>(loss) ||
      !hasRowPerToken(program, loss))
    return failure();
  LayerListener layer(getLayer(loss));
  OpBuilder builder(loss, &layer);
  Location loc = loss->getLoc();
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  unsigned index = program.getNumArguments();
  (void)program.insertArgument(
      index, scalar,
      builder.getDictionaryAttr(
          builder.getNamedAttr("kiln.name", builder.getStringAttr("position"))),
      loc);
  Value rows = loss->getOperand(0);
  auto rowsType = tensorTypeOf(rows);
  Value row =
      SelectRowOp::create(builder, loc,
                          RankedTensorType::get({1, rowsType.getDimSize(1)},
                                                rowsType.getElementType()),
                          rows, program.getArgument(index));
  if (auto linear = dyn_cast<LinearCrossEntropyOp>(loss)) {
    row = MatmulOp::create(builder, loc, row, linear.getWeight(), false, true);
    if (std::optional<uint64_t> classes = linear.getClasses()) {
      auto whole = tensorTypeOf(row).clone({1, int64_t(*classes)});
      row =
          AllGatherOp::create(builder, loc, TypeRange(whole), row, tensorAxis())
              .getOutputs()
              .front();
    }
  }
  // Tokens are sampled from the logits in full precision.
  row =
      builder.createOrFold<CastOp>(loc, fullPrecision(tensorTypeOf(row)), row);
  Value logits = ReshapeOp::create(
      builder, loc, tensorTypeOf(row).clone({tensorTypeOf(row).getDimSize(1)}),
      row);
  program.getReturn().getValuesMutable().assign(logits);
  program.setFunctionType(builder.getFunctionType(
      program.getBlock().getArgumentTypes(), logits.getType()));
  program.setResultAttr(0, "kiln.name", builder.getStringAttr("logits"));
  return success();
}

namespace {

struct BuildEvaluationPass
    : kiln::impl::BuildEvaluationBase<BuildEvaluationPass> {
  using BuildEvaluationBase::BuildEvaluationBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<ProgramOp> forward = findForward(module);
    if (failed(forward))
      return signalPassFailure();
    if (forward->getNumResults() != 1) {
      forward->emitOpError("returns ")
          << forward->getNumResults() << " values, expected one loss";
      return signalPassFailure();
    }
    if (evaluation) {
      SymbolTable symbols(module);
      OpBuilder builder(module.getBody(), module.getBody()->end());
      auto evaluate = cast<ProgramOp>(builder.clone(**forward));
      nameByKind(evaluate, ProgramKind::Evaluate, symbols);
      evaluate.setResultAttr(0, "kiln.name", builder.getStringAttr("loss"));
      removeTrainingEffects(evaluate);
      // No generation program is built for a program whose loss is not a cross
      // entropy with one row of logits per token.
      auto generate = cast<ProgramOp>(builder.clone(*evaluate));
      nameByKind(generate, ProgramKind::Generate, symbols);
      if (failed(returnLogits(generate)))
        generate.erase();
      else
        finish(generate);
      finish(evaluate);
    }
    if (removeForward)
      forward->erase();
  }

private:
  void finish(ProgramOp program) {
    if (divideRows)
      kiln::divideRows(program);
    removeDeadCode(program);
  }
};

} // namespace
