//===- States.cpp - Initial values of the states --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "States.h"

#include "kiln/Runtime/Files/Messages.h"
#include "kiln/Runtime/Files/ModelWeights.h"

namespace kiln {

Status initialiseStates(Engine &engine, uint64_t seed) {
  const std::vector<StateInfo> &states = engine.description().states;
  for (size_t i = 0; i < states.size(); ++i) {
    const StateInfo &state = states[i];
    Status status =
        fillInitialValue(state.init, seed, state.name, state.shape, state.type,
                         0, state.elements(), engine.stateData(i));
    if (!status.ok())
      return status;
  }
  return Status();
}

Status loadWeights(Engine &engine, const std::string &path,
                   std::vector<std::string> &notes) {
  Result<ModelWeights> weights = ModelWeights::open(path);
  if (!weights.ok())
    return weights.status();
  notes.insert(notes.end(), weights->warnings().begin(),
               weights->warnings().end());

  const std::vector<StateInfo> &states = engine.description().states;
  std::vector<size_t> indexes;
  std::vector<ExpectedTensor> expected;
  for (size_t i = 0; i < states.size(); ++i) {
    if (!isWeight(states[i]))
      continue;
    indexes.push_back(i);
    expected.push_back(
        {states[i].sourceName, states[i].aliases, states[i].shape});
  }
  std::vector<std::string> unused;
  Result<std::vector<const TensorInfo *>> found =
      weights->match(expected, &unused);
  if (!found.ok())
    return found.status();
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = states[indexes[i]];
    Status status =
        weights->read((*found)[i]->name, state.type,
                      engine.stateData(indexes[i]), uint64_t(state.bytes()));
    if (!status.ok())
      return status;
  }
  if (!unused.empty())
    notes.push_back(path + " holds " + std::to_string(unused.size()) +
                    " tensors that the model does not use, such as " +
                    inQuotes(unused.front()));
  return Status();
}

} // namespace kiln
