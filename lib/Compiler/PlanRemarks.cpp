//===- PlanRemarks.cpp - Remarks of the memory planner ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanRemarks.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Remarks/RemarkSerializer.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using remark::RemarkOpts;
using remark::detail::InFlightRemark;
using Arg = remark::detail::Remark::Arg;

static constexpr llvm::StringLiteral kPass = "kiln-memory-planner";

namespace {

/// Appends remarks to a string. The string is written to a file at the end of
/// the compilation.
class RemarkText : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit RemarkText(std::string &text) : stream(text) {}

  LogicalResult initialize() {
    auto created = llvm::remarks::createRemarkSerializer(
        llvm::remarks::Format::YAML, stream);
    if (!created) {
      llvm::consumeError(created.takeError());
      return failure();
    }
    serializer = std::move(*created);
    return success();
  }

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    llvm::remarks::Remark written = remark.generateRemark();
    // Ops of imported models have no line numbers to print.
    if (!isa<FileLineColLoc>(remark.getLocation()))
      written.Loc = std::nullopt;
    serializer->emit(written);
  }

private:
  llvm::raw_string_ostream stream;
  std::unique_ptr<llvm::remarks::RemarkSerializer> serializer;
};

} // namespace

Status kiln::collectRemarks(MLIRContext &context, std::string &text) {
  auto streamer = std::make_unique<RemarkText>(text);
  remark::RemarkCategories categories;
  categories.passed = categories.missed = categories.analysis = kPass.str();
  if (failed(streamer->initialize()) ||
      failed(remark::enableOptimizationRemarks(
          context, std::move(streamer),
          std::make_unique<remark::RemarkEmittingPolicyAll>(), categories)))
    return Status::error("internal error: remarks cannot be collected");
  return Status();
}

static RemarkOpts named(StringRef name, StringRef program) {
  return RemarkOpts::name(name).category(kPass).function(program);
}

/// Returns the file location that `loc` contains, or `loc` if there is none.
static Location placeOf(Location loc) {
  if (auto place = loc->findInstanceOf<FileLineColLoc>())
    return place;
  return loc;
}

static Arg text(StringRef words) { return Arg("String", words); }

static Arg microseconds(StringRef key, double seconds) {
  return Arg(key, static_cast<int64_t>(std::llround(1e6 * seconds)));
}

static Arg list(StringRef key, const std::vector<std::string> &names) {
  return Arg(key, names.empty() ? "nothing" : llvm::join(names, ", "));
}

static void nameStage(InFlightRemark &remark, const StageChoice &stage) {
  if (!stage.layer.empty())
    remark << Arg("Layer", stage.layer) << text(", ");
  remark << text("stage ") << Arg("Stage", stage.stage) << text(": ");
}

/// Appends to `remark` the reason why the plan does not keep all tensors.
static void giveReason(InFlightRemark &remark, const PlanFacts &facts,
                       const PlanMemoryOptions &request) {
  remark << text("; keeping everything needs ")
         << Arg("UnplannedBytes", facts.unplannedHeight)
         << text(" bytes, the budget is ")
         << Arg("BudgetBytes", request.budget);
}

static void remarkStage(StringRef program, const StageChoice &stage,
                        const PlanFacts &facts,
                        const PlanMemoryOptions &request,
                        const Machine &machine) {
  Location loc = placeOf(stage.loc);
  if (stage.repeatsSome()) {
    InFlightRemark remark = remark::passed(loc, named("Recompute", program));
    nameStage(remark, stage);
    remark << text("recomputes ") << list("Repeats", stage.repeats);
    if (!stage.keepsInput)
      remark << text(" besides its input");
    remark << text(", keeps ") << list("Keeps", stage.keeps);
    if (stage.forwardRuns > 1)
      remark << text(", runs forward ") << Arg("ForwardRuns", stage.forwardRuns)
             << text(" times");
    remark << text(": saves ") << Arg("BytesSaved", stage.repeatedBytes)
           << text(" bytes for ")
           << microseconds("MicrosecondsAdded", stage.repeatedSeconds)
           << text(" us per step");
    if (choosesRecompute(request))
      giveReason(remark, facts, request);
    else
      remark << text("; requested by --recompute=")
             << Arg("Policy", request.policy);
  }
  if (!stage.offloads.empty()) {
    double copies = machine.linkSeconds(double(stage.offloadedBytes),
                                        LinkDirection::ToHost) +
                    machine.linkSeconds(double(stage.offloadedBytes),
                                        LinkDirection::ToDevice);
    InFlightRemark remark = remark::passed(loc, named("Offload", program));
    nameStage(remark, stage);
    remark << list("Offloads", stage.offloads)
           << text(" on the host until the backward pass: saves ")
           << Arg("BytesSaved", stage.offloadedBytes) << text(" bytes for ")
           << microseconds("LinkMicroseconds", copies)
           << text(" us of copies that overlap the step");
    giveReason(remark, facts, request);
  }
  if (!stage.repeatsSome() && stage.offloads.empty()) {
    InFlightRemark remark = remark::analysis(loc, named("Keep", program));
    nameStage(remark, stage);
    remark << text("keeps ") << list("Keeps", stage.keeps) << text(": ")
           << Arg("BytesKept", stage.keptBytes)
           << text(" bytes; recomputing the stage takes ")
           << microseconds("MicrosecondsToRepeat", stage.wholeSeconds)
           << text(" us per step");
  }
}

/// Emits a remark on why no activation is offloaded.
static void remarkNoOffload(Location loc, StringRef program,
                            const PlanFacts &facts,
                            const PlanMemoryOptions &request,
                            const Machine &machine) {
  InFlightRemark remark = remark::missed(loc, named("Offload", program));
  remark << text("activations stay on the device: ");
  if (!request.offloadActivations) {
    remark << text(
        "--offload does not include activations; its default is none "
        "if device and host share one memory");
  } else if (facts.unplannedHeight <= request.budget) {
    remark << text("everything fits");
  } else if (facts.offloadingSeconds) {
    remark << text("the fastest plan found that offloads some takes ")
           << microseconds("MicrosecondsMore",
                           *facts.offloadingSeconds - facts.seconds)
           << text(" us longer");
  } else {
    auto above = static_cast<double>(facts.unplannedHeight - request.budget);
    remark << text("no plan was found that offloads some and is as fast; "
                   "copying the bytes above the budget would take ")
           << microseconds(
                  "LinkMicroseconds",
                  machine.linkSeconds(above, LinkDirection::ToHost) +
                      machine.linkSeconds(above, LinkDirection::ToDevice))
           << text(" us of copies");
  }
}

/// Emits a remark on why nothing is recomputed.
static void remarkNoRecompute(Location loc, StringRef program,
                              const PlanFacts &facts,
                              const PlanMemoryOptions &request) {
  InFlightRemark remark = remark::missed(loc, named("Recompute", program));
  remark << text("nothing is recomputed: ");
  if (facts.unplannedHeight <= request.budget)
    remark << text("everything fits");
  else if (facts.repeatingSeconds)
    remark << text("the fastest plan found that offloads no activation takes ")
           << microseconds("MicrosecondsMore",
                           *facts.repeatingSeconds - facts.seconds)
           << text(" us longer");
  else
    remark << text("no plan was found that fits and offloads no "
                   "activation");
}

void kiln::remarkPlan(ProgramOp train, ArrayRef<StageChoice> stages,
                      const PlanFacts &facts, const PlanMemoryOptions &request,
                      const Machine &machine) {
  Location loc = placeOf(train.getLoc());
  StringRef program = getProgramName(train);
  {
    InFlightRemark remark = remark::analysis(loc, named("Plan", program));
    remark << text("arena of ") << Arg("ArenaBytes", facts.height)
           << text(" bytes, ") << Arg("HostBytes", facts.hostHeight)
           << text(" on the host; a step takes ")
           << microseconds("Microseconds", facts.seconds)
           << text(" us, at least ")
           << microseconds("BoundMicroseconds", facts.bound)
           << text(" us; keeping everything needs ")
           << Arg("UnplannedBytes", facts.unplannedHeight)
           << text(" bytes and takes ")
           << microseconds("UnplannedMicroseconds", facts.unplannedSeconds)
           << text(" us");
    if (request.budget != kNoBudget)
      remark << text("; the budget is ") << Arg("BudgetBytes", request.budget)
             << text(" bytes");
  }
  if (facts.keptStates > 0)
    remark::passed(loc, named("KeepOnDevice", program))
        << Arg("States", facts.keptStates)
        << text(" states that are stored on the host are copied to the device "
                "once per step: ")
        << Arg("DeviceBytes", facts.keptBytes) << text(" bytes");
  for (const StageChoice &stage : stages)
    remarkStage(program, stage, facts, request, machine);
  if (llvm::none_of(stages, [](const StageChoice &stage) {
        return !stage.offloads.empty();
      }))
    remarkNoOffload(loc, program, facts, request, machine);
  if (choosesRecompute(request) &&
      llvm::none_of(
          stages, [](const StageChoice &stage) { return stage.repeatsSome(); }))
    remarkNoRecompute(loc, program, facts, request);
}

void kiln::remarkStates(ModuleOp module) {
  llvm::MapVector<Role, std::pair<int64_t, int64_t>> roles;
  bool hasMirrors = false;
  for (StateOp state : module.getOps<StateOp>()) {
    hasMirrors |= state.getRole() == Role::Mirror;
    if (memoryOf(state.getType()) == MemorySpace::Host) {
      auto &[count, bytes] = roles[state.getRole()];
      ++count;
      bytes += bytesOf(state.getTensorType());
    }
  }
  for (auto &[role, sums] : roles) {
    InFlightRemark remark =
        remark::passed(placeOf(module.getLoc()), named("StateOnHost", "train"));
    remark << Arg("States", sums.first) << text(" states of role ")
           << Arg("Role", stringifyRole(role))
           << text(" are stored on the host: ") << Arg("HostBytes", sums.second)
           << text(" bytes");
    if (role == Role::Parameter && hasMirrors)
      remark << text("; the device reads copies of them");
  }
}

void kiln::remarkEncodings(ModuleOp module) {
  auto list = module->getAttrOfType<ArrayAttr>(kEncodedAttr);
  if (!list)
    return;
  for (auto encoded : list.getAsRange<EncodedAttr>()) {
    InFlightRemark remark =
        remark::passed(placeOf(module.getLoc()), named("Encode", "train"));
    remark << Arg("Value", encoded.getValue().getValue())
           << text(" is kept as ")
           << Arg("Encoding", encoded.getAs().getValue()) << text(", ")
           << Arg("EncodedBytes", encoded.getEncodedBytes())
           << text(" bytes: saves ")
           << Arg("BytesSaved", encoded.getBytes() - encoded.getEncodedBytes())
           << text(encoded.getLossy() ? " bytes, gradients are estimates"
                                      : " bytes, exactly");
  }
}

static void nameCount(InFlightRemark &remark, int64_t microbatches) {
  remark << Arg("Microbatches", microbatches)
         << text(microbatches == 1 ? " micro-batch" : " micro-batches");
}

/// Reports the result of a trial that was not chosen.
static void compare(InFlightRemark &remark, const PlanTrial &trial,
                    const PlanTrial &chosen) {
  if (trial.isSlower)
    remark << text("no plan that fits is faster");
  else if (trial.skipped && trial.bound)
    remark << text("not tried, since a step takes at least ")
           << microseconds("BoundMicroseconds", *trial.bound)
           << text(" us according to an estimate");
  else if (trial.skipped)
    remark << text("not tried, since a step takes about as long as without a "
                   "budget, or less than the copies of the states");
  else if (trial.leastBudget)
    remark << text("does not fit; the smallest feasible budget is ")
           << Arg("LeastBudgetBytes", *trial.leastBudget) << text(" bytes");
  else
    remark << text("a step takes ")
           << microseconds("Microseconds", trial.seconds) << text(" us, ")
           << microseconds("MicrosecondsMore", trial.seconds - chosen.seconds)
           << text(" us longer");
}

/// Emits a remark on the chosen number of micro-batches if several were tried.
static void remarkCount(Location loc, ArrayRef<PlanTrial> trials,
                        const PlanTrial &chosen) {
  std::vector<std::string> counts;
  for (const PlanTrial &trial : trials)
    if (std::string count = std::to_string(trial.microbatches);
        !llvm::is_contained(counts, count))
      counts.push_back(count);
  if (counts.size() < 2)
    return;
  InFlightRemark remark = remark::passed(loc, named("Microbatches", "train"));
  nameCount(remark, chosen.microbatches);
  remark << text(", the fastest of ") << list("Candidates", counts)
         << text(": a step takes ")
         << microseconds("Microseconds", chosen.seconds) << text(" us");
}

/// Emits a remark on the chosen bucket size if several were tried.
static void remarkBuckets(Location loc, ArrayRef<PlanTrial> trials,
                          const PlanTrial &chosen) {
  std::vector<std::string> sizes;
  for (const PlanTrial &trial : trials)
    if (std::string size = std::to_string(trial.bucketBytes);
        !llvm::is_contained(sizes, size))
      sizes.push_back(size);
  if (sizes.size() < 2)
    return;
  remark::passed(loc, named("BucketSize", "train"))
      << text("buckets of ") << Arg("BucketBytes", chosen.bucketBytes)
      << text(" bytes, the fastest of ") << list("Candidates", sizes)
      << text(": a step takes ") << microseconds("Microseconds", chosen.seconds)
      << text(" us");
}

/// Emits a remark on why a lossy plan was chosen although exact plans were
/// tried.
static void remarkLossy(Location loc, ArrayRef<PlanTrial> trials,
                        const PlanTrial &chosen) {
  const PlanTrial *exact = nullptr;
  bool triedExact = false;
  for (const PlanTrial &trial : trials)
    if (trial.lossy.empty()) {
      triedExact = true;
      if (!trial.leastBudget && !trial.skipped && !trial.isSlower &&
          (!exact || trial.seconds < exact->seconds))
        exact = &trial;
    }
  if (chosen.lossy.empty() || !triedExact)
    return;
  InFlightRemark remark = remark::passed(loc, named("Lossy", "train"));
  remark << text("--lossy=") << Arg("Lossy", chosen.lossy)
         << text(" is used: ");
  if (!exact)
    remark << text("no exact plan fits");
  else
    remark << text("the fastest exact plan takes ")
           << microseconds("MicrosecondsMore", exact->seconds - chosen.seconds)
           << text(" us longer");
}

/// Returns the remark name for the first option in which a trial differs from
/// the chosen trial, or "" if the trial is the chosen one.
static StringRef differenceOf(const PlanTrial &trial, const PlanTrial &chosen) {
  if (trial.microbatches != chosen.microbatches)
    return "Microbatches";
  if (trial.bucketBytes != chosen.bucketBytes)
    return "BucketSize";
  if (trial.lossy != chosen.lossy)
    return "Lossy";
  return trial.offload != chosen.offload ? "StateOnHost" : "";
}

void kiln::remarkTrials(ModuleOp module, ArrayRef<PlanTrial> trials,
                        const PlanTrial &chosen) {
  Location loc = placeOf(module.getLoc());
  if (!module->hasAttr(kPlanAttr))
    remark::analysis(loc, named("Plan", "train"))
        << text("no budget was given: everything that the backward pass reads "
                "is kept on the device, unless --recompute or --offload say "
                "otherwise");
  remarkCount(loc, trials, chosen);
  remarkBuckets(loc, trials, chosen);
  remarkLossy(loc, trials, chosen);
  for (const PlanTrial &trial : trials) {
    StringRef difference = differenceOf(trial, chosen);
    if (difference.empty())
      continue;
    InFlightRemark remark = remark::missed(loc, named(difference, "train"));
    nameCount(remark, trial.microbatches);
    if (trial.bucketBytes != chosen.bucketBytes)
      remark << text(", --bucket-size=")
             << Arg("BucketBytes", trial.bucketBytes);
    if (!trial.offload.empty())
      remark << text(", --offload=") << Arg("Offload", trial.offload);
    if (!trial.lossy.empty())
      remark << text(", --lossy=") << Arg("Lossy", trial.lossy);
    else if (!chosen.lossy.empty())
      remark << text(", exact");
    remark << text(": ");
    compare(remark, trial, chosen);
  }
}
