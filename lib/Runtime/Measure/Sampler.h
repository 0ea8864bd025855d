//===- Sampler.h - Interleaved time measurements ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes samples of several work items in turn, so that a change of the
// machine's speed affects all items equally. In a round, each item has at most
// one sample; items with long samples skip rounds. A sample is disturbed if
// other processes used the machine at the same time. If an item has undisturbed
// samples, its disturbed samples are ignored.
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
  /// Adds a work item and returns its index. `work(count)` must execute the
  /// work of the item `count` times. The sampler chooses `count` so that a
  /// sample is long enough to be timed accurately.
  std::size_t add(std::function<void(int64_t count)> work);

  /// Takes samples of all items in turn for about `seconds` seconds, and at
  /// least one sample of each item. Calls `progress` with the fraction of the
  /// time that has passed.
  void run(double seconds, const std::function<void(double)> &progress);

  /// Returns the time of one execution of the work of an item, in seconds: the
  /// median of its undisturbed samples or, if it has none, the minimum of its
  /// disturbed samples.
  double seconds(std::size_t number) const;
  /// Returns the fraction of items that have no undisturbed sample.
  double disturbedShare() const;
  int rounds() const { return rounds_; }

private:
  struct Subject {
    std::function<void(int64_t)> work;
    int64_t count = 1;
    int period = 1; ///< The item has a sample in every `period`-th round.
    std::vector<double> quiet, disturbed;
  };
  void calibrate(Subject &subject);

  std::vector<Subject> subjects_;
  int rounds_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_MEASURE_SAMPLER_H
