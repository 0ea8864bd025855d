//===- ChainDual.h - Lower bound from memory prices -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes a lower bound on the time of all schedules. a_i is the input of
// stage i, and abar_{i+1} are the values that stage i saves (see Chain.h);
// time, saved and backwardNeed are members of chain::Option. In any schedule,
// each stage j runs its forward pass once, or at least twice. If it runs once,
// abar_{j+1} must be in memory from before the first backward pass until
// Backward(j); its bytes depend on the option k of the stage. Let x_jk be 1 if
// stage j runs its forward pass once and Backward(j) uses option k, and 0
// otherwise. Let y_jk be 1 if stage j runs its forward pass at least twice and
// Backward(j) uses option k, and 0 otherwise. The time is at least
//
//   sum_jk x_jk time_jk + y_jk (time_jk + fastForward_j)
//
// and the memory at Backward(i), which includes the input a_i if stage i - 1
// runs again (y_{i-1,k} = 1), is at least
//
//   a_0 + sum_{j<i,k} x_jk saved_jk + sum_k y_{i-1,k} a_i
//       + sum_k (x_ik + y_ik) backwardNeed_ik                  <= budget.
//
// The relaxation to fractions is a linear program. By weak duality, every
// vector of memory prices, one per backward pass, gives a lower bound: the cost
// of the cheapest option of every stage at these prices, minus the price of the
// budget. The prices are optimized one coordinate at a time, starting from the
// best single price. A network of equal layers needs only one nonzero price.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINDUAL_H
#define KILN_LIB_PLANNER_CHAINDUAL_H

#include "ChainView.h"

namespace kiln::chain {

class Dual {
public:
  Dual(const View &view, int64_t bytes);

  /// Optimizes the memory prices and returns the resulting lower bound on the
  /// time of all schedules, or infinity if some stage has no option that fits
  /// the budget.
  double maximize();

  /// Returns, for each stage j, the price in seconds of a byte that the stage
  /// saves: the sum of the prices of Backward(i) for all i > j, during which
  /// the byte is stored. Requires maximize().
  std::vector<double> savedPrices() const;

private:
  /// The value of the dual function at the current prices, and its derivative
  /// with respect to one of the prices.
  struct Point {
    double value = 0;
    double slope = 0;
  };
  Point evaluate(int32_t i) const;
  double raise(int32_t i);

  const View &view;
  double bytes; // Budget in bytes, without the input of the first stage.
  std::vector<std::vector<const Option *>> usable;
  /// Seconds of the second forward pass of each stage.
  std::vector<double> again;
  std::vector<double> prices;
  double scale = 0;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINDUAL_H
