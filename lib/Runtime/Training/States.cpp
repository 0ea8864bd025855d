//===- States.cpp - Initial values of the states --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "States.h"

#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"
#include "kiln/Support/UnusedTensors.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Number of elements per chunk. Each chunk is initialised by one thread.
static constexpr int64_t initialChunk = 1 << 16;

static Status initialiseState(Engine &engine, const StateInfo &state,
                              char *data, uint64_t seed) {
  int64_t elements = state.elements();
  int64_t elementBytes = bytesOf(state.type);
  int64_t chunks = (elements + initialChunk - 1) / initialChunk;
  std::vector<Status> statuses(static_cast<size_t>(chunks));
  engine.forEachPart(chunks, [&](int64_t first, int64_t last) {
    int64_t begin = first * initialChunk;
    int64_t end = std::min(last * initialChunk, elements);
    statuses[size_t(first)] =
        fillInitialValue(state.init, seed, state.name, state.shape, state.type,
                         begin, end, data + begin * elementBytes);
  });
  for (Status &status : statuses)
    if (!status.ok())
      return std::move(status);
  return Status();
}

Status initialiseStates(Engine &engine, uint64_t seed) {
  const std::vector<StateInfo> &states = engine.description().states;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].role == StateRole::Mirror)
      continue;
    Status status = checkStop();
    if (status.ok())
      status = engine.accessState(i, HostAccess::Write, [&](char *data) {
        return initialiseState(engine, states[i], data, seed);
      });
    if (!status.ok())
      return status;
  }
  return Status();
}

Status loadWeights(Engine &engine, const std::string &path,
                   const std::vector<std::string> &ignored,
                   std::vector<std::string> &notes) {
  Result<ModelWeights> weights = openWeights(path);
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
    expected.push_back({states[i].sourceName, states[i].aliases,
                        states[i].shape, states[i].copies});
  }
  Result<std::vector<const TensorInfo *>> found = weights->match(expected);
  if (!found.ok())
    return found.status();
  Status unused =
      checkUnusedTensors(*weights, expected, *found,
                         {engine.description().model.unusedTensors, ignored});
  if (!unused.ok())
    return unused;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = states[indexes[i]];
    Status status = checkStop();
    if (status.ok())
      status =
          engine.accessState(indexes[i], HostAccess::Write, [&](char *data) {
            return weights->read((*found)[i]->name, state.type, data,
                                 uint64_t(state.bytes()));
          });
    if (!status.ok())
      return status;
  }
  return Status();
}

} // namespace kiln::runtime
