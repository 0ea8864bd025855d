//===- Resume.h - Resuming from a checkpoint --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A resumed training run continues the run that saved the checkpoint. A choice
// that a flag controls is taken from the checkpoint unless the flag is given. A
// property of the executable or of the data must have the value recorded in the
// checkpoint unless --resume-changing names the property. Each change is
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

/// Returns the choices in `options`. If the run resumes, adoptChoices() must
/// have been called before. `clips` is true if the executable computes the
/// gradient norm.
RunChoices choicesOf(const Options &options, bool clips);

/// Sets each option that the command line omits to its value in the checkpoint,
/// and checks that the resulting options are consistent. options.continues()
/// must be true. Adds a note for each option on the command line that differs
/// from the checkpoint.
Status adoptChoices(const ResumePoint &point, Options &options,
                    std::vector<std::string> &notes);

/// Returns the line that a resumed run prints first. The line contains the path
/// and the step of the checkpoint.
std::string resumeLine(const ResumePoint &point, const Options &options);

/// Returns the warning that the checkpoint has an earlier format. Such a
/// checkpoint contains no properties of its run with which this run could be
/// compared.
std::string unknownTrajectory(const ResumePoint &point);

/// Returns the trajectory record (the properties that determine the losses) for
/// the checkpoints of a run that does not train: the record of the checkpoint
/// that the run reads. If the executable cannot use the optimizer states of
/// that checkpoint, the optimizer states of the run keep their initial values.
/// In that case, the returned record contains the optimizer of the executable,
/// and a note about the change is added to `notes`.
TrajectoryRecord keptRecord(const BuiltFacts &built, ResumePoint &point,
                            std::vector<std::string> &notes);

/// Compares the properties of the executable and of the data with those that
/// the checkpoint records. If `options` does not allow all differences, fails
/// with a one-line error that names the differences. Otherwise adds a note for
/// each difference, and sets point.progress.sequence to the sequence at which
/// reading resumes. If one of the following properties differs, the effect is:
///   batch             reading resumes at the next unread sequence
///   sequence length   reading resumes at the next unread token of the epoch,
///                     rounded up to the start of a sequence
///   data              reading resumes at the start of the data
///   optimizer         reading resumes at the next unread sequence; the
///                     optimizer states are reset unless both optimizers use
///                     the same states
Status compareTrajectories(const Trajectory &now, const Options &options,
                           ResumePoint &point, std::vector<std::string> &notes);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_RESUME_H
