//===- ChainTestUtils.h - Random chains and their optima --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small chains with small integer sizes and times, so that sums are exact, and
// an exhaustive search for the fastest of all their schedules.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_PLANNER_CHAINTESTUTILS_H
#define KILN_TEST_UNIT_PLANNER_CHAINTESTUTILS_H

#include "kiln/Planner/ChainPlanner.h"

#include <optional>
#include <random>

namespace kiln {

/// `stages` stages with up to `options` options each.
Chain randomChain(std::mt19937 &random, int stages, int options);

/// An embedding, two stages per layer, a norm and a loss, with sizes and times
/// of a large model.
Chain transformerChain(int layers, int options);

/// Peak of the schedule that saves everything with each stage's fastest option,
/// and its time.
ChainCost saveAll(const Chain &chain);

/// Time of the fastest schedule within the budget, persistent or not, by
/// Dijkstra's algorithm over what is present; nothing if there is none. For
/// chains of up to 8 stages with up to 3 options.
std::optional<double> exhaustiveTime(const Chain &chain, int64_t budget);

} // namespace kiln

#endif // KILN_TEST_UNIT_PLANNER_CHAINTESTUTILS_H
