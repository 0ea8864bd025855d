//===- VerifyLevel.cpp - Verification of level invariants -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pipeline runs this pass at every boundary between two levels. The
// diagnostic of a rejected op names the pass that should have run before the
// boundary.
//
//===----------------------------------------------------------------------===//

#include "ForwardLevel.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "llvm/ADT/StringSwitch.h"

namespace kiln {
#define GEN_PASS_DEF_VERIFYLEVEL
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class LevelVerifier {
public:
  LevelVerifier(ModuleOp module, Level level)
      : module(module), symbols(module), level(level) {}
  LogicalResult run();

private:
  LogicalResult reject(Operation *op, StringRef why, StringRef pass) {
    InFlightDiagnostic diagnostic = op->emitOpError(why);
    diagnostic.attachNote(op->getLoc())
        << "'" << pass << "' should have run before";
    return diagnostic;
  }
  LogicalResult checkWrites(ProgramOp program);
  LogicalResult checkPlanned(ProgramOp program);
  LogicalResult checkDispatched(Block &block);

  ModuleOp module;
  SymbolTable symbols;
  Level level;
};

} // namespace

/// Checks a program at the level 'step': the program writes each state at most
/// once, writes a parameter and its mirror (its copy on the device) together,
/// and, if it is a train program, writes every trainable state.
LogicalResult LevelVerifier::checkWrites(ProgramOp program) {
  DenseMap<StringAttr, WriteOp> writes;
  LogicalResult result = success();
  program.walk([&](WriteOp write) {
    auto [it, inserted] =
        writes.insert({write.getStateAttr().getAttr(), write});
    if (inserted)
      return;
    InFlightDiagnostic diagnostic = write.emitOpError("is the second write of ")
                                    << write.getStateAttr()
                                    << ", expected at most one";
    diagnostic.attachNote(it->second.getLoc()) << "the first write is here";
    result = diagnostic;
  });
  if (failed(result))
    return result;
  for (StateOp mirror : module.getOps<StateOp>())
    if (mirror.getRole() == Role::Mirror &&
        writes.contains(mirror.getSymNameAttr()) !=
            writes.contains(mirror.getOfAttr().getAttr())) {
      InFlightDiagnostic diagnostic =
          program.emitOpError("must write both or neither of ")
          << mirror.getOfAttr() << " and its copy on the device, the mirror @"
          << mirror.getSymName();
      diagnostic.attachNote(mirror.getLoc()) << "the mirror is declared here";
      return diagnostic;
    }
  if (program.getKind() != ProgramKind::Train)
    return success();
  for (StateOp state : module.getOps<StateOp>())
    if (state.isTrainable() && !writes.contains(state.getSymNameAttr())) {
      InFlightDiagnostic diagnostic =
          program.emitOpError("does not update the trainable state @")
          << state.getSymName();
      diagnostic.attachNote(state.getLoc()) << "the state is declared here";
      return diagnostic;
    }
  return success();
}

/// Checks a program at the level 'planned': losses are expanded into other ops,
/// and the ops contain the choices that affect rounding.
LogicalResult LevelVerifier::checkPlanned(ProgramOp program) {
  WalkResult walk = program.walk([&](Operation *op) -> WalkResult {
    if (isa<CrossEntropyOp, CrossEntropyGradOp, LinearCrossEntropyOp,
            LinearCrossEntropyGradOp>(op))
      return reject(op, "is not expanded", "kiln-expand-loss");
    if (auto gemm = dyn_cast<GemmOpInterface>(op))
      if (!gemm.getGridAttr())
        return reject(op, "has no grid", "kiln-set-numerics");
    if (auto reduce = dyn_cast<ReduceOp>(op))
      if (reduce.getKind() == Reduction::Mean)
        return reject(op,
                      "computes a mean, expected a sum whose result is scaled",
                      "kiln-set-numerics");
    if (isa<AttentionOp, AttentionGradOp>(op) && !op->hasAttr("kv_tile"))
      return reject(op, "has no kv_tile", "kiln-set-numerics");
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Checks a block at the level 'dispatched': every op outside of a dispatch is
/// a GEMM, a view, a concat, a copy, a state access, micro-batches or a
/// terminator.
LogicalResult LevelVerifier::checkDispatched(Block &block) {
  for (Operation &op : block) {
    if (isa<DispatchOp>(op))
      continue;
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto state = symbols.lookup<StateOp>(read.getState());
      if (memoryOf(state.getType()) != memoryOf(read.getType()))
        return reject(
            read,
            "reads a state on the host, but the result of the read is on the "
            "device",
            "kiln-place-copies");
    }
    if (auto microbatches = dyn_cast<MicrobatchesOp>(op)) {
      if (!microbatches.isDivided())
        return reject(&op, "is not divided into segments",
                      "kiln-divide-microbatches");
      if (failed(checkDispatched(microbatches.getForward())) ||
          failed(checkDispatched(microbatches.getBackward())))
        return failure();
      continue;
    }
    Family family = familyOf(&op);
    if (family != Family::Gemm && family != Family::View &&
        family != Family::Concat && family != Family::State &&
        family != Family::Copy && !isa<ReturnOp, YieldOp>(op))
      return reject(&op, "is outside a dispatch", "kiln-form-dispatches");
  }
  return success();
}

LogicalResult LevelVerifier::run() {
  if (level == Level::Forward)
    return checkForwardLevel(module);
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    if (failed(checkWrites(program)))
      return failure();
    if (level >= Level::Planned && failed(checkPlanned(program)))
      return failure();
    if (level == Level::Dispatched &&
        failed(checkDispatched(program.getBlock())))
      return failure();
  }
  return success();
}

LogicalResult kiln::verifyLevel(ModuleOp module, Level level) {
  return LevelVerifier(module, level).run();
}

namespace {

struct VerifyLevelPass : kiln::impl::VerifyLevelBase<VerifyLevelPass> {
  using VerifyLevelBase::VerifyLevelBase;

  void runOnOperation() override {
    auto parsed = llvm::StringSwitch<std::optional<Level>>(level)
                      .Case("forward", Level::Forward)
                      .Case("step", Level::Step)
                      .Case("planned", Level::Planned)
                      .Case("dispatched", Level::Dispatched)
                      .Default(std::nullopt);
    if (!parsed) {
      emitError(getOperation().getLoc(), "unknown level '")
          << level << "', expected forward, step, planned or dispatched";
      return signalPassFailure();
    }
    if (failed(verifyLevel(getOperation(), *parsed)))
      signalPassFailure();
    // Nothing has changed, so MLIR need not verify the module again.
    markAllAnalysesPreserved();
  }
};

} // namespace
