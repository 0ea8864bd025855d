//===- KeepOnDevice.cpp - Parameters that the device keeps ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// By default, every micro-batch copies the parameters that are stored on the
// host to the device, in the forward and again in the backward segment. If the
// budget permits it, the device keeps copies of them for the whole step.
//
// The planner first searches for a plan in which the device keeps copies of all
// these parameters. It chooses this plan if it is as fast as the plan for
// unlimited memory. Otherwise, the planner also searches for plans that keep no
// copies. To the best of these plans, it adds as many copies as fit in the
// memory that is left free. It then chooses the fastest of all plans.
//
//===----------------------------------------------------------------------===//

#include "Planning.h"

#include "kiln/Dialect/Kiln/Transforms/Offload.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;

/// The maximum number of proposals (candidate plans) that are changed so that
/// the device keeps copies of some states for the whole step, and the maximum
/// number of attempts for each of these proposals.
static constexpr size_t kKeepBases = 4;
static constexpr int kKeepRounds = 4;

/// Counts the ops that read a value directly or through views. Views are not
/// counted.
static int64_t countReaders(Value value) {
  int64_t readers = 0;
  for (Operation *user : value.getUsers())
    readers +=
        familyOf(user) == Family::View ? countReaders(user->getResult(0)) : 1;
  return readers;
}

/// Returns the states on the host that several micro-batches copy to the
/// device. States with more readers, and thus probably more copies per
/// micro-batch, come first. States with equally many readers are sorted by
/// decreasing size.
static SmallVector<StateOp> copiedStates(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::MapVector<StateOp, int64_t> readers;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    if (program.getKind() != ProgramKind::Train)
      continue;
    for (ReadOp read : readsAcross(program)) {
      bool inSeveral = llvm::any_of(
          program.getBlock().getOps<MicrobatchesOp>(), [&](MicrobatchesOp op) {
            return op.getCount() > 1 &&
                   llvm::any_of(read.getResult().getUsers(),
                                [&](Operation *user) {
                                  return op->isProperAncestor(user);
                                });
          });
      if (inSeveral)
        readers[symbols.lookup<StateOp>(read.getState())] +=
            countReaders(read.getResult());
    }
  }
  SmallVector<StateOp> states;
  for (auto &[state, count] : readers)
    states.push_back(state);
  auto key = [&](StateOp state) {
    return std::tuple(-readers.lookup(state), -bytesOf(state.getType()),
                      state.getSymName());
  };
  llvm::sort(states, [&](StateOp a, StateOp b) { return key(a) < key(b); });
  return states;
}

/// If `keep` is true, marks the training program's reads of `states`, so that
/// the device keeps the copies of the states. Otherwise removes the marks.
static void markAll(ModuleOp module, ArrayRef<StateOp> states, bool keep) {
  Proposal marks;
  for (StateOp state : states)
    marks.kept.push_back(state.getSymNameAttr());
  if (keep)
    return markTransfers(module, marks);
  for (ProgramOp program : module.getOps<ProgramOp>())
    for (ReadOp read : readsAcross(program))
      if (program.getKind() == ProgramKind::Train &&
          llvm::is_contained(marks.kept, read.getStateAttr().getAttr()))
        read->removeAttr(kKeepAttr);
}

/// Tries to keep as many states on the device as fit in the memory that `base`
/// leaves free.
Status MemoryPlanner::fillWithStates(const Proposal &base,
                                     ArrayRef<StateOp> states) {
  // The arena may grow by less than the bytes of the kept states, because
  // `base` already has memory for copies of some of them. Each round therefore
  // increases `room` by the bytes that the last proposal left free.
  int64_t room = request.budget - base.height;
  std::vector<StringAttr> tried;
  for (int round = 0; round < kKeepRounds; ++round) {
    std::vector<StringAttr> kept;
    int64_t left = room;
    for (StateOp state : states)
      if (int64_t bytes = bytesOf(state.getType()); bytes <= left) {
        kept.push_back(state.getSymNameAttr());
        left -= bytes;
      }
    if (kept.empty() || kept == tried)
      break;
    tried = kept;
    Proposal &trial = others.emplace_back(base);
    trial.kept = std::move(kept);
    if (Status status = measurer.measure(trial); !status.ok())
      return status;
    if (fits(trial) && trial.seconds < best->seconds)
      best = &trial;
    room += request.budget - trial.height;
  }
  return Status();
}

Status MemoryPlanner::keepSome(ArrayRef<StateOp> states) {
  int64_t total = 0;
  for (StateOp state : states)
    total += bytesOf(state.getType());
  // Estimate the step time of a proposal if it keeps as many states as fit into
  // the budget. The estimate assumes that every kept byte saves the same time.
  double saved =
      std::max(0.0, plain.seconds - reference->seconds) / double(total);
  auto estimate = [&](const Proposal &proposal) {
    return proposal.seconds -
           saved * double(std::min(total, request.budget - proposal.height));
  };
  std::vector<std::pair<double, Proposal>> bases;
  forEachProposal([&](const Proposal &proposal) {
    bool isNew = llvm::none_of(bases, [&](const auto &base) {
      return base.second.schedule == proposal.schedule &&
             base.second.cut == proposal.cut;
    });
    if (fits(proposal) && !proposal.schedule.empty() && isNew)
      bases.emplace_back(estimate(proposal), proposal);
  });
  llvm::sort(bases, [](const auto &a, const auto &b) {
    return std::pair(a.first, a.second.height) <
           std::pair(b.first, b.second.height);
  });
  for (const auto &[seconds, base] : ArrayRef(bases).take_front(kKeepBases))
    if (seconds < best->seconds)
      if (Status status = fillWithStates(base, states); !status.ok())
        return status;
  return Status();
}

/// Records that no plan is as fast as required, and returns the error.
static Status refuseSlow(PlanningSession &session) {
  session.isBeaten = true;
  return Status(ExitCode::OverBudget, "no plan is as fast as required");
}

Result<PlanOutlook>
kiln::outlookOf(ModuleOp module, const Machine &machine,
                const PlanMemoryOptions &request,
                llvm::function_ref<int64_t(int64_t)> chooseBudget) {
  SmallVector<StateOp> states;
  if (request.budget != kNoBudget)
    states = copiedStates(module);
  if (states.empty())
    return MemoryPlanner(module, machine, request).outlook(chooseBudget);
  markAll(module, states, true);
  Result<PlanOutlook> outlook =
      MemoryPlanner(module, machine, request).outlook(chooseBudget);
  markAll(module, states, false);
  // The bound holds only for plans in which the device keeps copies of all of
  // `states`. Plans that keep fewer copies need less memory and can be faster.
  // So use the time without a budget, which bounds all plans.
  if (outlook.ok())
    outlook->bound = outlook->seconds;
  return outlook;
}

Status kiln::planMemory(ModuleOp module, const Machine &machine,
                        const PlanMemoryOptions &request,
                        PlanningSession &session) {
  SmallVector<StateOp> states;
  if (request.budget != kNoBudget)
    states = copiedStates(module);
  MemoryPlanner keeping(module, machine, request),
      copying(module, machine, request);
  if (states.empty())
    copying.mustBeat(session.mustBeat);
  else {
    keeping.mustBeat(session.mustBeat);
    markAll(module, states, true);
    Status status = keeping.search();
    if (!status.ok())
      return status;
    keeping.compareWith(keeping.unplanned());
    copying.compareWith(keeping.unplanned());
    if (keeping.found() &&
        keeping.found()->seconds <= keeping.unplanned().seconds) {
      keeping.apply();
      return Status();
    }
    markAll(module, states, false);
    // No plan is faster than the one that keeps all parameters and has no
    // budget.
    if (keeping.unplanned().seconds >= session.mustBeat)
      return refuseSlow(session);
  }
  if (Status status = copying.search(); !status.ok())
    return status;
  if (copying.found() && !states.empty())
    if (Status status = copying.keepSome(states); !status.ok())
      return status;
  if (keeping.found() && (!copying.found() || keeping.found()->seconds <=
                                                  copying.found()->seconds)) {
    markAll(module, states, true);
    keeping.apply();
    return Status();
  }
  if (copying.isBeaten())
    return refuseSlow(session);
  if (!copying.found())
    return copying.refuse(session.leastBudget);
  copying.apply();
  return Status();
}
