//===- Resume.h - Resuming from a checkpoint --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A resumed training run follows the trajectory of the run that saved the
// checkpoint. Choices that flags control are taken from the checkpoint unless
// the flag is given. Properties of the executable and of the data must equal
// those of the checkpoint unless --resume-changing names them. Every change is
// reported in one line with the old and the new value.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_RESUME_H
#define KILN_LIB_RUNTIME_TRAINING_RESUME_H

#include "Checkpoint.h"
#include "Trajectory.h"
#include "kiln/Runtime/Training/Options.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// Returns the choices in `options`. The caller must have completed `options`;
/// see adoptChoices(). `clips` is true if the executable computes the gradient
/// norm.
RunChoices choicesOf(const Options &options, bool clips);

/// Completes `options`, for which continues() is true, with the choices of the
/// checkpoint, and checks that the result is consistent. Adds the changes to
/// `notes`.
Status adoptChoices(const ResumePoint &point, Options &options,
                    std::vector<std::string> &notes);

/// Returns the first line of a resumed run: the checkpoint and its step.
std::string resumeLine(const ResumePoint &point, const Options &options);

/// Returns the warning that a checkpoint of an earlier format has no trajectory
/// to compare with.
std::string unknownTrajectory(const ResumePoint &point);

/// Returns the trajectory record for the checkpoints of a run that does not
/// train: the record of the checkpoint that the run reads. If the executable
/// cannot use the optimizer states of that checkpoint, the optimizer states of
/// the run keep their initial values. The record then names the optimizer of
/// the executable, and `notes` reports the change.
TrajectoryRecord keptRecord(const BuiltFacts &built, ResumePoint &point,
                            std::vector<std::string> &notes);

/// Compares the properties of the executable and of the data with those of the
/// checkpoint. Fails with a one-line error that names all differences if
/// `options` does not allow one of them. Otherwise adds the differences to
/// `notes` and moves `point.progress` to the position where reading resumes,
/// which depends on the difference:
///   another batch             the next sequence, as before
///   another sequence length   the same token of the same epoch, rounded up to
///                             a whole sequence
///   other data                the beginning
///   another optimizer         the same position; its states are reset unless
///                             both optimizers use the same states
Status compareTrajectories(const Trajectory &now, const Options &options,
                           ResumePoint &point, std::vector<std::string> &notes);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_RESUME_H
