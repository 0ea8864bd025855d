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

#include "OffloadModel.h"
#include "PlanChoices.h"
#include "PlanRemarks.h"
#include "StageMenus.h"
#include "StepCost.h"
#include "kiln/Compiler/ByteSize.h"

#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Planner/ChainPlanner.h"

#include "mlir/Pass/PassManager.h"

#include <list>
#include <map>
#include <numeric>

using namespace mlir;
using namespace kiln;

/// Rungs of the ladder between the least a chain needs and all it can use.
static constexpr int64_t kRungs = 96;
/// Programs of up to this many ops are small: their whole ladder is priced;
/// beyond kTinyOps, or with copies to place, it has half the rungs.
static constexpr int64_t kSmallOps = 1600, kTinyOps = 500;
/// Stages up to which keeping nothing at all is worth a try.
static constexpr int64_t kMostPoorStages = 128;
/// How often the offload planner is asked for less because offsets left gaps.
static constexpr int kOffloadRounds = 3;
/// Commands between the beginning of a parameter's copy and its first reader.
static constexpr int64_t kLeads[] = {2, 12, 24, 48, 96};
/// Halvings of the interval in which two bounds meet.
static constexpr int kBisections = 16;
/// Offloading that is estimated to take this much longer than a plan at hand is
/// not followed further.
static constexpr double kHopeless = 1.03;
/// A plan this close to a bound is not improved on.
static constexpr double kGoodEnough = 1.005;

namespace {

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
  MemoryPlanner(ModuleOp module, const Machine &machine,
                const MemoryRequest &request)
      : module(module), machine(machine), request(request) {}
  Status run();
  /// After a refusal: the smallest feasible budget.
  int64_t least() const { return leastBytes; }

private:
  ProgramOp trainProgram(ModuleOp of);
  Status measure(Proposal &proposal, bool keepsAll = false,
                 LiveCurve *liveCurve = nullptr);
  Status schedule(ModuleOp dispatched, Proposal &proposal,
                  LiveCurve *liveCurve = nullptr);
  Status chooseOffload(ModuleOp dispatched, Proposal &proposal);
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

  ModuleOp module;
  const Machine &machine;
  const MemoryRequest &request;
  int64_t ops = 0;                 ///< of the training program
  int64_t target = request.budget; ///< what offloading aims at
  bool mayOffload = request.offloadActivations;
  double fastest = std::numeric_limits<double>::infinity(); ///< that fits
  std::list<Ladder> ladders;
  std::list<Proposal> others; ///< besides rungs
  Proposal plain;
  int64_t leastBytes = 0;
};

} // namespace

ProgramOp MemoryPlanner::trainProgram(ModuleOp of) {
  for (ProgramOp program : of.getOps<ProgramOp>())
    if (program.getKind() == ProgramKind::Train)
      return program;
  return {};
}

/// Follows a scheduled program: what is alive when, and where heavy ops run.
static LiveCurve followProgram(rt::ProgramOp program) {
  SmallVector<Operation *> commands = rt::commandsOf(program);
  LiveCurve curve;
  curve.live = rt::liveBytes(program);
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
    curve.peak = rt::nameOf(
        commands[llvm::max_element(curve.live) - curve.live.begin()]);
  }
  return curve;
}

/// Says how early the copies of parameters on the host begin.
static void markLeads(ModuleOp module, const Proposal &proposal) {
  if (!proposal.lead)
    return;
  module.walk([&](ReadOp read) {
    if (isOnHost(read.getResult()))
      read->setAttr(kPrefetchAttr,
                    DenseI64ArrayAttr::get(read.getContext(), *proposal.lead));
  });
}

/// Dispatches and schedules a copy of the module with the proposal applied.
/// What does not fit gets values offloaded, if that is allowed.
Status MemoryPlanner::measure(Proposal &proposal, bool keepsAll,
                              LiveCurve *liveCurve) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  ProgramOp train = trainProgram(*copy);
  bool offloads = mayOffload && !keepsAll;
  if (offloads)
    numberForwardOps(train);
  applyRecompute(StageChain(train, proposal.cut), proposal.schedule);
  markLeads(*copy, proposal);
  train.walk([](RecomputeOp repeated) { dropNumbers(repeated); });
  // Copies are placed later, all at once, as in the dispatch pipeline.
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  FormDispatchesOptions dispatch;
  dispatch.fuse = request.fuse;
  passes.addPass(createFormDispatches(dispatch));
  if (failed(passes.run(*copy)))
    return Status::error("internal error: a plan could not be dispatched");
  return offloads ? chooseOffload(*copy, proposal)
                  : schedule(*copy, proposal, liveCurve);
}

Status MemoryPlanner::schedule(ModuleOp dispatched, Proposal &proposal,
                               LiveCurve *liveCurve) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  passes.addPass(createPlaceCopies());
  PlanOptions options;
  options.maxThreads = request.maxThreads;
  buildSchedulePipeline(passes, options);
  if (failed(passes.run(dispatched)))
    return Status::error("internal error: a plan could not be scheduled");
  rt::ArenaOp arena = *dispatched.getOps<rt::ArenaOp>().begin();
  proposal.height = arena.getHeight();
  proposal.hostHeight = arena.getHostHeight();
  for (rt::ProgramOp program : dispatched.getOps<rt::ProgramOp>())
    if (program.getKind() == ProgramKind::Train) {
      proposal.seconds = programSeconds(program, machine);
      LiveCurve curve = followProgram(program);
      proposal.peak = curve.peak;
      if (liveCurve)
        *liveCurve = std::move(curve);
    }
  return Status();
}

/// Sends to the host what does not fit. Offsets may leave gaps in the arena;
/// then a little more has to go.
Status MemoryPlanner::chooseOffload(ModuleOp dispatched, Proposal &proposal) {
  OwningOpRef<ModuleOp> trial = cast<ModuleOp>(dispatched->clone());
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  passes.addPass(createPlaceCopies());
  bool placed = succeeded(passes.run(*trial));
  auto model = OffloadModel::build(*trial, request.maxThreads, machine);
  if (!placed || failed(model))
    return Status::error("internal error: a plan could not be laid out");
  int64_t hostStates = 0;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getHost())
      hostStates += llvm::alignTo(bytesOf(state.getType()), 64);
  OffloadProblem &problem = model->problem;
  problem.hostCapacity = request.hostBudget - hostStates;
  int64_t gaps = 0;
  for (int round = 0; round < kOffloadRounds; ++round) {
    problem.capacity = target - model->stateBytes - gaps;
    OffloadSolution solution = planOffload(problem);
    // Estimates are good to a few per cent.
    if (solution.fits() && solution.seconds > kHopeless * fastest) {
      proposal.height = std::numeric_limits<int64_t>::max();
      break;
    }
    proposal.offload = model->choicesOf(solution);
    OwningOpRef<ModuleOp> marked = cast<ModuleOp>(dispatched->clone());
    markNumbered(*marked, proposal.offload);
    if (Status status = schedule(*marked, proposal); !status.ok())
      return status;
    if (!solution.fits() || proposal.height <= target)
      break;
    gaps += proposal.height - target;
  }
  if (fits(proposal))
    fastest = std::min(fastest, proposal.seconds);
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
  ladder.plans = std::make_unique<ChainLadder>(ladder.menus.chain, all.peak);
  ladder.highest = all.peak;
  ladder.lowest = std::min(all.peak, ladder.plans->floor().bytes);
  if (ops <= kSmallOps && (ops > kTinyOps || request.offloadActivations))
    ladder.rungCount = kRungs / 2;
  return Status();
}

Status MemoryPlanner::propose(const Ladder &ladder, int64_t chainBytes,
                              Proposal &proposal) {
  auto plan = ladder.plans->plan(chainBytes);
  if (!plan)
    return Status::error("internal error: the chain has no schedule within " +
                         formatBytes(chainBytes));
  proposal.cut = ladder.cut;
  proposal.schedule = ladder.menus.scheduleOf(plan->ops);
  proposal.bound =
      plain.seconds + std::max(0.0, plan->bound - ladder.keepAllSeconds);
  // Neighbouring budgets often have the same schedule.
  for (auto &[index, rung] : ladder.rungs)
    if (&rung != &proposal && rung.schedule == proposal.schedule) {
      double bound = proposal.bound;
      proposal = rung;
      proposal.bound = bound;
      return Status();
    }
  return measure(proposal);
}

Result<const Proposal *> MemoryPlanner::rung(Ladder &ladder, int64_t index) {
  auto [it, isNew] = ladder.rungs.insert({index, {}});
  if (!isNew)
    return &it->second;
  Status status = propose(ladder, ladder.budget(index), it->second);
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
  // Once more, with every byte; a plan that turns out too high tells how much
  // less to ask for.
  int64_t asked = ladder.highest + 1;
  for (int round = 0; low >= 0 && round < 3; ++round) {
    int64_t ask =
        std::clamp(request.budget - extra, ladder.budget(low), ladder.highest);
    if (ask >= asked)
      break;
    asked = ask;
    Proposal &careful = others.emplace_back();
    if (Status status = propose(ladder, ask, careful); !status.ok())
      return status;
    extra = careful.height - ask;
    if (careful.height <= request.budget)
      break;
  }
  return Status();
}

/// Every rung of a large program fits with enough offloaded: the higher, the
/// more. The time has one valley, but for ripples, between repeating too much
/// and copying too much.
Status MemoryPlanner::searchOffloaded(Ladder &ladder) {
  int64_t best = 0;
  double bestSeconds = std::numeric_limits<double>::infinity();
  auto look = [&](int64_t index) -> Status {
    index = std::clamp<int64_t>(index, 0, ladder.rungCount);
    auto proposal = rung(ladder, index);
    if (!proposal.ok())
      return proposal.status();
    if (fits(**proposal) && (*proposal)->seconds < bestSeconds) {
      bestSeconds = (*proposal)->seconds;
      best = index;
    }
    return Status();
  };
  double enough = kGoodEnough * boundOf(ladder);
  int64_t step = ladder.rungCount / 4;
  for (int64_t index = ladder.rungCount; index >= 0; index -= step) {
    if (Status status = look(index); !status.ok())
      return status;
    if (bestSeconds <= enough)
      return Status();
  }
  while ((step /= 2) > 0) {
    int64_t center = best;
    for (int64_t index : {center - step, center + step})
      if (Status status = look(index); !status.ok())
        return status;
  }
  return Status();
}

void MemoryPlanner::forEachProposal(
    llvm::function_ref<void(const Proposal &)> visit) {
  if (request.policy.empty())
    visit(plain);
  for (Ladder &ladder : ladders)
    for (auto &[index, proposal] : ladder.rungs)
      visit(proposal);
  llvm::for_each(others, visit);
}

/// Seconds that no schedule of the ladder's chain can beat. With offloading:
/// whatever most bytes Y a plan has on the host at once went there before that
/// moment and come back behind it, which keeps the link busy for as long; and
/// the plan repeats no less than one that has Y bytes more memory. The one
/// bound rises with Y and the other falls.
double MemoryPlanner::boundOf(const Ladder &ladder) {
  auto repeating = [&](double more) {
    double chain = relaxedTimeBound(
        ladder.menus.chain, request.budget - plain.height + ladder.highest +
                                static_cast<int64_t>(more));
    return plain.seconds + std::max(0.0, chain - ladder.keepAllSeconds);
  };
  if (!request.offloadActivations)
    return repeating(0);
  auto copying = [&](double bytes) {
    return machine.linkSeconds(bytes, LinkDirection::ToHost) +
           machine.linkSeconds(bytes, LinkDirection::ToDevice);
  };
  double low = 0, high = std::max<double>(0, plain.height - request.budget);
  for (int step = 0; step < kBisections; ++step) {
    double middle = (low + high) / 2;
    (repeating(middle) >= copying(middle) ? low : high) = middle;
  }
  return std::max(repeating(high), low > 0 ? copying(low) : 0.0);
}

/// Copies of parameters on the host can begin earlier or later. The best of a
/// few distances is taken; it hardly depends on what else was chosen.
Status MemoryPlanner::tuneLeads(const Proposal *&best) {
  if (llvm::none_of(module.getOps<StateOp>(), [](StateOp state) {
        return state.getHost() && state.isTrainable();
      }))
    return Status();
  for (int64_t lead : kLeads) {
    Proposal &trial = others.emplace_back(*best);
    trial.lead = lead;
    if (Status status = measure(trial); !status.ok())
      return status;
    if (fits(trial) && trial.seconds < best->seconds)
      best = &trial;
  }
  return Status();
}

/// The fastest proposal that fits, or nothing if none does.
Status MemoryPlanner::choose(const Proposal *&best) {
  best = nullptr;
  if (fits(plain)) {
    best = &plain;
    return Status();
  }
  auto findBest = [&] {
    forEachProposal([&](const Proposal &proposal) {
      if (fits(proposal) && (!best || proposal.seconds < best->seconds))
        best = &proposal;
    });
  };
  for (Ladder &ladder : ladders) {
    if (ops > kSmallOps) {
      // Another cut is worth its time only if it can win something.
      if (best && best->seconds <= kGoodEnough * boundOf(ladder))
        continue;
      Status status =
          request.offloadActivations ? searchOffloaded(ladder) : climb(ladder);
      if (!status.ok())
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

/// Offloads whatever the lowest rungs keep.
Status MemoryPlanner::measureLeast() {
  target = 0;
  mayOffload = true;
  for (Ladder &ladder : ladders)
    if (Proposal &proposal = ladder.rungs[0]; !proposal.schedule.empty())
      if (Status status = measure(proposal); !status.ok())
        return status;
  return Status();
}

Status MemoryPlanner::refuse() {
  // As little as can be with everything on the host that may go there.
  if (request.offloadActivations)
    if (Status status = measureLeast(); !status.ok())
      return status;
  int64_t least = std::numeric_limits<int64_t>::max();
  std::string peak;
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
  // What others of the allowed means would reach.
  if (!request.offloadActivations && request.policy.empty()) {
    if (Status status = measureLeast(); !status.ok())
      return status;
    int64_t offloaded = least;
    for (const Ladder &ladder : ladders)
      offloaded = std::min(offloaded, ladder.rungs.at(0).height);
    if (offloaded < least)
      hint += ", or allow --offload=activations, which reaches " +
              formatBytes(offloaded) + " (" + std::to_string(offloaded) +
              " bytes)";
  }
  return Status(ExitCode::OverBudget,
                "the plan does not fit: --memory-budget is " +
                    formatBytes(request.budget) + " (" +
                    std::to_string(request.budget) +
                    " bytes) and the smallest feasible budget" + policy +
                    " is " + formatBytes(least) + " (" + std::to_string(least) +
                    " bytes), set by '" + peak + "'; " + hint);
}

void MemoryPlanner::apply(const Proposal &proposal) {
  Builder b(module.getContext());
  StageChain stages(trainProgram(module), proposal.cut);
  PlanChoices choices(trainProgram(module), stages, proposal.schedule,
                      proposal.offload, machine);
  // Marked before ops of the forward pass get repetitions behind it.
  markForwardOps(trainProgram(module), proposal.offload);
  applyRecompute(stages, proposal.schedule);
  markLeads(module, proposal);
  trainProgram(module).walk([](RecomputeOp repeated) {
    repeated.walk([](Operation *op) { op->removeAttr(kOffloadAttr); });
  });
  choices.priceRepeats(trainProgram(module), machine);
  auto number = [&](StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  };
  auto real = [&](StringRef name, double value) {
    return b.getNamedAttr(name, b.getF64FloatAttr(value));
  };
  double bound = proposal.bound;
  if (request.offloadActivations && !fits(plain))
    for (const Ladder &ladder : ladders)
      bound = std::min(&ladder == &ladders.front()
                           ? std::numeric_limits<double>::infinity()
                           : bound,
                       boundOf(ladder));
  SmallVector<NamedAttribute> plan = {
      number("predicted_peak_bytes", proposal.height),
      number("predicted_host_bytes", proposal.hostHeight),
      real("predicted_step_ms", 1e3 * proposal.seconds),
      real("lower_bound_ms", 1e3 * std::min(bound, proposal.seconds)),
      real("unplanned_step_ms", 1e3 * plain.seconds),
      number("unplanned_peak_bytes", plain.height),
      b.getNamedAttr("choices", choices.attribute(module.getContext()))};
  if (request.budget != kNoBudget)
    plan.push_back(number("budget", request.budget));
  if (request.hostBudget != kNoBudget)
    plan.push_back(number("host_budget", request.hostBudget));
  module->setAttr("kiln.plan", b.getDictionaryAttr(plan));

  PlanFacts facts;
  facts.height = proposal.height;
  facts.hostHeight = proposal.hostHeight;
  facts.seconds = proposal.seconds;
  facts.bound = std::min(bound, proposal.seconds);
  facts.unplannedHeight = plain.height;
  facts.unplannedSeconds = plain.seconds;
  forEachProposal([&](const Proposal &other) {
    auto &fastest = other.offload.empty() ? facts.repeatingSeconds
                                          : facts.offloadingSeconds;
    if (fits(other) && (!fastest || other.seconds < *fastest))
      fastest = other.seconds;
  });
  remarkPlan(trainProgram(module), choices.stages(), facts, request, machine);
}

Status MemoryPlanner::run() {
  StageChain stages(trainProgram(module));
  plain.schedule = *namedSchedule("none", stages);
  LiveCurve curve;
  if (Status status = measure(plain, /*keepsAll=*/true, &curve); !status.ok())
    return status;
  plain.bound = plain.seconds;

  const Proposal *best = nullptr;
  if (!request.policy.empty()) {
    Proposal &byHand = others.emplace_back();
    byHand.schedule = *namedSchedule(request.policy, stages);
    byHand.bound = plain.seconds;
    if (Status status = measure(byHand); !status.ok())
      return status;
    if (fits(byHand))
      best = &byHand;
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
  if (Status status = tuneLeads(best); !status.ok())
    return status;
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
