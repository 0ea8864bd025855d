//===- States.cpp - Initial values of the states --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "States.h"

#include "kiln/Runtime/Engine/StateLayout.h"
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

/// Computes the initial values of the elements [begin, end) of a state's
/// tensor, as elements of `type`.
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

/// Returns which elements of a state's tensor the rank stores.
static StateLayout layoutOf(const Engine &engine, const StateInfo &state,
                            int rank) {
  return StateLayout(state, engine.description().mesh, rank);
}

/// Sets the state to zero if it may have padding. The code that later fills the
/// state writes only the elements of the shard.
static void clearPadding(const StateInfo &state, char *data) {
  if (state.isSharded())
    std::fill_n(data, state.bytes(), 0);
}

/// Computes the initial values of the elements that a rank holds. The threads
/// divide the range of the tensor that contains these elements into chunks of
/// equal size.
static Status fillRuns(Engine &engine, const StateInfo &state,
                       const StateLayout &layout, uint64_t seed, char *data) {
  const ElementRange span = layout.span();
  int64_t chunks = (span.size() + initialChunk - 1) / initialChunk;
  std::vector<Status> statuses(static_cast<size_t>(chunks));
  engine.forEachPart(chunks, [&](int64_t first, int64_t last) {
    Status &status = statuses[size_t(first)];
    ElementRange range = {span.begin + first * initialChunk,
                          std::min(span.begin + last * initialChunk, span.end)};
    layout.forEachRun(range, [&](const ElementRun &run) {
      if (status.ok())
        status =
            fillInitialValue(state.init, seed, state.name, state.weightShape(),
                             state.type, run.whole, run.whole + run.count,
                             data + bytesOf(state.type, run.local));
    });
  });
  for (Status &status : statuses)
    if (!status.ok())
      return std::move(status);
  return Status();
}

static Status initialiseState(Engine &engine, const StateInfo &state, int rank,
                              char *data, uint64_t seed) {
  StateLayout layout = layoutOf(engine, state, rank);
  if (state.quantized)
    return encodeWeight(state.sourceName, state.quantized->layout, data,
                        [&](int64_t first, int64_t count, float *values) {
                          std::fill_n(values, count, 0.f); // For the padding.
                          Status status;
                          layout.forEachRun(
                              layout.wholeOf({first, first + count}),
                              [&](const ElementRun &run) {
                                float *to = values + (run.local - first);
                                if (status.ok())
                                  status = fillInParallel(
                                      engine, state, seed, ElementType::F32,
                                      run.whole, run.whole + run.count,
                                      reinterpret_cast<char *>(to));
                              });
                          return status;
                        });
  if (state.isSharded()) {
    clearPadding(state, data);
    return fillRuns(engine, state, layout, seed, data);
  }
  return fillInParallel(engine, state, seed, state.type, 0, state.elements(),
                        data);
}

Status initialiseStates(Engine &engine, int rank, uint64_t seed) {
  const std::vector<StateInfo> &states = engine.description().states;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].role == StateRole::Mirror || !states[i].isHere)
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

Result<uint64_t> hashStates(Engine &engine,
                            const std::vector<std::string> &axes) {
  const std::vector<StateInfo> &states = engine.description().states;
  uint64_t hash = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].axes() != axes || !states[i].isHere)
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

/// Reads the elements of a tensor that are both in `range` and in `layout`, as
/// elements of `type`. `data` is the address for element `origin` of the part
/// that `layout` describes. If `hash` is not null, reads all elements of the
/// range, and adds their bytes in the file to `hash`.
static Status readPart(const ModelWeights &weights, const TensorInfo &tensor,
                       ElementType type, const StateLayout &layout,
                       const ElementRange &range, int64_t origin, char *data,
                       StreamHash *hash) {
  Status status;
  if (!hash) {
    layout.forEachRun(range, [&](const ElementRun &run) {
      if (status.ok())
        status = weights.readElements(tensor.name, run.whole, run.count, type,
                                      data + bytesOf(type, run.local - origin));
    });
    return status;
  }
  // A read of zero elements only checks that the types are convertible.
  status = weights.readElements(tensor.name, range.begin, 0, type, data);
  if (!status.ok())
    return status;
  std::vector<char> chunk(size_t(bytesOf(tensor.type, initialChunk)));
  for (int64_t first = range.begin; first < range.end; first += initialChunk) {
    int64_t count = std::min(initialChunk, range.end - first);
    status = weights.readElements(tensor.name, first, count, tensor.type,
                                  chunk.data());
    if (!status.ok())
      return status;
    hash->update(chunk.data(), uint64_t(bytesOf(tensor.type, count)));
    layout.forEachRun({first, first + count}, [&](const ElementRun &run) {
      const char *from = chunk.data() + bytesOf(tensor.type, run.whole - first);
      char *to = data + bytesOf(type, run.local - origin);
      if (tensor.type == type)
        std::copy_n(from, bytesOf(type, run.count), to);
      else
        convertElements(tensor.type, from, type, to, size_t(run.count));
    });
  }
  return Status();
}

Status readStates(Engine &engine, int rank, const ModelWeights &weights,
                  const std::vector<size_t> &indexes,
                  const std::vector<const TensorInfo *> &tensors) {
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = engine.description().states[indexes[i]];
    if (!state.isHere)
      continue;
    Status status = checkStop();
    if (status.ok())
      status =
          engine.accessState(indexes[i], HostAccess::Write, [&](char *data) {
            clearPadding(state, data);
            StateLayout layout = layoutOf(engine, state, rank);
            return readPart(weights, *tensors[i], state.type, layout,
                            layout.whole(), 0, data, nullptr);
          });
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Reads a tensor, or the shard of a rank, into a state, which may be
/// quantized. Adds the name and the contents of the whole tensor in the file to
/// `hash` if it is not null. `data` is null if the rank does not store the
/// state.
static Status readWeight(Engine &engine, const ModelWeights &weights,
                         const TensorInfo &tensor, const StateInfo &state,
                         int rank, char *data, StreamHash *hash) {
  std::string title = state.sourceName + " " +
                      std::string(infoOf(tensor.type).fileName) +
                      shapeText(tensor.shape);
  if (hash)
    hash->update(title.c_str(), title.size() + 1);
  StateLayout layout = layoutOf(engine, state, rank);
  if (!state.quantized) {
    if (data)
      clearPadding(state, data);
    return readPart(weights, tensor, state.type, layout, {0, tensor.elements},
                    0, data, hash);
  }
  // An encoder may read the weight twice. The elements before `hashed` have
  // already been added to `hash`.
  int64_t hashed = 0;
  auto read = [&](const ElementRange &range, int64_t origin, float *values) {
    bool isNew = hash && range.end > hashed;
    ElementRange whole = {isNew ? hashed : range.begin, range.end};
    if (isNew)
      hashed = range.end;
    return readPart(weights, tensor, ElementType::F32, layout, whole, origin,
                    reinterpret_cast<char *>(values), isNew ? hash : nullptr);
  };
  Status status = encodeWeight(
      state.sourceName, state.quantized->layout, data,
      [&](int64_t first, int64_t count, float *values) {
        std::fill_n(values, count, 0.f); // For the padding.
        return read(layout.wholeOf({first, first + count}), first, values);
      });
  if (!status.ok() || !hash)
    return status;
  // Add the rest of the tensor, of which this rank stores no element, to
  // `hash`.
  return read({tensor.elements, tensor.elements}, 0, nullptr);
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
    auto read = [&](char *data) {
      return readWeight(engine, *weights, tensor, state, rank, data,
                        hash ? &contents : nullptr);
    };
    Status status = checkStop();
    if (status.ok() && state.isHere)
      status = engine.accessState(indexes[i], HostAccess::Write, read);
    else if (status.ok() && hash)
      status = read(nullptr);
    if (!status.ok())
      return status;
  }
  if (hash)
    *hash = contents.hex();
  return Status();
}

} // namespace kiln::runtime
