//===- PlanMemory.cpp - The memory planner as a pass ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Planning.h"

#include "kiln/Compiler/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

namespace kiln {
#define GEN_PASS_DEF_PLANMEMORY
#include "kiln/Compiler/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

struct PlanMemoryPass : kiln::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;
  PlanMemoryPass(const PlanMemoryOptions &options, PlanningSession &session)
      : PlanMemoryBase(options), session(&session) {}

  void runOnOperation() override {
    // Verify that earlier passes have set all attributes that planning needs,
    // such as those on the order of sums.
    if (failed(verifyLevel(getOperation(), Level::Planned)))
      return signalPassFailure();
    Status status = plan();
    if (session)
      session->status = status;
    if (!status.ok()) {
      emitError(getOperation().getLoc(), status.message());
      signalPassFailure();
    }
  }

private:
  Status plan();
  Status checkOptions();
  Result<Machine> findMachine();

  PlanningSession *session = nullptr;
};

} // namespace

Status PlanMemoryPass::checkOptions() {
  auto usage = [](const std::string &option, const std::string &value,
                  const std::string &expected) {
    return Status(ExitCode::Usage, "option '" + option + "' is " + value +
                                       ", expected " + expected);
  };
  for (auto *option : {&budget, &hostBudget})
    if (*option < 1)
      return usage(option->ArgStr.str(), std::to_string(*option),
                   "a positive number of bytes");
  if (offloadStates && !offloadActivations)
    return usage("offload-states", "set without offload-activations",
                 "both, because a plan may need both");
  if (maxThreads < 1 || maxThreads > 1024)
    return usage("max-threads", std::to_string(maxThreads), "1 to 1024");
  if (!llvm::is_contained({"none", "full", "blocks", "sqrt", "poor", "optimal"},
                          policy.getValue()))
    return usage("policy", "'" + policy + "'",
                 "none, full, blocks, sqrt, poor or optimal");
  return Status();
}

Result<Machine> PlanMemoryPass::findMachine() {
  if (session && session->machine)
    return *session->machine;
  Result<Machine> loaded = loadMachine(machine);
  if (!loaded.ok() || link.empty())
    return loaded;
  Result<double> rate = parseLinkSpeed(link, "option 'link'");
  if (!rate.ok())
    return rate.status();
  loaded->simulateLink(*rate);
  return loaded;
}

Status PlanMemoryPass::plan() {
  if (Status status = checkOptions(); !status.ok())
    return status;
  ModuleOp module = getOperation();
  auto trains =
      llvm::count_if(module.getOps<ProgramOp>(), [](ProgramOp program) {
        return program.getKind() == ProgramKind::Train;
      });
  if (trains != 1)
    return Status::badInput("the module has " + std::to_string(trains) +
                            " programs of kind train, but kiln-plan-memory "
                            "needs exactly one");
  Operation *late = nullptr;
  module.walk([&](Operation *op) {
    if (isa<DispatchOp>(op) || op->getName().getDialectNamespace() == "kilnrt")
      late = op;
  });
  if (late)
    return Status::badInput(
        "the module has '" + late->getName().getStringRef().str() +
        "', an op that only exists after kiln-form-dispatches; run "
        "kiln-plan-memory before kiln-form-dispatches");
  Result<Machine> figures = findMachine();
  if (!figures.ok())
    return figures.status();
  // Remove the limits that an earlier run of this pass has set. They do not
  // apply to the new plan.
  for (ProgramOp program : module.getOps<ProgramOp>())
    program->removeAttr(kArenaSearchAttr);
  PlanMemoryOptions request;
  request.budget = budget;
  request.hostBudget = hostBudget;
  request.policy = policy;
  request.offloadActivations = offloadActivations;
  request.offloadStates = offloadStates;
  request.fuse = fuse;
  request.epilogues = epilogues;
  request.maxThreads = maxThreads;
  request.suggestMicrobatches = suggestMicrobatches;
  if (session && session->outlookBudget) {
    Result<PlanOutlook> outlook =
        outlookOf(module, *figures, request, session->outlookBudget);
    if (outlook.ok())
      session->outlook = *outlook;
    return outlook.status();
  }
  PlanningSession unused;
  return planMemory(module, *figures, request, session ? *session : unused);
}

std::unique_ptr<Pass> kiln::createPlanMemory(const PlanMemoryOptions &options,
                                             PlanningSession &session) {
  return std::make_unique<PlanMemoryPass>(options, session);
}
