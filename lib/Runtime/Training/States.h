//===- States.h - Initial values of the states ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_STATES_H
#define KILN_LIB_RUNTIME_TRAINING_STATES_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// Gives every state the value that its declaration says, mirrors excepted.
Status initialiseStates(Engine &engine, uint64_t seed);

/// Reads every parameter and buffer from `path`, a .safetensors file or a model
/// directory, under the model's own names. Other states are left as they are.
/// Further tensors are an error, except those that UnusedTensors.h lists and
/// those named in `ignored`. `notes` gets what is worth a line.
Status loadWeights(Engine &engine, const std::string &path,
                   const std::vector<std::string> &ignored,
                   std::vector<std::string> &notes);

/// Whether a state is part of the saved model.
inline bool isWeight(const StateInfo &state) {
  return state.role == StateRole::Parameter || state.role == StateRole::Buffer;
}

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_STATES_H
