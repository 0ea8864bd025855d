//===- TrainingInfo.h - TrainingInfo as JSON and as text --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program description and the manifest of a checkpoint hold the same
// members "optimizer", "dropout" and "lossy": docs/reference/program-format.md.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRAININGINFO_H
#define KILN_LIB_RUNTIME_TRAINING_TRAININGINFO_H

#include "kiln/Abi/TrainingInfo.h"
#include "kiln/Support/JsonReader.h"

#include <nlohmann/json.hpp>
#include <string>

namespace kiln::runtime {

/// Reads the three members of `object`. Problems go to the node's failure.
abi::TrainingInfo readTrainingInfo(const support::Node &object);

/// Adds the three members to `object`.
void addTrainingInfo(const abi::TrainingInfo &info, nlohmann::json &object);

/// The shortest decimal number that reads back as `value`.
std::string numberText(double value);

/// "adamw (beta1=0.9, ...)"; "none" without updates.
std::string optimizerText(const abi::TrainingInfo &info);
/// "0.1", "0.1, of attention 0.2" or "none".
std::string dropoutText(const abi::TrainingInfo &info);
/// "fewbit:3 of 12 residuals" or "none".
std::string lossyText(const abi::TrainingInfo &info);

/// True if the optimizer states of `then` mean the same to `now`: adam and
/// adamw keep running averages of the gradient and of its square, momentum and
/// nesterov the same velocity. Options such as beta1 do not matter: an average
/// forgets those that it was made with as fast as it forgets gradients.
bool haveSameStates(const abi::TrainingInfo &then,
                    const abi::TrainingInfo &now);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAININGINFO_H
