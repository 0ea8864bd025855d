//===- BuildSync.cpp - The program that averages states ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Local SGD: S. U. Stich, "Local SGD Converges Fast and Communicates Little"
// (ICLR 2019, arXiv:1805.09767). The states of the optimizer are averaged like
// the parameters.
//
//===----------------------------------------------------------------------===//

#include "ReduceGradients.h"
#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Support/Mesh.h"

namespace kiln {
#define GEN_PASS_DEF_BUILDSYNC
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Returns `value` cast to the element type `element`, or `value` itself if it
/// already has this element type.
static Value castTo(OpBuilder &builder, Value value, Type element) {
  RankedTensorType type = tensorTypeOf(value);
  if (type.getElementType() == element)
    return value;
  return CastOp::create(builder, value.getLoc(), type.clone(element), value);
}

namespace {

struct BuildSyncPass : kiln::impl::BuildSyncBase<BuildSyncPass> {
  using BuildSyncBase::BuildSyncBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (syncEvery < 2) {
      module.emitError("sync-every is ")
          << syncEvery.getValue() << ", expected at least 2";
      return signalPassFailure();
    }
    if (meshSizeOf(module, dataAxis()) <= 1) {
      module.emitError(
          "kiln-build-sync averages the states of data-parallel ranks, but the "
          "mesh of the module has no axis 'dp' with several ranks");
      return signalPassFailure();
    }
    auto programs = llvm::make_filter_range(
        module.getOps<ProgramOp>(), [](ProgramOp program) {
          return program.getKind() == ProgramKind::Train;
        });
    if (programs.empty())
      return;
    SmallVector<StateOp> states;
    if (failed(findStates(*programs.begin(), states)))
      return signalPassFailure();
    module->setAttr(kSyncEveryAttr,
                    Builder(module).getI64IntegerAttr(syncEvery));
    buildProgram(*programs.begin(), states);
  }

private:
  /// Finds the states that ranks average: those that `train` writes, except
  /// mirrors (copies of parameters).
  LogicalResult findStates(ProgramOp train, SmallVectorImpl<StateOp> &states) {
    SymbolTable symbols(getOperation());
    for (WriteOp write : train.getBlock().getOps<WriteOp>()) {
      auto state = symbols.lookup<StateOp>(write.getState());
      if (state.getRole() == Role::Mirror)
        continue;
      Type element = state.getTensorType().getElementType();
      if (!isa<FloatType>(element))
        return state.emitOpError("has elements of type ")
               << element
               << ", which ranks cannot average; with sync-every=1, ranks sum "
                  "gradients instead";
      states.push_back(state);
    }
    return success();
  }

  void buildProgram(ProgramOp train, ArrayRef<StateOp> states) {
    ModuleOp module = getOperation();
    OpBuilder builder(train);
    builder.setInsertionPointAfter(train);
    auto program = ProgramOp::create(
        builder, train.getLoc(), stringifyProgramKind(ProgramKind::Sync),
        builder.getFunctionType({}, {}), ProgramKind::Sync);
    SymbolTable symbols(module);
    nameByKind(program, ProgramKind::Sync, symbols);
    Block &block = program.getBody().emplaceBlock();
    builder.setInsertionPointToStart(&block);
    double share = 1.0 / double(meshSizeOf(module, dataAxis()));

    std::vector<PlacedValue> averages;
    for (StateOp state : states) {
      Location loc = state.getLoc();
      Value value =
          ReadOp::create(builder, loc, state.getType(), state.getSymName());
      averages.push_back(
          {ScaleOp::create(builder, loc, value, builder.getF64FloatAttr(share)),
           nullptr});
    }
    ReturnOp::create(builder, train.getLoc(), ValueRange());
    SmallVector<SummedGradient> summed;
    for (PlacedValue &average : averages)
      summed.push_back({&average, RankedTensorType()});
    reduceGradients(block, summed, bucketBytes, dataAxis());

    llvm::StringMap<SmallVector<StateOp, 1>> copies;
    for (StateOp copy : module.getOps<StateOp>())
      if (copy.getRole() == Role::Mirror)
        copies[copy.getOfAttr().getValue()].push_back(copy);
    for (auto [state, average] : llvm::zip_equal(states, averages)) {
      placeReader(builder, average, program);
      SmallVector<StateOp, 2> targets = {state};
      llvm::append_range(targets, copies.lookup(targets.front().getSymName()));
      for (StateOp target : targets)
        WriteOp::create(builder, target.getLoc(), target.getSymName(),
                        castTo(builder, average.value,
                               target.getTensorType().getElementType()));
    }
  }
};

} // namespace
