//===- ChainDual.h - Prices of memory, and a bound --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In any schedule, each stage j either runs its forward pass once, and then
// abar_{j+1} of some option k is present from before the first backward pass to
// Backward(j); or it runs at least twice. So with x_jk and y_jk one for the
// option that Backward(j) uses in the two cases, time is at least
//
//   sum_jk x_jk time_jk + y_jk (time_jk + fastForward_j)
//
// and the memory at Backward(i) is at least
//
//   a_0 + sum_{j<i,k} x_jk saved_jk + sum_k y_{i-1,k} a_i
//       + sum_k (x_ik + y_ik) backwardNeed_ik                  <= budget.
//
// Relaxed to fractions, this is a linear program. By weak duality every vector
// of prices of memory, one per backward pass, gives a bound: each stage takes
// its cheapest option at these prices, and the budget is refunded. Prices are
// raised one coordinate at a time, starting from the best single one. In a
// network of equal layers, one price is all that is needed.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINDUAL_H
#define KILN_LIB_PLANNER_CHAINDUAL_H

#include "ChainView.h"

namespace kiln::chain {

class Dual {
public:
  Dual(const View &view, int64_t bytes);

  /// The bound; infinite if some stage has no option that fits the budget.
  double maximize();

  /// Once maximized: seconds per byte of what each stage saves.
  std::vector<double> savedPrices() const;

private:
  /// The dual function at the prices, and its slope in price i.
  struct Point {
    double value = 0;
    double slope = 0;
  };
  Point evaluate(int32_t i) const;
  double raise(int32_t i);

  const View &view;
  double bytes; // without a_0
  std::vector<std::vector<const Option *>> usable;
  std::vector<double> again; // time of the second forward pass
  std::vector<double> prices;
  double scale = 0;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINDUAL_H
