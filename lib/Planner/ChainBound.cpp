//===- ChainBound.cpp - A lower bound on the time of a chain ----*- C++ -*-===//
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

#include "ChainView.h"

using namespace kiln;
using namespace kiln::chain;

namespace {

class Dual {
public:
  Dual(const View &view, int64_t bytes);

  double maximize();

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

} // namespace

Dual::Dual(const View &view, int64_t bytes)
    : view(view), bytes(static_cast<double>(bytes)), prices(view.size(), 0) {
  for (int32_t i = 0; i < view.size(); ++i) {
    usable.emplace_back();
    again.push_back(view.fastForward[i]);
    double slowest = 0;
    for (const Option &option : view.options[i]) {
      again[i] = std::min(again[i], option.forward);
      slowest = std::max(slowest, option.time);
      if (option.backwardNeed + (i > 0 ? view.value[i] : 0) <= bytes)
        usable[i].push_back(&option);
    }
    scale += slowest + again[i];
  }
  scale /= std::max(1.0, this->bytes);
}

Dual::Point Dual::evaluate(int32_t priced) const {
  Point point;
  for (int32_t i = 0; i < view.size(); ++i)
    point.value -= prices[i] * bytes;
  point.slope = -bytes;
  double later = 0; // sum of the prices of backward passes before this one
  for (int32_t j = view.size(); j-- > 0;) {
    double best = std::numeric_limits<double>::infinity(), slope = 0;
    double next = j + 1 < view.size() ? prices[j + 1] : 0;
    double output = static_cast<double>(view.value[j + 1]);
    for (const Option *option : usable[j]) {
      double saved = static_cast<double>(option->saved);
      double own = static_cast<double>(option->backwardNeed);
      double time = option->time + prices[j] * own;
      double ownSlope = j == priced ? own : 0;
      if (time + later * saved < best) {
        best = time + later * saved;
        slope = ownSlope + (j < priced ? saved : 0);
      }
      if (time + again[j] + next * output < best) {
        best = time + again[j] + next * output;
        slope = ownSlope + (j + 1 == priced ? output : 0);
      }
    }
    point.value += best;
    point.slope += slope;
    later += prices[j];
  }
  return point;
}

/// Raises or lowers price i to where the dual is highest.
double Dual::raise(int32_t i) {
  double before = prices[i], low = 0, high = std::max(scale, before);
  double best = evaluate(i).value, at = before;
  auto visit = [&](double price) {
    prices[i] = price;
    Point point = evaluate(i);
    if (point.value > best) {
      best = point.value;
      at = price;
    }
    return point.slope;
  };
  // The function is concave: bisect the sign of its slope.
  for (int doublings = 0; doublings < 40 && visit(high) > 0; ++doublings)
    high *= 2;
  for (int halvings = 0; halvings < 50; ++halvings) {
    double middle = (low + high) / 2;
    (visit(middle) > 0 ? low : high) = middle;
  }
  prices[i] = at;
  return best;
}

double Dual::maximize() {
  for (const auto &options : usable)
    if (options.empty())
      return std::numeric_limits<double>::infinity();
  double best = evaluate(0).value;
  int32_t first = view.size() - 1;
  for (int32_t i = view.size(); i-- > 0;) {
    double value = raise(i);
    prices[i] = 0;
    if (value > best) {
      best = value;
      first = i;
    }
  }
  raise(first);
  for (int round = 0; round < 3; ++round) {
    double before = best;
    for (int32_t i = view.size(); i-- > 0;)
      best = raise(i);
    if (best <= before * (1 + 1e-6))
      break;
  }
  return best;
}

double kiln::relaxedTimeBound(const Chain &chain, int64_t budget,
                              const ChainOptions &options) {
  View view(chain, options, 0, /*relaxed=*/false);
  // The sums of at most 2048 stages round by less than this.
  return Dual(view, budget - view.value[0]).maximize() * (1 - 1e-10);
}
