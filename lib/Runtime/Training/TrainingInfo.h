//===- TrainingInfo.h - TrainingInfo as JSON and as text --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program description and the manifest of a checkpoint contain the same
// members "optimizer", "dropout" and "lossy"; see
// docs/reference/program-format.md.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRAININGINFO_H
#define KILN_LIB_RUNTIME_TRAINING_TRAININGINFO_H

#include "kiln/Abi/TrainingInfo.h"
#include "kiln/Support/JsonReader.h"

#include <nlohmann/json.hpp>
#include <string>

namespace kiln::runtime {

/// Reads the members "optimizer", "dropout" and "lossy" of `object`. The
/// ReadFailure of `object` records errors.
abi::TrainingInfo readTrainingInfo(const support::Node &object);

/// Adds the members "optimizer", "dropout" and "lossy" to `object`.
void addTrainingInfo(const abi::TrainingInfo &info, nlohmann::json &object);

/// Returns the shortest decimal text that parses back to `value`.
std::string numberText(double value);

/// Returns the optimizers, such as "adamw (beta1=0.9, ...)", or "none" for a
/// program without updates.
std::string optimizerText(const abi::TrainingInfo &info);
/// Returns the dropout probabilities, such as "0.1" or "0.1, of attention 0.2",
/// or "none".
std::string dropoutText(const abi::TrainingInfo &info);
/// Returns the lossy encodings, such as "fewbit:3 of 12 residuals", or "none".
std::string lossyText(const abi::TrainingInfo &info);

/// Returns true if the optimizers of `then` and `now` use the same states: adam
/// and adamw both keep running averages of the gradient and of its square, and
/// momentum and nesterov both keep a velocity. Options such as beta1 are not
/// compared, because their effect on a running average decays with later
/// gradients.
bool haveSameStates(const abi::TrainingInfo &then,
                    const abi::TrainingInfo &now);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAININGINFO_H
