//===- MemoryPlanner.cpp - The fastest step within a budget -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Proposals come from a ladder of chain budgets that depends on the program
// alone. A small program's are all priced, and the fastest that fits is taken:
// a larger budget then never gives a slower step. For a large program that
// would take minutes. True heights grow with the chain budget, but for ripples,
// so the highest rung that fits is searched for, and what it leaves is used up
// by one careful proposal.
//
//===----------------------------------------------------------------------===//

#include "MemoryPlanner.h"

#include "StageMenus.h"
#include "StepCost.h"
#include "kiln/Compiler/ByteSize.h"

#include "kiln/Planner/ChainPlanner.h"

#include "mlir/Pass/PassManager.h"

#include <list>
#include <map>
#include <numeric>

using namespace mlir;
using namespace kiln;

/// Rungs of the ladder between the least a chain needs and all it can use.
static constexpr int64_t kRungs = 96;
/// Programs of up to this many ops are small: their whole ladder is priced,
/// with all effort or, beyond kTinyOps, with half the rungs and less effort.
static constexpr int64_t kSmallOps = 1600, kTinyOps = 500;
/// Stages up to which keeping nothing at all is worth a try.
static constexpr int64_t kMostPoorStages = 128;
/// A plan this close to a bound is not improved on.
static constexpr double kGoodEnough = 1.005;

namespace {

/// A schedule and what the scheduled program makes of it.
struct Proposal {
  StageCut cut = StageCut::Everywhere; ///< of the chain that it is for
  RecomputeSchedule schedule;
  int64_t height = 0;
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
  std::map<int64_t, Proposal> rungs;

  int64_t budget(int64_t index) const {
    return lowest + (highest - lowest) * index / rungCount;
  }
};

class MemoryPlanner {
public:
  MemoryPlanner(ModuleOp module, const Machine &machine,
                const MemoryRequest &request)
      : module(module), machine(machine), request(request) {}
  Status run();
  /// After a refusal: the smallest feasible budget.
  int64_t least() const { return leastBytes; }

private:
  ProgramOp trainProgram(ModuleOp of);
  Status measure(Proposal &proposal, LiveCurve *liveCurve = nullptr);
  Status addLadder(StageCut cut, const LiveCurve &curve);
  Status propose(const Ladder &ladder, int64_t chainBytes,
                 const ChainOptions &effort, Proposal &proposal);
  Result<const Proposal *> rung(Ladder &ladder, int64_t index);
  Status priceNamed();
  Status searchRungs(Ladder &ladder, int64_t &low, int64_t &extra);
  Status climb(Ladder &ladder);
  double boundOf(const Ladder &ladder);
  Status choose(const Proposal *&best);
  Status refuse();
  ArrayAttr describe(const StageChain &stages,
                     const RecomputeSchedule &schedule);
  void apply(const Proposal &proposal);
  void forEachProposal(llvm::function_ref<void(const Proposal &)> visit);

  ModuleOp module;
  const Machine &machine;
  const MemoryRequest &request;
  int64_t ops = 0; ///< of the training program
  std::list<Ladder> ladders;
  std::list<Proposal> others; ///< besides rungs
  Proposal plain;
  double unplannedSeconds = 0;
  int64_t unplannedHeight = 0;
  int64_t leastBytes = 0;
};

} // namespace

ProgramOp MemoryPlanner::trainProgram(ModuleOp of) {
  for (ProgramOp program : of.getOps<ProgramOp>())
    if (program.getKind() == ProgramKind::Train)
      return program;
  return {};
}

/// Numbers commands as slots' lifetimes do: a loop counts at both ends.
static void collectCommands(Block &block, SmallVector<Operation *> &commands) {
  for (Operation &op : block) {
    if (auto loop = dyn_cast<rt::LoopOp>(op)) {
      commands.push_back(&op);
      collectCommands(loop.getBody().front(), commands);
      commands.push_back(&op);
    } else if (isa<rt::LaunchOp, rt::GemmOp, rt::FillOp, rt::CopyOp>(op)) {
      commands.push_back(&op);
    }
  }
}

/// Follows a scheduled program: what is alive when, and where heavy ops run.
static LiveCurve followProgram(rt::ProgramOp program) {
  SmallVector<Operation *> commands;
  collectCommands(program.getBody().front(), commands);
  LiveCurve curve;
  curve.live.assign(commands.size() + 1, 0);
  for (rt::SlotOp slot : program.getBody().front().getOps<rt::SlotOp>()) {
    if (slot.getState())
      continue;
    curve.live[slot.getFirst()] += slot.getBytes();
    curve.live[slot.getLast() + 1] -= slot.getBytes();
  }
  std::partial_sum(curve.live.begin(), curve.live.end(), curve.live.begin());
  curve.live.pop_back();
  auto module = program->getParentOfType<ModuleOp>();
  SymbolTable symbols(module);
  for (auto [i, op] : llvm::enumerate(commands)) {
    bool heavy = isa<rt::GemmOp>(op);
    if (auto launch = dyn_cast<rt::LaunchOp>(op))
      heavy = symbols.lookup<rt::KernelOp>(launch.getKernel()).getFamily() ==
              Family::Attention;
    if (heavy)
      curve.heavy.push_back(static_cast<int64_t>(i));
  }
  if (!curve.live.empty()) {
    Operation *peak =
        commands[llvm::max_element(curve.live) - curve.live.begin()];
    StringRef name = getLocationName(peak->getLoc());
    curve.peak = (name.empty() ? peak->getName().stripDialect() : name).str();
  }
  return curve;
}

/// Schedules a copy of the module.
Status MemoryPlanner::measure(Proposal &proposal, LiveCurve *liveCurve) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  applyRecompute(StageChain(trainProgram(*copy), proposal.cut),
                 proposal.schedule);
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  DispatchOptions dispatch;
  dispatch.fuse = request.fuse;
  buildDispatchPipeline(passes, dispatch);
  PlanOptions schedule;
  schedule.maxThreads = request.maxThreads;
  buildSchedulePipeline(passes, schedule);
  if (failed(passes.run(*copy)))
    return Status::error("internal error: a plan could not be scheduled");
  proposal.height = (*(*copy).getOps<rt::ArenaOp>().begin()).getHeight();
  for (rt::ProgramOp program : (*copy).getOps<rt::ProgramOp>())
    if (program.getKind() == ProgramKind::Train) {
      proposal.seconds = programSeconds(program, machine);
      LiveCurve curve = followProgram(program);
      proposal.peak = curve.peak;
      if (liveCurve)
        *liveCurve = std::move(curve);
    }
  return Status();
}

/// Tells the chain what the schedule that keeps everything really has alive in
/// each stage. Heavy ops mark the stages' places in it.
static void calibrate(StageMenus &menus, const LiveCurve &curve) {
  int32_t stages = menus.chain.size();
  auto total = static_cast<int64_t>(curve.heavy.size());
  if (total != std::accumulate(menus.forwardHeavy.begin(),
                               menus.forwardHeavy.end(), int64_t(0)) +
                   std::accumulate(menus.backwardHeavy.begin(),
                                   menus.backwardHeavy.end(), int64_t(0)))
    return;
  std::vector<int64_t> forward(stages, -1), backward(stages, -1);
  int64_t marker = 0;
  auto follow = [&](int64_t heavy) -> int64_t {
    if (heavy == 0)
      return -1;
    int64_t begin = marker == 0 ? 0 : curve.heavy[marker];
    marker += heavy;
    int64_t end = marker == total ? static_cast<int64_t>(curve.live.size())
                                  : curve.heavy[marker];
    return *std::max_element(curve.live.begin() + begin,
                             curve.live.begin() + end);
  };
  for (int32_t k = 0; k < stages; ++k)
    forward[k] = follow(menus.forwardHeavy[k]);
  for (int32_t k = stages - 1; k >= 0; --k)
    backward[k] = follow(menus.backwardHeavy[k]);
  menus.calibrate(forward, backward);
}

Status MemoryPlanner::addLadder(StageCut cut, const LiveCurve &curve) {
  StageChain stages(trainProgram(module), cut);
  if (!ladders.empty() &&
      stages.size() + 1 == ladders.front().menus.chain.size())
    return Status(); // the same chain
  Ladder &ladder = ladders.emplace_back();
  ladder.cut = cut;
  ladder.menus = buildStageMenus(stages, machine);
  calibrate(ladder.menus, curve);
  // A chain that the planner cannot solve is left to the named policies.
  if (!verifyChain(ladder.menus.chain).empty()) {
    ladders.pop_back();
    return Status();
  }
  ChainCost all = simulate(ladder.menus.chain, ladder.menus.keepAll());
  if (!all.ok())
    return Status::error("internal error: " + all.error);
  ladder.keepAllSeconds = all.time;
  ladder.highest = all.peak;
  ladder.lowest =
      std::min(all.peak, smallestFeasibleBudget(ladder.menus.chain).bytes);
  if (ops > kTinyOps && ops <= kSmallOps)
    ladder.rungCount = kRungs / 2;
  return Status();
}

Status MemoryPlanner::propose(const Ladder &ladder, int64_t chainBytes,
                              const ChainOptions &effort, Proposal &proposal) {
  auto plan = solveChain(ladder.menus.chain, chainBytes, effort);
  if (!plan)
    return Status::error("internal error: the chain has no schedule within " +
                         formatBytes(chainBytes));
  proposal.cut = ladder.cut;
  proposal.schedule = ladder.menus.scheduleOf(plan->ops);
  proposal.bound =
      plain.seconds + std::max(0.0, plan->bound - ladder.keepAllSeconds);
  return measure(proposal);
}

Result<const Proposal *> MemoryPlanner::rung(Ladder &ladder, int64_t index) {
  auto [it, isNew] = ladder.rungs.insert({index, {}});
  if (!isNew)
    return &it->second;
  ChainOptions effort;
  if (ops > kTinyOps) {
    effort.maxSlots = 512;
    effort.gap = 3e-3;
    effort.tableEffort = 300'000'000;
    effort.moveEffort = 50'000'000;
  }
  Status status = propose(ladder, ladder.budget(index), effort, it->second);
  if (!status.ok())
    return status;
  return &it->second;
}

/// Prices the policies that keep least. What repeating adds to a stage's memory
/// is an estimate, and so is a ladder's foot.
Status MemoryPlanner::priceNamed() {
  StageChain stages(trainProgram(module));
  for (StringRef name : {"full", "poor"}) {
    if (name == "poor" && stages.size() > kMostPoorStages)
      continue; // its program grows with the square
    Proposal &proposal = others.emplace_back();
    proposal.schedule = *namedSchedule(name, stages);
    proposal.bound = plain.seconds;
    if (Status status = measure(proposal); !status.ok())
      return status;
  }
  return Status();
}

/// Finds the highest rung that fits, `low`, or -1, and what the last rung
/// looked at has on top of its chain budget: `extra`, which hardly depends on
/// the rung and tells where to look next.
Status MemoryPlanner::searchRungs(Ladder &ladder, int64_t &low,
                                  int64_t &extra) {
  int64_t high = ladder.rungCount + 1;
  low = -1;
  extra = plain.height - ladder.highest;
  while (low + 1 < high) {
    int64_t guess = 0;
    while (guess < ladder.rungCount &&
           ladder.budget(guess + 1) + extra <= request.budget)
      ++guess;
    guess = std::clamp(guess, low + 1, high - 1);
    auto proposal = rung(ladder, guess);
    if (!proposal.ok())
      return proposal.status();
    extra = (*proposal)->height - ladder.budget(guess);
    ((*proposal)->height <= request.budget ? low : high) = guess;
  }
  return Status();
}

/// Prices what may be the best of a large program's ladder.
Status MemoryPlanner::climb(Ladder &ladder) {
  int64_t low, extra;
  if (Status status = searchRungs(ladder, low, extra); !status.ok())
    return status;
  // Once more, with all effort and every byte; a plan that turns out too high
  // tells how much less to ask for.
  int64_t asked = ladder.highest + 1;
  for (int round = 0; low >= 0 && round < 3; ++round) {
    int64_t ask =
        std::clamp(request.budget - extra, ladder.budget(low), ladder.highest);
    if (ask >= asked)
      break;
    asked = ask;
    Proposal &careful = others.emplace_back();
    if (Status status = propose(ladder, ask, ChainOptions(), careful);
        !status.ok())
      return status;
    extra = careful.height - ask;
    if (careful.height <= request.budget)
      break;
  }
  return Status();
}

void MemoryPlanner::forEachProposal(
    llvm::function_ref<void(const Proposal &)> visit) {
  visit(plain);
  for (Ladder &ladder : ladders)
    for (auto &[index, proposal] : ladder.rungs)
      visit(proposal);
  llvm::for_each(others, visit);
}

/// Seconds that no schedule of the ladder's chain can beat.
double MemoryPlanner::boundOf(const Ladder &ladder) {
  double chain = relaxedTimeBound(
      ladder.menus.chain, request.budget - plain.height + ladder.highest);
  return plain.seconds + std::max(0.0, chain - ladder.keepAllSeconds);
}

/// The fastest proposal that fits, or nothing if none does.
Status MemoryPlanner::choose(const Proposal *&best) {
  best = nullptr;
  if (plain.height <= request.budget) {
    best = &plain;
    return Status();
  }
  auto findBest = [&] {
    forEachProposal([&](const Proposal &proposal) {
      if (proposal.height <= request.budget &&
          (!best || proposal.seconds < best->seconds))
        best = &proposal;
    });
  };
  for (Ladder &ladder : ladders) {
    if (ops > kSmallOps) {
      // Another cut is worth its time only if it can win something.
      if (best && best->seconds <= kGoodEnough * boundOf(ladder))
        continue;
      if (Status status = climb(ladder); !status.ok())
        return status;
      findBest();
      continue;
    }
    for (int64_t index = 0; index <= ladder.rungCount; ++index)
      if (auto proposal = rung(ladder, index); !proposal.ok())
        return proposal.status();
  }
  findBest();
  if (!best || ops <= kSmallOps) {
    if (Status status = priceNamed(); !status.ok())
      return status;
    findBest();
  }
  return Status();
}

Status MemoryPlanner::refuse() {
  int64_t least = plain.height;
  std::string peak = plain.peak;
  forEachProposal([&](const Proposal &proposal) {
    if (proposal.height >= least)
      return;
    least = proposal.height;
    peak = proposal.peak;
  });
  std::string policy, hint = "raise the budget, ";
  if (!request.policy.empty()) {
    policy = " with --recompute=" + request.policy;
    hint += "leave --recompute to the planner, ";
  }
  hint += "lower --batch or --seq";
  if (!request.countIsFree)
    hint += ", or split the batch with --microbatches=auto";
  leastBytes = least;
  return Status(ExitCode::OverBudget,
                "the plan does not fit: --memory-budget is " +
                    formatBytes(request.budget) + " (" +
                    std::to_string(request.budget) +
                    " bytes) and the smallest feasible budget" + policy +
                    " is " + formatBytes(least) + " (" + std::to_string(least) +
                    " bytes), set by '" + peak + "'; " + hint);
}

/// What the schedule does with each stage, for reports.
ArrayAttr MemoryPlanner::describe(const StageChain &stages,
                                  const RecomputeSchedule &schedule) {
  Builder b(module.getContext());
  SmallVector<Attribute> choices;
  for (int64_t k = 0; k < stages.size(); ++k) {
    const ForwardStage &stage = stages.stages()[k];
    const StageRun &first = schedule[k];
    int64_t runs = llvm::count_if(schedule, [&](const StageRun &run) {
      return run.stage == k && run.kind != StageRun::Kind::Backward;
    });
    SmallVector<Attribute> kept, repeated;
    for (auto [i, residual] : llvm::enumerate(stage.residuals)) {
      bool keeps = first.saves() && (i >= 64 || first.saved >> i & 1);
      StringRef name = getLocationName(residual.getLoc());
      auto &list = keeps ? kept : repeated;
      if (StringAttr attr = b.getStringAttr(name);
          !llvm::is_contained(list, attr))
        list.push_back(attr);
    }
    choices.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("stage", b.getI64IntegerAttr(k)),
         b.getNamedAttr("layer", b.getStringAttr(stage.block)),
         b.getNamedAttr("forward_runs", b.getI64IntegerAttr(runs)),
         b.getNamedAttr("keeps_input", b.getBoolAttr(!first.dropsInput())),
         b.getNamedAttr("keeps", b.getArrayAttr(kept)),
         b.getNamedAttr("repeats", b.getArrayAttr(repeated))}));
  }
  return b.getArrayAttr(choices);
}

void MemoryPlanner::apply(const Proposal &proposal) {
  Builder b(module.getContext());
  StageChain stages(trainProgram(module), proposal.cut);
  ArrayAttr choices = describe(stages, proposal.schedule);
  applyRecompute(stages, proposal.schedule);
  auto number = [&](StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  };
  auto real = [&](StringRef name, double value) {
    return b.getNamedAttr(name, b.getF64FloatAttr(value));
  };
  module->setAttr("kiln.plan",
                  b.getDictionaryAttr(
                      {number("budget", request.budget),
                       number("predicted_peak_bytes", proposal.height),
                       real("predicted_step_ms", 1e3 * proposal.seconds),
                       real("lower_bound_ms",
                            1e3 * std::min(proposal.bound, proposal.seconds)),
                       real("unplanned_step_ms", 1e3 * unplannedSeconds),
                       number("unplanned_peak_bytes", unplannedHeight),
                       b.getNamedAttr("choices", choices)}));
}

Status MemoryPlanner::run() {
  StageChain stages(trainProgram(module));
  plain.schedule = *namedSchedule("none", stages);
  LiveCurve curve;
  if (Status status = measure(plain, &curve); !status.ok())
    return status;
  plain.bound = unplannedSeconds = plain.seconds;
  unplannedHeight = plain.height;

  const Proposal *best = nullptr;
  if (!request.policy.empty()) {
    // The policy is the only proposal.
    plain.schedule = *namedSchedule(request.policy, stages);
    if (Status status = measure(plain); !status.ok())
      return status;
    if (plain.height <= request.budget)
      best = &plain;
  } else {
    trainProgram(module).walk([&](Operation *) { ++ops; });
    if (stages.size() > 0)
      for (StageCut cut : {StageCut::Layers, StageCut::Everywhere})
        if (Status status = addLadder(cut, curve); !status.ok())
          return status;
    if (Status status = choose(best); !status.ok())
      return status;
  }
  if (!best)
    return refuse();
  apply(*best);
  return Status();
}

Status kiln::planMemory(ModuleOp module, const Machine &machine,
                        const MemoryRequest &request, int64_t &least) {
  MemoryPlanner planner(module, machine, request);
  Status status = planner.run();
  least = planner.least();
  return status;
}
