//===- Adapter.h - Files of low-rank adapters -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An adapter is a directory in the format of PEFT: adapter_config.json and
// adapter_model.safetensors. The weights of its base model are not part of it.
// A checkpoint of an adapter has a reference to them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_ADAPTER_H
#define KILN_LIB_RUNTIME_TRAINING_ADAPTER_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// The weights of the base model of an adapter.
struct BaseReference {
  /// Absolute path of the weights; empty if they are the initial values of the
  /// model for the seed of the run.
  std::string path;
  /// Hash of the tensors in the files (see loadWeights); empty if `path` is.
  std::string hash;
};

nlohmann::json baseJson(const BaseReference &base);

/// Reads the reference in the manifest of a checkpoint. `source` names the
/// checkpoint in messages. Fuzzers call this function; it accesses only its
/// arguments.
Result<BaseReference> parseBase(const nlohmann::json &json,
                                const std::string &source);

/// Returns an error if the weights that were loaded from `path`, which have the
/// hash `hash`, are not those of the reference.
Status checkBase(const BaseReference &base, const std::string &path,
                 const std::string &hash, const std::string &source);

/// Indexes of the states that are factors of adapters.
std::vector<size_t> adapterStates(const Description &description);

/// Returns the text of adapter_config.json.
std::string adapterConfigText(const Description &description,
                              const BaseReference &base);

/// Returns the path of the base model that the adapter in `directory` names, or
/// "" if there are no weights at that path. Fails if the directory has no valid
/// adapter_config.json, or if its options differ from those with which the
/// executable was compiled.
Result<std::string> checkAdapter(const Description &description,
                                 const std::string &directory);

/// Reads the factors of the adapter in `directory`.
Status loadAdapter(Engine &engine, const std::string &directory,
                   std::vector<std::string> &notes);

/// Fails if `directory` exists and is not an empty directory, or cannot be
/// created.
Status tryMergedDirectory(const std::string &directory);

/// Writes a model directory in which every adapted weight W is W + s * B A. The
/// sums are computed in f64 and rounded once. Creates `directory` only if
/// everything has been written.
Status saveMerged(Engine &engine, const std::string &directory);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_ADAPTER_H
