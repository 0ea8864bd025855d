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

/// Sets every state except mirrors to its declared initial value.
Status initialiseStates(Engine &engine, uint64_t seed);

/// Reads every parameter and buffer from `path`, a .safetensors file or a model
/// directory, by the tensor names of the source model. Other states are
/// unchanged. Any other tensor in the file is an error, unless UnusedTensors.h
/// lists it or `ignored` names it. Adds warnings to `notes`.
Status loadWeights(Engine &engine, const std::string &path,
                   const std::vector<std::string> &ignored,
                   std::vector<std::string> &notes);

/// Returns true if the state is part of the saved model.
inline bool isWeight(const StateInfo &state) {
  return state.role == StateRole::Parameter || state.role == StateRole::Buffer;
}

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_STATES_H
