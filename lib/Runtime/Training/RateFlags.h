//===- RateFlags.h - Validation of learning rate flags ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_RATEFLAGS_H
#define KILN_LIB_RUNTIME_TRAINING_RATEFLAGS_H

#include "kiln/Runtime/Training/Schedule.h"
#include "kiln/Support/Status.h"

#include <set>
#include <string>

namespace kiln::runtime {

/// Checks the values of the flags for the learning rate and gradient clipping,
/// and that the flags in `given` can be combined. A flag in `given` was on the
/// command line or in the checkpoint. An error has ExitCode::Usage.
Status checkRates(const ScheduleOptions &schedule, double gradClip,
                  int64_t steps, const std::set<std::string> &given);

/// Checks that --min-lr is not above the peak rate of a run with `batch`
/// sequences in a global batch. checkRates() compares it only with --lr, since
/// the batch is unknown there. An error has ExitCode::Usage.
Status checkPeakRate(const ScheduleOptions &schedule, int64_t batch);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_RATEFLAGS_H
