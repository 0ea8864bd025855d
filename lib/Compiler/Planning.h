//===- Planning.h - One search for a memory plan ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The class behind kiln-plan-memory, which keeps what was tried.
// MemoryPlanner.cpp searches, MeasureProposal.cpp finds out what a proposal
// comes to, PlanOutcome.cpp applies the winner or refuses.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PLANNING_H
#define KILN_LIB_COMPILER_PLANNING_H

#include "MemoryPlanner.h"
#include "OffloadModel.h"
#include "StageMenus.h"

#include "kiln/Compiler/Pipelines.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Planner/ChainPlanner.h"

#include <list>
#include <map>
#include <memory>
#include <optional>

namespace kiln {

/// Rungs of the ladder between the least a chain needs and all it can use.
inline constexpr int64_t kRungs = 96;

/// A schedule and what the scheduled program makes of it.
struct Proposal {
  StageCut cut = StageCut::Everywhere; ///< of the chain that it is for
  RecomputeSchedule schedule;
  std::vector<OffloadChoice> offload;
  std::optional<int64_t> lead; ///< of copies of parameters on the host
  int64_t height = 0, hostHeight = 0;
  double seconds = 0;
  /// Seconds that no schedule of the chain within its budget can beat.
  double bound = 0;
  /// The command at which most bytes are alive, by name.
  std::string peak;
};

/// What is alive while a program runs.
struct LiveCurve {
  std::vector<int64_t> live;  ///< bytes, but states, by command
  std::vector<int64_t> heavy; ///< commands that are heavy ops
  std::string peak;           ///< name of the command with most bytes
};

/// The proposals for one way to cut the program, by chain budget. Whole layers
/// can keep what lies between two blocks and drop the cut; single blocks can be
/// repeated one by one. Which is better depends on the budget.
struct Ladder {
  StageCut cut;
  StageMenus menus;
  int64_t lowest = 0, highest = 0; ///< chain budgets of the first and last rung
  int64_t rungCount = kRungs;
  double keepAllSeconds = 0; ///< of the chain
  std::unique_ptr<ChainLadder> plans;
  std::map<int64_t, Proposal> rungs;

  int64_t budget(int64_t index) const {
    return lowest + (highest - lowest) * index / rungCount;
  }
};

class MemoryPlanner {
public:
  MemoryPlanner(mlir::ModuleOp module, const Machine &machine,
                const PlanMemoryOptions &request);
  Status run();
  /// After a refusal: the smallest feasible budget.
  int64_t least() const { return leastBytes; }

private:
  ProgramOp trainProgram(mlir::ModuleOp of);
  llvm::LogicalResult runPasses(mlir::ModuleOp trial, PipelinePoint from,
                                PipelinePoint to);
  Status measure(Proposal &proposal, bool keepsAll = false,
                 LiveCurve *liveCurve = nullptr);
  Status schedule(mlir::ModuleOp dispatched, Proposal &proposal,
                  LiveCurve *liveCurve = nullptr);
  Status chooseOffload(mlir::ModuleOp dispatched, Proposal &proposal);
  bool fits(const Proposal &proposal) const {
    return proposal.height <= request.budget &&
           proposal.hostHeight <= request.hostBudget;
  }
  Status addLadder(StageCut cut, const LiveCurve &curve);
  Status propose(const Ladder &ladder, int64_t chainBytes, Proposal &proposal);
  Result<const Proposal *> rung(Ladder &ladder, int64_t index);
  Status priceNamed();
  Status searchRungs(Ladder &ladder, int64_t &low, int64_t &extra);
  Status climb(Ladder &ladder);
  Status searchOffloaded(Ladder &ladder);
  double boundOf(const Ladder &ladder);
  Status tuneLeads(const Proposal *&best);
  Status choose(const Proposal *&best);
  Status measureLeast();
  Status refuse();
  void apply(const Proposal &proposal);
  void forEachProposal(llvm::function_ref<void(const Proposal &)> visit);

  mlir::ModuleOp module;
  const Machine &machine;
  const PlanMemoryOptions &request;
  PipelineOptions pipeline; ///< of trials
  int64_t ops = 0;          ///< of the training program
  /// Whatever the request says: all that can go to the host does.
  bool offloadsMost = false;
  double fastest = std::numeric_limits<double>::infinity(); ///< that fits
  std::list<Ladder> ladders;
  std::list<Proposal> others; ///< besides rungs
  Proposal plain;
  int64_t leastBytes = 0;
};

/// Says how early the copies of parameters on the host begin.
void markLeads(mlir::ModuleOp module, const Proposal &proposal);

/// Tells the chain what the schedule that keeps everything really has alive in
/// each stage. Heavy ops mark the stages' places in it.
void calibrate(StageMenus &menus, const LiveCurve &curve);

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANNING_H
