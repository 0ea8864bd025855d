//===- ChainDual.cpp - Lower bound from memory prices -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainDual.h"

using namespace kiln;
using namespace kiln::chain;

static constexpr double infinity = std::numeric_limits<double>::infinity();

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
  // Sum of the prices of the backward passes before Backward(j).
  double later = 0;
  for (int32_t j = view.size(); j-- > 0;) {
    double best = infinity, slope = 0;
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

/// Maximizes the dual function over price i and returns the maximum. The
/// function is concave and piecewise linear. A tangent at a price below the
/// maximum and a tangent at a price above the maximum meet either at the
/// maximum, or at a price where the function is below both tangents.
double Dual::raise(int32_t i) {
  struct Tangent {
    double price = 0;
    Point point;
  };
  double best = -infinity, at = prices[i];
  auto visit = [&](double price) {
    prices[i] = price;
    Point point = evaluate(i);
    if (point.value > best) {
      best = point.value;
      at = price;
    }
    return Tangent{price, point};
  };
  Tangent low, high = visit(prices[i]);
  if (high.point.slope > 0 || high.price == 0) {
    low = high;
    double price = std::max(scale, high.price);
    for (int doublings = 0; high.point.slope > 0 && doublings < 40;
         ++doublings, price *= 2) {
      low = high;
      high = visit(price);
    }
  } else {
    low = visit(0);
  }
  for (int cuts = 0; cuts < 50; ++cuts) {
    if (low.point.slope <= 0 || high.point.slope > 0)
      break;
    double rise = high.point.value - low.point.value -
                  high.point.slope * (high.price - low.price);
    double price = low.price + rise / (low.point.slope - high.point.slope);
    double top = low.point.value + low.point.slope * (price - low.price);
    if (top <= best * (1 + 1e-13) || price <= low.price || price >= high.price)
      break;
    Tangent middle = visit(price);
    (middle.point.slope > 0 ? low : high) = middle;
  }
  prices[i] = at;
  return best;
}

double Dual::maximize() {
  for (const auto &options : usable)
    if (options.empty())
      return infinity;
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
  // Reduce the result by more than the rounding errors of sums over at most
  // 2048 stages, so that it is a lower bound.
  return best * (1 - 1e-10);
}

std::vector<double> Dual::savedPrices() const {
  std::vector<double> sums(view.size(), 0);
  for (int32_t j = view.size() - 1; j-- > 0;)
    sums[j] = sums[j + 1] + prices[j + 1];
  return sums;
}

double kiln::relaxedTimeBound(const Chain &chain, int64_t budget,
                              const ChainOptions &options) {
  View view(chain, options);
  return Dual(view, budget - view.value[0]).maximize();
}
