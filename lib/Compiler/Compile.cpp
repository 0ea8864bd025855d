//===- Compile.cpp - Compile a model into an executable ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Compile.h"

#include "Compilation.h"
#include "MemoryPlanner.h"

#include "kiln/Abi/SegmentOrder.h"
#include "kiln/Dialect/Kiln/Transforms/Lossy.h"
#include "kiln/Import/HuggingFace.h"

#include <list>
#include <memory>

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// Returns true if the device has its own memory, so that offloading can help.
static bool hasDeviceMemory(const CompileOptions &options) {
  return options.simulatedLink > 0 ||
         (options.machine && options.machine->kind == MachineKind::Gpu);
}

static Status checkReport(const CompileOptions &options) {
  StringRef report = options.report;
  if (report.empty())
    return Status();
  auto usage = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  if (!report.ends_with(".html") && !report.ends_with(".json"))
    return usage("--report is '" + options.report +
                 "', expected a name that ends in .html, .json or "
                 ".snapshot.json");
  if (options.stage < EmitStage::Plan)
    return usage("--report needs a plan: leave --emit out, or use --emit=plan");
  if (report == options.output)
    return usage("--report and -o both name '" + options.report +
                 "': give them different names");
  return Status();
}

static Status checkRemarks(const CompileOptions &options) {
  if (options.remarks.empty())
    return Status();
  auto usage = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  if (options.stage < EmitStage::Planned)
    return usage("--remarks needs a plan: leave --emit out, or use "
                 "--emit=planned or a later stage");
  for (auto &[flag, path] : {std::pair("-o", &options.output),
                             std::pair("--report", &options.report)})
    if (options.remarks == *path)
      return usage("--remarks and " + std::string(flag) + " both name '" +
                   *path + "': give them different names");
  return Status();
}

namespace {

/// Selects the compilation with the fastest step among the numbers of
/// micro-batches, the offload lists and the lossy techniques that the options
/// allow.
class FastestCompilation {
public:
  explicit FastestCompilation(const CompileOptions &request)
      : request(request) {}
  Status run();

private:
  std::vector<int64_t> counts() const;
  std::vector<std::string> offloads() const;
  std::vector<std::string> lossies() const;
  std::vector<PlanTrial> candidates() const;
  Status tryPlan(PlanTrial trial, bool compares);
  Status compileChosen();

  const CompileOptions &request;
  /// Options of each compilation. A compilation keeps a reference to its
  /// options, so the elements must not move.
  std::list<CompileOptions> trials;
  std::unique_ptr<Compilation> best;
  std::vector<PlanTrial> tried;
  PlanTrial chosen;
  Status refusal;
  int64_t least = std::numeric_limits<int64_t>::max();
};

} // namespace

std::vector<int64_t> FastestCompilation::counts() const {
  if (!request.autoMicrobatches)
    return {request.microbatches};
  SegmentOrder order = *SegmentOrder::parse(request.order);
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= *request.batch; ++count)
    if (*request.batch % count == 0 && order.check(count).ok())
      counts.push_back(count);
  return counts;
}

/// Returns the offload lists to try. The list that offloads only activations
/// comes first, because offloading states also requires a copy of every
/// gradient.
std::vector<std::string> FastestCompilation::offloads() const {
  bool free = request.memoryBudget &&
              (request.offload == "auto" ||
               (request.offload.empty() && hasDeviceMemory(request)));
  if (!free)
    return {request.offload};
  return {"activations", "activations,optimizer",
          "activations,optimizer,parameters"};
}

/// With a budget, trials without a lossy technique come first: a lossy plan is
/// chosen only if it is faster than every exact plan or if no exact plan fits.
/// Without a budget, the requested technique is always applied.
std::vector<std::string> FastestCompilation::lossies() const {
  if (request.memoryBudget && !request.lossy.empty())
    return {"", request.lossy};
  return {request.lossy};
}

std::vector<PlanTrial> FastestCompilation::candidates() const {
  std::vector<PlanTrial> candidates;
  for (const std::string &lossy : lossies())
    for (int64_t count : counts())
      for (const std::string &offload : offloads()) {
        PlanTrial &trial = candidates.emplace_back();
        trial.microbatches = count;
        trial.offload = offload;
        trial.lossy = lossy;
      }
  // Of the options in which candidates differ, only the number of micro-batches
  // affects the forward graph. To write the forward graph for a given number,
  // one candidate is sufficient.
  if (request.stage == EmitStage::Forward && !request.printsPipeline &&
      !request.autoMicrobatches)
    candidates.resize(1);
  return candidates;
}

Status FastestCompilation::tryPlan(PlanTrial trial, bool compares) {
  CompileOptions &options = trials.emplace_back(request);
  options.microbatches = trial.microbatches;
  options.offload = trial.offload;
  options.lossy = trial.lossy;
  // Comparing plans requires their predicted times. Run the planner even if
  // there is no budget or the output stage precedes planning.
  if (compares && !options.memoryBudget)
    options.memoryBudget = kNoBudget;
  if (compares)
    options.stage = std::max(options.stage, EmitStage::Planned);
  else if (options.printsPipeline)
    options.stage = EmitStage::Forward;
  auto compilation = std::make_unique<Compilation>(options);
  Status status = compilation->plan();
  if (!status.ok()) {
    if (status.code() != ExitCode::OverBudget)
      return status;
    trial.leastBudget = compilation->smallestBudget();
    if (*trial.leastBudget < least) {
      least = *trial.leastBudget;
      refusal = status;
    }
    tried.push_back(trial);
    return Status();
  }
  if (compares)
    trial.seconds = compilation->predictedSeconds();
  tried.push_back(trial);
  // On a tie, fewer micro-batches, less offloading and exact gradients win.
  if (!best || trial.seconds < chosen.seconds) {
    best = std::move(compilation);
    chosen = trial;
  }
  return Status();
}

/// Compiles again with the chosen options, because the compilation of the trial
/// has already run past the output stage.
Status FastestCompilation::compileChosen() {
  CompileOptions &options = trials.emplace_back(request);
  options.microbatches = chosen.microbatches;
  options.offload = chosen.offload;
  options.lossy = chosen.lossy;
  best = std::make_unique<Compilation>(options);
  return best->plan();
}

Status FastestCompilation::run() {
  if (request.hostBudget && !request.memoryBudget)
    return Status(ExitCode::Usage,
                  "--host-memory-budget needs --memory-budget=SIZE: without "
                  "one nothing is planned");
  if (request.autoMicrobatches &&
      (!request.batch || !isModelDirectory(request.model)))
    return Status(ExitCode::Usage,
                  "--microbatches=auto needs --batch=N and a model directory: "
                  "the shapes in a .mlir file are those of one micro-batch");
  auto order = SegmentOrder::parse(request.order);
  if (!order.ok())
    return Status(ExitCode::Usage, "--order: " + order.status().message());
  if (request.autoMicrobatches && order->kind() == SegmentOrder::Kind::Listed)
    return Status(ExitCode::Usage,
                  "--order lists the segments of a fixed number of "
                  "micro-batches, which --microbatches=auto does not give");
  if (std::string error; !LossySpec::parse(request.lossy, error))
    return Status(ExitCode::Usage, "--lossy: " + error);
  std::vector<PlanTrial> allowed = candidates();
  // Every number of micro-batches may be smaller than the order requires.
  if (allowed.empty())
    return Status(ExitCode::Usage,
                  "--order: " + order->check(*request.batch).message());
  bool compares = allowed.size() > 1;
  // True if offloading states can help for this number of micro-batches.
  bool mayGain = true;
  for (PlanTrial &trial : allowed) {
    bool isFirst = trial.offload == allowed.front().offload;
    if (!isFirst && !mayGain) {
      trial.skipped = true;
      tried.push_back(trial);
      continue;
    }
    if (Status status = tryPlan(trial, compares); !status.ok())
      return status;
    mayGain = !best || !compares || best->mayGainFromStates();
  }
  if (!best)
    return refusal;
  if (request.printsPipeline)
    return best->printPipeline();
  if (compares && request.stage < EmitStage::Planned)
    if (Status status = compileChosen(); !status.ok())
      return status;
  return best->finish(tried, chosen);
}

ExitCode kiln::compile(const CompileOptions &request) {
  Status status = checkReport(request);
  if (status.ok())
    status = checkRemarks(request);
  if (status.ok())
    status = FastestCompilation(request).run();
  if (!status.ok())
    llvm::errs() << "kilnc: " << status.message() << "\n";
  return status.code();
}
