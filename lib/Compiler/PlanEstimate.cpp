//===- PlanEstimate.cpp - Estimates of the plans of large models ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanEstimate.h"

#include "Compilation.h"
#include "MemoryPlanner.h"

using namespace kiln;

/// The figures of a large model are extrapolated from those of two small models
/// with these numbers of layers. The difference between the two models is the
/// cost of additional layers, even if the first and the last layer differ from
/// the others.
static constexpr int64_t kFewLayers = 2, kMoreLayers = 4;
/// Models with at most this number of layers are not estimated.
static constexpr int64_t kMostLayersOfSmallModels = 4 * kMoreLayers;
/// Assumed maximum relative error of the extrapolated arena height.
static constexpr double kArenaError = 0.01;

/// Returns the value for a model with `layers` layers, assuming that the value
/// is linear in the number of layers. `few` and `more` are the values for the
/// two small models.
static double extrapolate(double few, double more, int64_t layers) {
  return more + (more - few) * double(layers - kMoreLayers) /
                    double(kMoreLayers - kFewLayers);
}

static Result<PlanEstimate> estimatePlan(CompileOptions options,
                                         int64_t layers) {
  // Only the training program determines the time of a step, so do not build
  // the evaluation program.
  options.evaluation = false;
  options.remarks.clear();
  options.stage = EmitStage::Planned;
  options.layers = kFewLayers;
  int64_t budget = options.memoryBudget;
  Result<PlanOutlook> few =
      Compilation(options).outlook([](int64_t height) { return height; });
  if (!few.ok())
    return few.status();
  PlanEstimate estimate;
  // Choose the budget of the small model such that the small model exceeds its
  // budget by the same number of bytes per layer as the whole model.
  auto chooseBudget = [&](int64_t height) {
    double whole = extrapolate(double(few->height), double(height), layers);
    estimate.probablyFits = (1 + kArenaError) * whole <= double(budget);
    double excess = (1 - kArenaError) * whole - double(budget);
    return height - static_cast<int64_t>(std::max(0.0, excess) *
                                         double(kMoreLayers) / double(layers));
  };
  options.layers = kMoreLayers;
  Result<PlanOutlook> more = Compilation(options).outlook(chooseBudget);
  if (!more.ok())
    return more.status();
  estimate.bound =
      extrapolate(few->seconds, more->seconds, layers) +
      (more->bound - more->seconds) * double(layers) / double(kMoreLayers);
  return estimate;
}

std::vector<PlanEstimate>
kiln::estimatePlans(llvm::ArrayRef<CompileOptions> options) {
  CompileOptions whole = options.front();
  Result<int64_t> layers = Compilation(whole).countLayers();
  if (!layers.ok() || *layers <= kMostLayersOfSmallModels)
    return {};
  std::vector<PlanEstimate> estimates;
  for (const CompileOptions &each : options) {
    Result<PlanEstimate> estimate = estimatePlan(each, *layers);
    if (!estimate.ok())
      return {};
    estimates.push_back(*estimate);
  }
  return estimates;
}
