//===- Genome.cpp - A legal plan as data that can be varied ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Genome.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::explore;
using Kind = support::ChainOpKind;

/// Returns a schedule that runs the forward passes of all stages (pieces of the
/// model), and then their backward passes in reverse order. If the residuals of
/// a stage are not present before its backward pass, the schedule repeats the
/// forward pass, beginning with the nearest stage whose input is present.
RecomputeSchedule Genome::schedule() const {
  RecomputeSchedule runs;
  auto count = static_cast<int64_t>(stages.size());
  // The input of stage k is present by itself (hasInput[k]), or as a part of
  // the residuals of stage k - 1. Inputs that are present by themselves can be
  // dropped.
  std::vector<uint8_t> isSaved(count, 0), hasInput(count + 1, 0);
  hasInput[0] = 1;
  auto isPresent = [&](int64_t k) {
    return hasInput[k] || (k > 0 && isSaved[k - 1]);
  };
  auto advance = [&](int64_t k, bool keepsInput) {
    bool drops = !keepsInput && k > 0 && hasInput[k] && !isSaved[k - 1];
    runs.push_back({drops ? Kind::ForwardDrop : Kind::ForwardCheckpoint, k});
    if (drops)
      hasInput[k] = 0;
    hasInput[k + 1] = 1;
  };
  auto save = [&](int64_t k, uint64_t saved) {
    runs.push_back({Kind::ForwardSave, k, saved});
    isSaved[k] = 1;
  };
  for (int64_t k = 0; k < count; ++k) {
    if (stages[k].saves)
      save(k, stages[k].saved);
    else
      advance(k, stages[k].isCheckpoint);
  }
  for (int64_t k = count - 1; k >= 0; --k) {
    if (!isSaved[k]) {
      int64_t from = k;
      while (!isPresent(from))
        --from;
      for (int64_t i = from; i < k; ++i) {
        if (stages[i].savesAgain && !isSaved[i])
          save(i, stages[i].savedAgain);
        else
          advance(i, stages[i].isCheckpoint || i == from);
      }
      save(k, stages[k].savedAgain);
    }
    runs.push_back({Kind::Backward, k});
    isSaved[k] = 0;
    hasInput[k] = k == 0;
    hasInput[k + 1] = 0;
  }
  return runs;
}

static bool chance(Random &random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}

static uint64_t drawMask(size_t residuals, double probability, Random &random) {
  uint64_t mask = residuals < 64 ? ~uint64_t(0) << residuals : 0;
  for (size_t i = 0; i < std::min<size_t>(residuals, 64); ++i)
    mask |= static_cast<uint64_t>(chance(random, probability)) << i;
  return mask;
}

static int32_t drawLead(Random &random) {
  return std::uniform_int_distribution<int32_t>(
      0, 1 << std::uniform_int_distribution<int>(0, 7)(random))(random);
}

static double drawPart(Random &random) {
  return std::uniform_real_distribution<double>(0, 1)(random);
}

namespace {
/// The probabilities of the choices in a genome, a random plan.
struct Bias {
  double saves, checkpoints, keeps, keepsAgain, savesAgain;
  double host, swapped, parameters, gradients;
};
} // namespace

static Bias drawBias(Random &random) {
  Bias bias;
  for (double *part : {&bias.saves, &bias.checkpoints, &bias.keeps,
                       &bias.keepsAgain, &bias.savesAgain, &bias.host,
                       &bias.swapped, &bias.parameters, &bias.gradients})
    *part = chance(random, 0.2)   ? 0
            : chance(random, 0.3) ? 1
                                  : drawPart(random);
  return bias;
}

static StageGene drawStage(size_t residuals, const Bias &bias, Random &random) {
  StageGene gene;
  gene.saves = chance(random, bias.saves);
  gene.isCheckpoint = chance(random, bias.checkpoints);
  gene.saved = drawMask(residuals, bias.keeps, random);
  gene.savedAgain = drawMask(residuals, bias.keepsAgain, random);
  gene.savesAgain = chance(random, bias.savesAgain);
  return gene;
}

static StateGene drawState(const Bias &bias, Random &random) {
  StateGene gene;
  if (chance(random, bias.host))
    gene.update = Update::Host;
  else if (chance(random, bias.swapped))
    gene.update = Update::Swapped;
  gene.parameterOnHost = chance(random, bias.parameters);
  gene.gradientAway =
      gene.update != Update::Host && chance(random, bias.gradients);
  for (int32_t *lead :
       {&gene.lead, &gene.momentLead, &gene.gradientLead, &gene.lag})
    *lead = drawLead(random);
  return gene;
}

Genome explore::drawGenome(const Freedom &freedom, Random &random) {
  Genome genome;
  Bias bias = drawBias(random);
  genome.cut = chance(random, 0.5) ? StageCut::Everywhere : StageCut::Layers;
  for (size_t residuals : freedom.residuals[static_cast<int>(genome.cut)])
    genome.stages.push_back(drawStage(residuals, bias, random));
  // In 30 % of the plans, all stages have the same choices.
  if (chance(random, 0.3))
    std::fill(genome.stages.begin(), genome.stages.end(), genome.stages[0]);
  genome.states.resize(freedom.updates);
  if (freedom.states && chance(random, 0.8))
    for (StateGene &gene : genome.states)
      gene = drawState(bias, random);
  return genome;
}

Genome explore::vary(Genome genome, const Freedom &freedom, Random &random) {
  auto index = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  Bias bias = drawBias(random);
  const auto &residuals = freedom.residuals[static_cast<int>(genome.cut)];
  int changes = 1 << std::uniform_int_distribution<int>(0, 3)(random);
  for (int change = 0; change < changes; ++change) {
    if (freedom.states && chance(random, 0.5)) {
      StateGene &gene = genome.states[index(genome.states.size())];
      gene = chance(random, 0.5) ? genome.states[index(genome.states.size())]
                                 : drawState(bias, random);
      continue;
    }
    if (genome.stages.empty())
      continue;
    size_t stage = index(genome.stages.size());
    StageGene &gene = genome.stages[stage];
    if (chance(random, 0.3))
      gene = genome.stages[index(genome.stages.size())];
    else if (chance(random, 0.5) && residuals[stage] > 0)
      gene.saved ^= uint64_t(1)
                    << index(std::min<size_t>(residuals[stage], 64));
    else
      gene = drawStage(residuals[stage], bias, random);
  }
  return genome;
}
