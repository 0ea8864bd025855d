//===- States.cpp - Initial values of the states --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "States.h"

#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Hash.h"
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

Status readStates(Engine &engine, const ModelWeights &weights,
                  const std::vector<size_t> &indexes,
                  const std::vector<const TensorInfo *> &tensors) {
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = engine.description().states[indexes[i]];
    Status status = checkStop();
    if (status.ok())
      status =
          engine.accessState(indexes[i], HostAccess::Write, [&](char *data) {
            return weights.read(tensors[i]->name, state.type, data,
                                uint64_t(state.bytes()));
          });
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Reads a tensor as elements of the state's type, and adds the name and the
/// contents of the tensor in the file to `hash`.
static Status readHashed(const ModelWeights &weights, const TensorInfo &tensor,
                         const StateInfo &state, char *data, StreamHash &hash) {
  std::string title = state.sourceName + " " +
                      std::string(infoOf(tensor.type).fileName) +
                      shapeText(tensor.shape);
  hash.update(title.c_str(), title.size() + 1);
  std::vector<char> chunk(size_t(bytesOf(tensor.type, initialChunk)));
  for (int64_t first = 0; first < tensor.elements; first += initialChunk) {
    int64_t count = std::min(initialChunk, tensor.elements - first);
    Status status = weights.readElements(tensor.name, first, count, tensor.type,
                                         chunk.data());
    if (!status.ok())
      return status;
    hash.update(chunk.data(), uint64_t(bytesOf(tensor.type, count)));
    char *place = data + bytesOf(state.type, first);
    if (tensor.type == state.type)
      std::copy_n(chunk.data(), bytesOf(state.type, count), place);
    else
      convertElements(tensor.type, chunk.data(), state.type, place, count);
  }
  return Status();
}

Status loadWeights(Engine &engine, const std::string &path,
                   const std::vector<std::string> &ignored,
                   std::vector<std::string> &notes, std::string *hash) {
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
    const TensorInfo &tensor = *(*found)[i];
    if (state.trainable || bitsOf(state.type) >= bitsOf(tensor.type))
      continue;
    notes.push_back("frozen weights such as " + inQuotes(tensor.name) +
                    " are " + std::string(infoOf(tensor.type).fileName) +
                    " in " + inQuotes(path) + " and are rounded to " +
                    std::string(infoOf(state.type).fileName) +
                    ", the type for which the executable was compiled; to keep "
                    "their type, compile it from the directory of the weights");
    break;
  }
  if (!hash)
    return readStates(engine, *weights, indexes, *found);
  StreamHash contents;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = states[indexes[i]];
    const TensorInfo &tensor = *(*found)[i];
    Status status = checkStop();
    if (status.ok())
      status =
          engine.accessState(indexes[i], HostAccess::Write, [&](char *data) {
            return readHashed(*weights, tensor, state, data, contents);
          });
    if (!status.ok())
      return status;
  }
  *hash = contents.hex();
  return Status();
}

} // namespace kiln::runtime
