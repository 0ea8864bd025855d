//===- Compile.cpp - From a model to an executable --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Compile.h"

#include "Compilation.h"
#include "MemoryPlanner.h"

#include "kiln/Dialect/Kiln/Transforms/Lossy.h"
#include "kiln/Import/HuggingFace.h"

#include <list>
#include <memory>

using namespace mlir;
using namespace kiln;

/// A device with a memory of its own has something to win by offloading.
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

/// Compiles with whatever makes the fastest step: the number of micro-batches
/// and what states lie on the host, where these are free.
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
  std::list<CompileOptions> trials; ///< compilations refer to them
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
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= *request.batch; ++count)
    if (*request.batch % count == 0)
      counts.push_back(count);
  return counts;
}

/// Activations first: states on the host cost a copy of every gradient.
std::vector<std::string> FastestCompilation::offloads() const {
  bool free = request.memoryBudget &&
              (request.offload == "auto" ||
               (request.offload.empty() && hasDeviceMemory(request)));
  if (!free)
    return {request.offload};
  return {"activations", "activations,optimizer",
          "activations,optimizer,parameters"};
}

/// With a budget, exact plans first: a lossy one has to be faster, or the only
/// one that fits. Without a budget what is named is done.
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
  // A forward graph depends on the number of micro-batches alone.
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
  // Without a budget any plan will do, but all have to be priced, whatever is
  // written.
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
  // Fewer micro-batches, less on the host and exact gradients win a tie.
  if (!best || trial.seconds < chosen.seconds) {
    best = std::move(compilation);
    chosen = trial;
  }
  return Status();
}

/// Compiles once more with what was chosen: the trial has gone beyond the stage
/// that is to be written.
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
  if (std::string error; !LossySpec::parse(request.lossy, error))
    return Status(ExitCode::Usage, "--lossy: " + error);
  std::vector<PlanTrial> allowed = candidates();
  bool compares = allowed.size() > 1;
  bool mayGain = true; // from states on the host, for this count
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
