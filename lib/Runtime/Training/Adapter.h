//===- Adapter.h - Files of low-rank adapters -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An adapter is a directory in the format of PEFT: adapter_config.json and
// adapter_model.safetensors. An adapter does not contain the weights of its
// base model. A checkpoint of an adapter contains a reference to these weights.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_ADAPTER_H
#define KILN_LIB_RUNTIME_TRAINING_ADAPTER_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Training/Options.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/Status.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

class WholeStates;

/// The weights of the base model of an adapter.
struct BaseReference {
  /// Absolute path of the weights; empty if they are the initial values of the
  /// model for the seed of the run.
  std::string path;
  /// Hash of the tensors in the files (see loadWeights); empty if `path` is
  /// empty.
  std::string hash;
  /// The types in which the run stores the weights, such as "BF16" or
  /// "BF16, F32".
  std::string storage;
};

/// Returns the types in which an executable stores the weights of the base
/// model.
std::string storageOf(const Description &description);

nlohmann::json baseJson(const BaseReference &base);

/// Reads the reference to the base model in the manifest of a checkpoint.
/// `source` names the checkpoint in messages. Accesses only its arguments.
Result<BaseReference> parseBase(const nlohmann::json &json,
                                const std::string &source);

/// Returns an error if `hash`, the hash of the weights that were loaded from
/// `path`, differs from the hash in `base`. `source` names the checkpoint or
/// adapter in the message.
Status checkBase(const BaseReference &base, const std::string &path,
                 const std::string &hash, const std::string &source);

/// Returns the indexes of the states that are factors of adapters.
std::vector<size_t> adapterStates(const Description &description);

/// Returns the text of adapter_config.json.
std::string adapterConfigText(const Description &description,
                              const BaseReference &base);

/// An adapter from which a run starts.
struct AdapterSource {
  std::string path;           ///< The directory with the files.
  support::InputFile weights; ///< adapter_model.safetensors
  /// For an adapter in a checkpoint of kiln: the base model to which the
  /// checkpoint refers.
  std::optional<BaseReference> base;
  /// The seed of the run that saved the checkpoint.
  uint64_t seed = 0;
  /// The path of a base model that adapter_config.json names, if there are
  /// weights at that path; otherwise empty.
  std::string namedBase;
};

/// Opens the adapter in a directory of PEFT, in a checkpoint, or in the newest
/// checkpoint in a directory of checkpoints. The files of a checkpoint are
/// verified. Fails if the options of the adapter differ from those with which
/// the executable was compiled.
Result<AdapterSource> openAdapter(const Description &description,
                                  const std::string &path,
                                  std::vector<std::string> &notes);

/// Reads the factors of adapters, or the shards of the factors that `rank`
/// stores, from a file. Fails unless the tensors of the file are exactly the
/// factors of the executable's adapters. Adds warnings to `notes`.
Status loadAdapter(Engine &engine, int rank, support::InputFile file,
                   std::vector<std::string> &notes);

/// Checks that saveMerged can create the directory of --save-merged: it must be
/// an empty directory or not exist, it must not be in the directory of --save,
/// no other output of the run may be inside it, and its file system must have
/// enough space.
Status tryMergedDirectory(const Description &description,
                          const Options &options);

/// Writes a model directory in which every adapted weight W is replaced by W +
/// s * B A, where B and A are the factors of the adapter and s is its scale.
/// The sums are computed in f64 and rounded once. Creates `directory` only if
/// everything has been written. Only the first rank calls this function; the
/// other ranks call sendMerged(). Then all ranks call states.finish().
Status saveMerged(WholeStates &states, const std::string &directory);

/// Sends the shards of this rank for the model that the first rank writes.
Status sendMerged(WholeStates &states);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_ADAPTER_H
