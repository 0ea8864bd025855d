//===- Sampler.h - Interleaved time measurements ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes one sample of each work item in turn, so that a drift of the machine's
// speed affects all items equally. A sample is disturbed if other processes
// used the machine at the same time. Disturbed samples of an item are ignored
// if the item has undisturbed ones.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_MEASURE_SAMPLER_H
#define KILN_LIB_RUNTIME_MEASURE_SAMPLER_H

#include <cstddef>
#include <functional>
#include <vector>

namespace kiln::runtime {

/// Returns the time in seconds of a monotonic clock.
double now();

class Sampler {
public:
  /// Adds a work item and returns its index. `work(count)` executes the item
  /// `count` times; the sampler chooses `count` so that a sample is long enough
  /// to be timed.
  std::size_t add(std::function<void(int64_t count)> work);

  /// Samples all items in turn for about `seconds`, each at least once. Calls
  /// `progress` with the completed fraction.
  void run(double seconds, const std::function<void(double)> &progress);

  /// Returns the seconds of one repetition of an item: the median of the
  /// undisturbed samples, or, if there are none, the minimum.
  double seconds(std::size_t number) const;
  /// Returns the fraction of items without an undisturbed sample.
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
