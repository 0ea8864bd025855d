//===- Genome.h - A legal plan as data that can be varied -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan of the explorer: for each stage, whether its forward pass saves
// residuals, and which; for each parameter, where it, its optimizer states and
// its gradient are. Every genome describes a legal plan. The explorer draws
// genomes at random and varies them, and takes no advice from the planner.
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
  /// If `saves` is false: true if the first forward pass keeps the input of the
  /// stage.
  bool isCheckpoint = false;
  /// The residuals that are kept, as in StageRun::saved, by the first pass and
  /// by repeated passes.
  uint64_t saved = ~uint64_t(0), savedAgain = ~uint64_t(0);
  /// True if a repeated pass of the stage, which is needed for a later stage,
  /// saves residuals for the stage itself.
  bool savesAgain = true;
};

enum class Update : uint8_t { Device, Swapped, Host };

struct StateGene {
  Update update = Update::Device;
  bool parameterOnHost = false, gradientAway = false;
  /// Leads: the numbers of commands between the start of a copy to the device
  /// and its first reader. Lag: the number of commands after which the copy of
  /// the gradient to the host must be complete.
  int32_t lead = 0, momentLead = 0, gradientLead = 0, lag = 0;
};

struct Genome {
  StageCut cut = StageCut::Everywhere;
  std::vector<StageGene> stages;
  std::vector<StateGene> states; ///< One per update.

  RecomputeSchedule schedule() const;
};

/// What the explorer may choose.
struct Freedom {
  bool states = false;
  /// Number of residuals of each stage, for either cut.
  std::vector<size_t> residuals[2];
  size_t updates = 0;
};

Genome drawGenome(const Freedom &freedom, Random &random);
/// Returns a copy of the genome with a few changes.
Genome vary(Genome genome, const Freedom &freedom, Random &random);

} // namespace kiln::explore

#endif // KILN_TEST_EXPLORE_GENOME_H
