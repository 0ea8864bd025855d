//===- States.h - Initial values of the states ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of a sharded state, each rank computes or reads only the elements that it
// stores, and sets the padding to zero. The argument `rank` of these functions
// is the number of this rank; it has no effect on states that are not sharded.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_STATES_H
#define KILN_LIB_RUNTIME_TRAINING_STATES_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/ModelWeights.h"
#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// Sets every state except mirrors (copies of parameters) to its declared
/// initial value.
Status initialiseStates(Engine &engine, int rank, uint64_t seed);

/// Reads every weight (see isWeight) from `path`, which is a .safetensors file
/// or a model directory. Tensors are found by their names in the source model.
/// All other states are unchanged. The file must not contain other tensors,
/// except those that UnusedTensors.h lists and those that `ignored` names. Adds
/// warnings to `notes`. If `hash` is not null, sets it to the XXH3-128 of the
/// names, types, shapes and bytes of the tensors that were read, in the order
/// of the states; the hash does not depend on how the tensors are divided into
/// files or over ranks.
Status loadWeights(Engine &engine, int rank, const std::string &path,
                   const std::vector<std::string> &ignored,
                   std::vector<std::string> &notes,
                   std::string *hash = nullptr);

/// For each i, reads the state with index indexes[i] from tensors[i]. This
/// tensor must be in `weights` and must have the shape that the state has in
/// files.
Status readStates(Engine &engine, int rank,
                  const support::ModelWeights &weights,
                  const std::vector<size_t> &indexes,
                  const std::vector<const support::TensorInfo *> &tensors);

/// Returns the XXH3-64 hash of the bytes of all states that are divided over
/// exactly the axes `axes`, in this order. If `axes` is empty, these are the
/// states that are not sharded. The hash must be the same on all ranks with the
/// same indexes on the axes.
Result<uint64_t> hashStates(Engine &engine,
                            const std::vector<std::string> &axes = {});

/// Returns true if the state is stored in the weight file of a saved model.
inline bool isWeight(const StateInfo &state) {
  return (state.role == StateRole::Parameter ||
          state.role == StateRole::Buffer) &&
         !state.adapter;
}

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_STATES_H
