//===- FastestCompilation.cpp - Choice between sets of options ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FastestCompilation.h"

#include "MemoryPlanner.h"

#include "kiln/Abi/SegmentOrder.h"
#include "kiln/Dialect/Kiln/Transforms/Lossy.h"
#include "kiln/Import/HuggingFace.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// Returns true if the device has its own memory, so that offloading can help.
static bool hasDeviceMemory(const CompileOptions &options) {
  return options.simulatedLink > 0 ||
         (options.machine && options.machine->kind == MachineKind::Gpu);
}

/// Checks --batch and --microbatches before anything divides by them.
Status FastestCompilation::checkBatch() const {
  auto usage = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  if (request.batch && *request.batch < 1)
    return usage("--batch is " + std::to_string(*request.batch) +
                 ", expected a positive number");
  int64_t count = request.microbatches;
  if (!request.autoMicrobatches &&
      (count < 1 || request.batch.value_or(count) % count))
    return usage("--microbatches is " + std::to_string(count) +
                 ", expected a positive number" +
                 (request.batch ? " that divides --batch=" +
                                      std::to_string(*request.batch)
                                : ""));
  return Status();
}

std::vector<int64_t> FastestCompilation::counts() const {
  if (!request.autoMicrobatches)
    return {request.microbatches};
  SegmentOrder order = *SegmentOrder::parse(request.order);
  std::vector<int64_t> counts;
  int64_t most = std::min(*request.batch, maxMicrobatches);
  for (int64_t count = 1; count <= most; ++count)
    if (*request.batch % count == 0 && order.check(count).ok())
      counts.push_back(count);
  return counts;
}

/// Returns the sizes of gradient buckets to try. Small buckets can be sent
/// earlier and need less memory; with large buckets, a step pays the latency of
/// the network less often.
std::vector<int64_t> FastestCompilation::bucketSizes() const {
  if (!request.autoBuckets)
    return {request.bucketBytes};
  constexpr int64_t bytes = support::defaultBucketBytes;
  return {bytes, bytes / 4, bytes * 4};
}

/// Returns the offload lists to try for a number of micro-batches. With one
/// micro-batch, the planner chooses freely. With several micro-batches, the
/// list that offloads only activations comes first, because offloading states
/// also requires a copy of every gradient.
std::vector<std::string> FastestCompilation::offloads(int64_t count) const {
  bool free = request.memoryBudget &&
              (request.offload == "auto" ||
               (request.offload.empty() && hasDeviceMemory(request)));
  if (!free)
    return {request.offload};
  if (count == 1)
    return {"auto"};
  return {"activations", "activations,optimizer",
          "activations,optimizer,parameters"};
}

/// Returns the lossy techniques to try. With a budget, trials without a lossy
/// technique come first: a lossy plan is chosen only if it is faster than every
/// exact plan or if no exact plan fits. Without a budget, the requested
/// technique is always applied.
std::vector<std::string> FastestCompilation::lossies() const {
  if (request.memoryBudget && !request.lossy.empty())
    return {"", request.lossy};
  return {request.lossy};
}

std::vector<FastestCompilation::Candidate>
FastestCompilation::candidates() const {
  std::vector<Candidate> candidates;
  for (const std::string &lossy : lossies())
    for (int64_t count : counts())
      for (int64_t bucketBytes : bucketSizes()) {
        std::vector<std::string> lists = offloads(count);
        for (const std::string &offload : lists) {
          Candidate &candidate = candidates.emplace_back();
          candidate.trial.number = static_cast<int64_t>(candidates.size());
          candidate.trial.microbatches = count;
          candidate.trial.bucketBytes = bucketBytes;
          candidate.trial.offload = offload;
          candidate.trial.lossy = lossy;
          candidate.isFirst = offload == lists.front();
        }
      }
  // Of the options in which candidates differ, only the number of micro-batches
  // affects the forward graph. To write the forward graph for a given number of
  // micro-batches, one candidate is sufficient.
  if (request.stage == EmitStage::Forward && !request.printsPipeline &&
      !request.autoMicrobatches)
    candidates.resize(1);
  return candidates;
}

CompileOptions FastestCompilation::optionsOf(const PlanTrial &trial,
                                             bool compares) const {
  CompileOptions options = request;
  options.microbatches = trial.microbatches;
  options.bucketBytes = trial.bucketBytes;
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
  return options;
}

/// Estimates the candidates if the model is large, and sorts them. Candidates
/// that probably fit the budget without recomputation come first; apart from
/// that, the candidates are in order of the lower bounds on their step times.
/// Candidates that differ only in their offload lists stay together and in
/// order, because the result of the first one may exclude the others.
void FastestCompilation::estimate(std::vector<Candidate> &candidates) const {
  std::vector<CompileOptions> options;
  for (const Candidate &candidate : candidates)
    options.push_back(optionsOf(candidate.trial, /*compares=*/true));
  std::vector<PlanEstimate> estimates = estimatePlans(options);
  if (estimates.empty())
    return;
  for (auto [candidate, estimate] : llvm::zip_equal(candidates, estimates))
    candidate.estimate = estimate;
  using Key = std::tuple<bool, double, int64_t>;
  std::map<std::tuple<std::string, int64_t, int64_t>, Key> groups;
  auto groupOf = [](const Candidate &candidate) {
    return std::tuple(candidate.trial.lossy, candidate.trial.microbatches,
                      candidate.trial.bucketBytes);
  };
  for (const Candidate &candidate : candidates) {
    Key key = {!candidate.estimate->probablyFits, candidate.estimate->bound,
               candidate.trial.number};
    auto [group, isNew] = groups.try_emplace(groupOf(candidate), key);
    group->second = std::min(group->second, key);
  }
  auto keyOf = [&](const Candidate &candidate) {
    return std::pair(groups.at(groupOf(candidate)), candidate.trial.number);
  };
  llvm::sort(candidates, [&](const Candidate &a, const Candidate &b) {
    return keyOf(a) < keyOf(b);
  });
}

/// Returns false if the estimate of a candidate shows that it is at best
/// slightly faster than the fastest plan so far.
bool FastestCompilation::mayBeFastest(const Candidate &candidate) const {
  return !best || !candidate.estimate ||
         kOptimalityTolerance * candidate.estimate->bound < chosen.seconds;
}

Status FastestCompilation::tryPlan(PlanTrial trial, bool compares) {
  const CompileOptions &options =
      trials.emplace_back(optionsOf(trial, compares));
  auto compilation = std::make_unique<Compilation>(options);
  if (best && compares)
    compilation->mustBeat(chosen.seconds);
  Status status = compilation->plan();
  if (!status.ok()) {
    if (status.code() != ExitCode::OverBudget)
      return status;
    if (compilation->isBeaten()) {
      trial.isSlower = true;
      tried.push_back(trial);
      return Status();
    }
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
  // On a tie, fewer micro-batches, the default bucket size, less offloading and
  // exact gradients win.
  if (!best || std::pair(trial.seconds, trial.number) <
                   std::pair(chosen.seconds, chosen.number)) {
    best = std::move(compilation);
    chosen = trial;
  }
  return Status();
}

/// Compiles again with the chosen options, up to the stage whose module is to
/// be written. The compilation of the trial has already run passes beyond this
/// stage.
Status FastestCompilation::compileChosen() {
  best = std::make_unique<Compilation>(
      trials.emplace_back(optionsOf(chosen, /*compares=*/false)));
  return best->plan();
}

Status FastestCompilation::run() {
  if (Status status = checkBatch(); !status.ok())
    return status;
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
  std::vector<Candidate> allowed = candidates();
  // There are no candidates if the order has more micro-batches in flight than
  // the batch can be divided into.
  if (allowed.empty())
    return Status(ExitCode::Usage,
                  "--order: " + order->check(*request.batch).message());
  bool compares = allowed.size() > 1;
  if (compares && isModelDirectory(request.model))
    estimate(allowed);
  // True if storing states on the host might make the step faster.
  bool mayGain = true;
  for (Candidate &candidate : allowed) {
    PlanTrial &trial = candidate.trial;
    bool isUseful = candidate.isFirst || mayGain;
    if (!isUseful || !mayBeFastest(candidate)) {
      trial.skipped = true;
      if (isUseful)
        trial.bound = candidate.estimate->bound;
      tried.push_back(trial);
      continue;
    }
    if (Status status = tryPlan(trial, compares); !status.ok())
      return status;
    mayGain = !best || !compares || best->mayGainFromStates();
  }
  // Report the trials in the order in which candidates() lists them. estimate()
  // may have changed this order.
  llvm::sort(tried, [](const PlanTrial &a, const PlanTrial &b) {
    return a.number < b.number;
  });
  if (!best)
    return refusal;
  if (request.printsPipeline)
    return best->printPipeline();
  if (compares && request.stage < EmitStage::Planned)
    if (Status status = compileChosen(); !status.ok())
      return status;
  return best->finish(tried, chosen);
}
