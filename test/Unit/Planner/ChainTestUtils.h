//===- ChainTestUtils.h - Random chains and their optima --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Generates small chains with small integer sizes and times, so that sums are
// exact, and finds the fastest of all their schedules by exhaustive search.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_PLANNER_CHAINTESTUTILS_H
#define KILN_TEST_UNIT_PLANNER_CHAINTESTUTILS_H

#include "kiln/Planner/ChainPlanner.h"

#include <optional>
#include <random>

namespace kiln {

/// Returns `stages` stages with up to `options` options each.
Chain randomChain(std::mt19937 &random, int stages, int options);

/// Returns an embedding, two stages per layer, a norm and a loss, with the
/// sizes and times of a large model.
Chain transformerChain(int layers, int options);

/// Returns the peak and the time of the schedule that saves everything with
/// each stage's fastest option.
ChainCost saveAll(const Chain &chain);

/// Returns the time of the fastest schedule within the budget, or std::nullopt
/// if no schedule fits. A schedule may drop a saved value before its use in the
/// backward pass and compute it again. Uses Dijkstra's algorithm on the sets of
/// values in memory, for chains of up to 8 stages with up to 3 options.
std::optional<double> exhaustiveTime(const Chain &chain, int64_t budget);

} // namespace kiln

#endif // KILN_TEST_UNIT_PLANNER_CHAINTESTUTILS_H
