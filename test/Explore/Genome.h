//===- Genome.h - A legal plan as data that can be varied -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A genome is a plan of the explorer. For each stage of the forward pass, it
// contains whether the forward pass saves residuals, and which residuals. For
// each parameter, it contains where the parameter, its optimizer states and its
// gradient are stored. Every genome describes a legal plan. The explorer draws
// genomes at random, varies them, and does not use the planner.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_EXPLORE_GENOME_H
#define KILN_TEST_EXPLORE_GENOME_H

#include "kiln/Dialect/Kiln/Transforms/Recompute.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"

#include <random>
#include <vector>

namespace kiln::explore {

using Random = std::mt19937_64;

struct StageGene {
  /// True if the first forward pass of the stage saves residuals.
  bool saves = true;
  /// True if a forward pass of the stage that saves no residuals keeps the
  /// input of the stage.
  bool isCheckpoint = false;
  /// Bit i is set if the first pass (`saved`) or a repeated pass (`savedAgain`)
  /// keeps residual i of the stage.
  uint64_t saved = ~uint64_t(0), savedAgain = ~uint64_t(0);
  /// True if this stage saves its residuals when its forward pass is repeated
  /// to recompute the input of a later stage.
  bool savesAgain = true;
};

enum class Update : uint8_t { Device, Swapped, Host };

struct StateGene {
  Update update = Update::Device;
  bool parameterOnHost = false, gradientAway = false;
  /// A lead is the number of commands between the start of a copy to the device
  /// and the first command that reads the copy. There is one lead each for the
  /// parameter, its moments and its gradient. `lag` is the number of commands
  /// that may run before the copy of the gradient to the host must be complete.
  int32_t lead = 0, momentLead = 0, gradientLead = 0, lag = 0;
};

struct Genome {
  StageCut cut = StageCut::Everywhere;
  std::vector<StageGene> stages;
  std::vector<StateGene> states; ///< One per update.

  RecomputeSchedule schedule() const;
};

/// What can differ between the genomes (plans) of one program.
struct Freedom {
  bool states = false;
  /// The number of residuals of each stage, indexed by StageCut.
  std::vector<size_t> residuals[2];
  size_t updates = 0;
};

Genome drawGenome(const Freedom &freedom, Random &random);
/// Returns a copy of the genome with a few changes.
Genome vary(Genome genome, const Freedom &freedom, Random &random);

} // namespace kiln::explore

#endif // KILN_TEST_EXPLORE_GENOME_H
