//===- Sampler.h - Times of many things, taking turns -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that is measured takes turns, one sample each, so that a drift of the
// machine hits all alike. Samples during which other processes used the machine
// do not count, as long as there are others.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_MEASURE_SAMPLER_H
#define KILN_LIB_RUNTIME_MEASURE_SAMPLER_H

#include <cstddef>
#include <functional>
#include <vector>

namespace kiln::runtime {

/// Seconds on a clock that never goes back.
double now();

class Sampler {
public:
  /// Adds what to measure: runs its work `count` times, and takes at least as
  /// long as timing needs once `count` has been found. Returns its number.
  std::size_t add(std::function<void(int64_t count)> work);

  /// Samples everything in turns, for about `seconds` and at least once each.
  /// Tells `progress` which share is done.
  void run(double seconds, const std::function<void(double)> &progress);

  /// Seconds of one piece of work: the median of its undisturbed samples, or,
  /// where there are none, the least.
  double seconds(std::size_t number) const;
  /// The share of things that were never measured without disturbance.
  double disturbedShare() const;
  int rounds() const { return rounds_; }

private:
  struct Subject {
    std::function<void(int64_t)> work;
    int64_t count = 1;
    std::vector<double> quiet, disturbed;
  };
  void calibrate(Subject &subject);

  std::vector<Subject> subjects_;
  int rounds_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_MEASURE_SAMPLER_H
