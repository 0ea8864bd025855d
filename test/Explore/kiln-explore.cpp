//===- kiln-explore.cpp - Random exploration of legal plans ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Draws legal plans of a training program at random, and varies those that no
// other plan beats in both bytes and seconds. Every plan is applied and
// scheduled with the passes that kilnc uses, so its bytes are those of the
// arena. The explorer and the planner share the cost model (StepCost.h) and the
// passes that apply a plan, but no code that chooses a plan. With --budgets,
// each variation starts from a plan that fits one of the budgets; the budgets
// take turns.
//
//   kiln-explore FILE.mlir --machine=M --plans=N [--states] [--seed=S]
//                [--budgets=BYTES,BYTES,...]
//
// FILE is the output of `kilnc --emit=planned` without a budget. Prints the
// bytes on the device, the bytes on the host and the seconds of each plan, one
// plan per line.
//
//===----------------------------------------------------------------------===//

#include "Genome.h"
#include "Planning.h"
#include "StepCost.h"

#include "kiln/Compiler/Registration.h"
#include "kiln/Dialect/Kiln/Transforms/Offload.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::explore;

static llvm::cl::opt<std::string> inputFile(llvm::cl::Positional,
                                            llvm::cl::desc("FILE.mlir"),
                                            llvm::cl::Required);
static llvm::cl::opt<std::string>
    machineName("machine", llvm::cl::desc("as in kilnc --machine"),
                llvm::cl::Required);
static llvm::cl::opt<double>
    link("link", llvm::cl::desc("bytes per second of a simulated link"));
static llvm::cl::opt<unsigned> plans("plans", llvm::cl::desc("number of plans"),
                                     llvm::cl::init(1000));
static llvm::cl::list<int64_t>
    budgets("budgets", llvm::cl::CommaSeparated,
            llvm::cl::desc("bytes on the device to vary plans for"));
static llvm::cl::opt<unsigned> seed("seed", llvm::cl::init(1));
static llvm::cl::opt<bool>
    withStates("states", llvm::cl::desc("also store states on the host"));

namespace {

struct Figures {
  int64_t height, hostHeight;
  double seconds;
};

/// The plans that no other plan beats in both bytes and seconds, keyed by their
/// bytes.
using Front = std::map<int64_t, std::pair<double, Genome>>;

/// Returns a plan of `front` to vary. Without a budget, draws any of them. With
/// a budget, half of the draws return the fastest plan that fits it, and the
/// others any plan that fits it; if none fits, returns the smallest plan.
const Genome &choose(const Front &front, std::optional<int64_t> budget,
                     Random &random) {
  auto end = budget ? front.upper_bound(*budget) : front.end();
  if (end == front.begin())
    return front.begin()->second.second;
  auto count = std::distance(front.begin(), end);
  if (budget && std::bernoulli_distribution(0.5)(random))
    return std::prev(end)->second.second;
  return std::next(front.begin(), std::uniform_int_distribution<ptrdiff_t>(
                                      0, count - 1)(random))
      ->second.second;
}

class Explorer {
public:
  Explorer(ModuleOp module, const Machine &machine)
      : module(module), machine(machine) {
    // Only the first greedy order of buffers is tried in the arenas.
    auto greedy = DenseI64ArrayAttr::get(module.getContext(), {0, 0});
    for (ProgramOp program : module.getOps<ProgramOp>())
      program->setAttr(kArenaSearchAttr, greedy);
  }
  LogicalResult run();

private:
  void describe();
  Proposal proposalOf(const Genome &genome);
  FailureOr<Figures> measure(const Genome &genome);

  ModuleOp module;
  const Machine &machine;
  PipelineOptions pipeline;
  Freedom freedom;
  std::vector<StringAttr> parameters;
  std::vector<SmallVector<StringAttr, 2>> moments;
};

} // namespace

void Explorer::describe() {
  ProgramOp train = trainProgram(module);
  for (StageCut cut : {StageCut::Everywhere, StageCut::Layers})
    for (const ForwardStage &stage : StageChain(train, cut).stages())
      freedom.residuals[static_cast<int>(cut)].push_back(
          stage.residuals.size());
  for (StateUpdate &update : findUpdates(module, train)) {
    parameters.push_back(update.parameter.getSymNameAttr());
    SmallVector<StringAttr, 2> &names = moments.emplace_back();
    for (StateOp moment : update.moments)
      names.push_back(moment.getSymNameAttr());
  }
  freedom.updates = parameters.size();
  freedom.states = withStates;
}

Proposal Explorer::proposalOf(const Genome &genome) {
  Proposal proposal;
  proposal.cut = genome.cut;
  proposal.schedule = genome.schedule();
  StateMarks &marks = proposal.states.emplace();
  for (size_t i = 0; i < genome.states.size(); ++i) {
    const StateGene &gene = genome.states[i];
    bool onHost = gene.update == Update::Host;
    if (onHost || gene.parameterOnHost)
      marks.states.push_back({parameters[i],
                              !onHost                ? Residency::Host
                              : gene.parameterOnHost ? Residency::UpdatedOnHost
                                                     : Residency::Mirrored,
                              {gene.lead}});
    if (gene.update == Update::Swapped)
      for (StringAttr moment : moments[i])
        marks.states.push_back({moment, Residency::Host, {gene.momentLead}});
    if (gene.gradientAway)
      marks.gradients.push_back({parameters[i], gene.lag, gene.gradientLead});
  }
  return proposal;
}

FailureOr<Figures> Explorer::measure(const Genome &genome) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  Proposal proposal = proposalOf(genome);
  if (failed(moveStates(*copy, proposal)))
    return failure();
  StageChain stages(trainProgram(*copy), proposal.cut);
  applyRecompute(stages, proposal.schedule);
  hoistMaterializations(stages);
  PassManager passes(copy->getContext());
  buildPipeline(passes, pipeline, PipelinePoint::Planned,
                PipelinePoint::Scheduled);
  if (failed(passes.run(*copy)))
    return failure();
  rt::ArenaOp arena = *copy->getOps<rt::ArenaOp>().begin();
  for (rt::ProgramOp program : copy->getOps<rt::ProgramOp>())
    if (program.getKind() == ProgramKind::Train)
      return Figures{static_cast<int64_t>(arena.getHeight()),
                     static_cast<int64_t>(arena.getHostHeight()),
                     programSeconds(program, machine)};
  return failure();
}

LogicalResult Explorer::run() {
  describe();
  Random random(seed);
  Front front;
  for (unsigned plan = 0; plan < plans; ++plan) {
    Genome genome;
    if (plan < plans / 4 || front.empty()) {
      genome = drawGenome(freedom, random);
    } else {
      std::optional<int64_t> budget;
      if (!budgets.empty())
        budget = budgets[plan % budgets.size()];
      genome = vary(choose(front, budget, random), freedom, random);
    }
    FailureOr<Figures> figures = measure(genome);
    if (failed(figures))
      return failure();
    llvm::outs() << figures->height << " " << figures->hostHeight << " "
                 << llvm::formatv("{0:E9}\n", figures->seconds);
    auto above = front.upper_bound(figures->height);
    if (above != front.begin() &&
        std::prev(above)->second.first <= figures->seconds)
      continue;
    while (above != front.end() && above->second.first >= figures->seconds)
      above = front.erase(above);
    front[figures->height] = {figures->seconds, std::move(genome)};
  }
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::cl::ParseCommandLineOptions(argc, argv,
                                    "random exploration of legal plans\n");
  Result<Machine> machine = loadMachine(machineName);
  if (!machine.ok()) {
    llvm::errs() << "kiln-explore: " << machine.status().message() << "\n";
    return EXIT_FAILURE;
  }
  if (link > 0)
    machine->simulateLink(link);
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  auto module = parseSourceFile<ModuleOp>(inputFile, &context);
  if (!module || failed(Explorer(*module, *machine).run()))
    return EXIT_FAILURE;
  return EXIT_SUCCESS;
}
