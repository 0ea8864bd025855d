//===- LossScale.h - Dynamic loss scaling -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small gradients underflow in f16. A program with scaled gradients therefore
// multiplies the gradients by a scale, and its updates divide them by the
// scale. If a scaled gradient overflows, the program changes no state: the step
// is skipped. The scale is halved after a skipped step, and doubled after a
// window of steps without overflow (P. Micikevicius et al., "Mixed Precision
// Training", 2018). The scale is always a power of two, so it does not change
// the rounding of gradients.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_TRAINING_LOSSSCALE_H
#define KILN_RUNTIME_TRAINING_LOSSSCALE_H

#include "kiln/Support/Status.h"

#include <cstdint>
#include <string>

namespace kiln::runtime {

/// The value of --loss-scale.
struct LossScaleOptions {
  double initial = 65536;
  /// Number of steps without overflow after which the scale is doubled.
  int64_t window = 2000;
  /// Number of consecutive skipped steps after which the run ends as diverged.
  int64_t skips = 20;

  /// Parses "65536,window=2000,skips=20". The initial scale, a power of two,
  /// comes first; the other values are optional. The text of an error is a
  /// fragment that follows the name of the flag.
  static support::Result<LossScaleOptions> parse(const std::string &text);
  std::string print() const;
};

/// The scale of the next step, and the counters that determine when the scale
/// changes. Checkpoints save this struct.
struct LossScale {
  static constexpr double smallest = 1, largest = 4294967296;

  double scale = LossScaleOptions().initial;
  /// Number of steps since the last overflow or the last doubling of the scale.
  int64_t cleanSteps = 0;
  /// Number of skipped steps since the optimizer started. Bias corrections do
  /// not count skipped steps.
  int64_t skipped = 0;
  int64_t skippedInARow = 0;

  /// Updates the scale and the counters after a step. `isFinite` is false if
  /// the step was skipped.
  void advance(bool isFinite, const LossScaleOptions &options);

  /// Continues with another scale.
  void restart(double newScale) {
    scale = newScale;
    cleanSteps = skippedInARow = 0;
  }

  bool operator==(const LossScale &other) const;
};

/// Returns true if `scale` is a power of two within the limits of LossScale.
bool isLossScale(double scale);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_LOSSSCALE_H
