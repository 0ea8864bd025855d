//===- States.cpp - Initial values of the states --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "States.h"

#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Runtime/Files/QuantizedWeight.h"
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

/// Computes the initial values [begin, end) of the tensor of a state as
/// elements of `type`.
static Status fillInParallel(Engine &engine, const StateInfo &state,
                             uint64_t seed, ElementType type, int64_t begin,
                             int64_t end, char *data) {
  if (begin == end)
    return Status();
  int64_t chunks = (end - begin + initialChunk - 1) / initialChunk;
  std::vector<Status> statuses(static_cast<size_t>(chunks));
  engine.forEachPart(chunks, [&](int64_t first, int64_t last) {
    int64_t from = begin + first * initialChunk;
    int64_t to = std::min(begin + last * initialChunk, end);
    statuses[size_t(first)] =
        fillInitialValue(state.init, seed, state.name, state.weightShape(),
                         type, from, to, data + bytesOf(type, from - begin));
  });
  for (Status &status : statuses)
    if (!status.ok())
      return std::move(status);
  return Status();
}

/// Fills the padding of a shard, which follows the elements `range`, with
/// zeros.
static void clearPadding(const StateInfo &state, const ElementRange &range,
                         char *data) {
  int64_t used = bytesOf(state.type, range.size());
  std::fill(data + used, data + state.bytes(), 0);
}

static Status initialiseState(Engine &engine, const StateInfo &state, int rank,
                              char *data, uint64_t seed) {
  if (!state.quantized) {
    ElementRange range = state.rangeOf(rank);
    clearPadding(state, range, data);
    return fillInParallel(engine, state, seed, state.type, range.begin,
                          range.end, data);
  }
  return encodeWeight(state.sourceName, state.quantized->layout, data,
                      [&](int64_t first, int64_t count, float *values) {
                        return fillInParallel(
                            engine, state, seed, ElementType::F32, first,
                            first + count, reinterpret_cast<char *>(values));
                      });
}

Status initialiseStates(Engine &engine, int rank, uint64_t seed) {
  const std::vector<StateInfo> &states = engine.description().states;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].role == StateRole::Mirror)
      continue;
    Status status = checkStop();
    if (status.ok())
      status = engine.accessState(i, HostAccess::Write, [&](char *data) {
        return initialiseState(engine, states[i], rank, data, seed);
      });
    if (!status.ok())
      return status;
  }
  return Status();
}

Result<uint64_t> hashStates(Engine &engine) {
  const std::vector<StateInfo> &states = engine.description().states;
  uint64_t hash = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].isSharded())
      continue;
    Status status =
        engine.accessState(i, HostAccess::Read, [&](const char *data) {
          hash = keyedHash({data, size_t(states[i].bytes())}, hash);
          return Status();
        });
    if (!status.ok())
      return status;
  }
  return hash;
}

Status readStates(Engine &engine, int rank, const ModelWeights &weights,
                  const std::vector<size_t> &indexes,
                  const std::vector<const TensorInfo *> &tensors) {
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = engine.description().states[indexes[i]];
    Status status = checkStop();
    if (status.ok())
      status =
          engine.accessState(indexes[i], HostAccess::Write, [&](char *data) {
            ElementRange range = state.rangeOf(rank);
            clearPadding(state, range, data);
            return weights.readElements(tensors[i]->name, range.begin,
                                        range.size(), state.type, data);
          });
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Reads the elements `part` of a tensor as elements of `type`. If `hash` is
/// not null, also reads the elements `hashed`, which include `part`, and adds
/// their bytes in the file to `hash`.
static Status readPart(const ModelWeights &weights, const TensorInfo &tensor,
                       ElementType type, const ElementRange &part, char *data,
                       StreamHash *hash, const ElementRange &hashed) {
  if (!hash)
    return weights.readElements(tensor.name, part.begin, part.size(), type,
                                data);
  // Reading no elements checks that the types convert.
  if (Status status =
          weights.readElements(tensor.name, part.begin, 0, type, data);
      !status.ok())
    return status;
  std::vector<char> chunk(size_t(bytesOf(tensor.type, initialChunk)));
  for (int64_t first = hashed.begin; first < hashed.end;
       first += initialChunk) {
    int64_t count = std::min(initialChunk, hashed.end - first);
    Status status = weights.readElements(tensor.name, first, count, tensor.type,
                                         chunk.data());
    if (!status.ok())
      return status;
    hash->update(chunk.data(), uint64_t(bytesOf(tensor.type, count)));
    int64_t begin = std::max(first, part.begin);
    int64_t end = std::min(first + count, part.end);
    if (begin >= end)
      continue;
    const char *from = chunk.data() + bytesOf(tensor.type, begin - first);
    char *to = data + bytesOf(type, begin - part.begin);
    if (tensor.type == type)
      std::copy_n(from, bytesOf(type, end - begin), to);
    else
      convertElements(tensor.type, from, type, to, size_t(end - begin));
  }
  return Status();
}

/// Reads a tensor, or the shard of a rank, into a state, which may be
/// quantized. Adds the name and the contents of the whole tensor in the file to
/// `hash` if it is not null.
static Status readWeight(const ModelWeights &weights, const TensorInfo &tensor,
                         const StateInfo &state, int rank, char *data,
                         StreamHash *hash) {
  std::string title = state.sourceName + " " +
                      std::string(infoOf(tensor.type).fileName) +
                      shapeText(tensor.shape);
  if (hash)
    hash->update(title.c_str(), title.size() + 1);
  if (!state.quantized) {
    ElementRange range = state.rangeOf(rank);
    clearPadding(state, range, data);
    return readPart(weights, tensor, state.type, range, data, hash,
                    {0, tensor.elements});
  }
  // An encoder may read the weight twice.
  int64_t hashed = 0;
  return encodeWeight(state.sourceName, state.quantized->layout, data,
                      [&](int64_t first, int64_t count, float *values) {
                        StreamHash *once = first == hashed ? hash : nullptr;
                        if (once)
                          hashed += count;
                        ElementRange range = {first, first + count};
                        return readPart(weights, tensor, ElementType::F32,
                                        range, reinterpret_cast<char *>(values),
                                        once, range);
                      });
}

Status loadWeights(Engine &engine, int rank, const std::string &path,
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
                        states[i].weightShape(), states[i].copies});
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
    if (state.trainable || bitsOf(state.weightType()) >= bitsOf(tensor.type) ||
        state.quantized)
      continue;
    notes.push_back("frozen weights such as " + inQuotes(tensor.name) +
                    " are " + std::string(infoOf(tensor.type).fileName) +
                    " in " + inQuotes(path) + " and are rounded to " +
                    std::string(infoOf(state.type).fileName) +
                    ", the type for which the executable was compiled; to keep "
                    "their type, compile it from the directory of the weights");
    break;
  }
  StreamHash contents;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = states[indexes[i]];
    const TensorInfo &tensor = *(*found)[i];
    Status status = checkStop();
    if (status.ok())
      status =
          engine.accessState(indexes[i], HostAccess::Write, [&](char *data) {
            return readWeight(*weights, tensor, state, rank, data,
                              hash ? &contents : nullptr);
          });
    if (!status.ok())
      return status;
  }
  if (hash)
    *hash = contents.hex();
  return Status();
}

} // namespace kiln::runtime
