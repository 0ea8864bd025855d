//===- States.h - Initial values of the states ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of a sharded state, each rank computes or reads only its own elements, and
// sets its padding to zero. The argument `rank` of these functions is the
// number of this rank; it has no effect on other states.
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

/// Sets every state to its declared initial value, except mirrors.
Status initialiseStates(Engine &engine, int rank, uint64_t seed);

/// Reads every weight (see isWeight) from `path`, which is a .safetensors file
/// or a model directory. Tensors are found by their names in the source model.
/// All other states are unchanged. The file must not contain other tensors,
/// except those that UnusedTensors.h lists and those that `ignored` names. Adds
/// warnings to `notes`. If `hash` is not null, sets it to the XXH3-128 of the
/// names, types, shapes and bytes of the tensors that were read, in the order
/// of the states; it does not depend on how the tensors are divided into files
/// or over ranks.
Status loadWeights(Engine &engine, int rank, const std::string &path,
                   const std::vector<std::string> &ignored,
                   std::vector<std::string> &notes,
                   std::string *hash = nullptr);

/// Reads each state of `indexes` from the tensor at the same position of
/// `tensors`, which are tensors of `weights` with the shape of the state in
/// files.
Status readStates(Engine &engine, int rank,
                  const support::ModelWeights &weights,
                  const std::vector<size_t> &indexes,
                  const std::vector<const support::TensorInfo *> &tensors);

/// Returns XXH3-64 of the bytes of all states that are divided over these axes,
/// in this order: of those that are not sharded, if there are none. It must be
/// the same on all ranks with the same indexes on the axes.
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
