//===- Resume.h - Going on with the run of a checkpoint ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run that trains on from a checkpoint follows the trajectory of the run that
// saved it. What flags decide is taken from the checkpoint unless it is given;
// what the executable and the data decide must be the same, unless
// --resume-changing names it. Every change is reported in one line, with the
// old and the new value.
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

/// The choices in complete options; `clips`: the executable computes the norm
/// of the gradients.
RunChoices choicesOf(const Options &options, bool clips);

/// Completes `options`, of which continues() is true, with the choices of the
/// checkpoint, and checks that they go together. `notes` gets the changes.
Status adoptChoices(const ResumePoint &point, Options &options,
                    std::vector<std::string> &notes);

/// The first line of a resumed run, which names the checkpoint and its step.
std::string resumeLine(const ResumePoint &point, const Options &options);

/// What cannot be compared with a checkpoint of an earlier format.
std::string unknownTrajectory(const ResumePoint &point);

/// The record for the checkpoints of a run that does not train: that of the
/// checkpoint it reads. If the states of its optimizer mean nothing to this
/// executable, they and the record's optimizer are replaced by those of the
/// executable; `notes` then says so.
TrajectoryRecord keptRecord(const BuiltFacts &built, ResumePoint &point,
                            std::vector<std::string> &notes);

/// Compares the facts of the executable and of the data with those of the
/// checkpoint. Fails with one line that names all differences that `options` do
/// not allow. Otherwise `notes` gets the differences, and `point.progress` is
/// moved to the place in the data where the run goes on:
///   another batch             the next sequence, as before
///   another sequence length   the same token of the same epoch, rounded up to
///                             a whole sequence
///   other data                the beginning
///   another optimizer         the same place; its states start afresh unless
///                             they mean the same to both
Status compareTrajectories(const Trajectory &now, const Options &options,
                           ResumePoint &point, std::vector<std::string> &notes);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_RESUME_H
