//===- AdapterStart.h - Start of a run with adapters ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run with adapters starts from the weights of a base model and from
// adapters. The adapters are read from a checkpoint or from the directory that
// --adapter names. Otherwise they have initial values.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_ADAPTERSTART_H
#define KILN_LIB_RUNTIME_TRAINING_ADAPTERSTART_H

#include "Adapter.h"
#include "Checkpoint.h"
#include "kiln/Runtime/Training/Options.h"

namespace kiln::runtime {

class AdapterStart {
public:
  /// Determines the base model, and opens the adapter that --adapter names.
  /// `resumed` is the checkpoint from which the run resumes, or null; it must
  /// outlive this object. Adds warnings to `notes`.
  static Result<AdapterStart> open(const Description &description,
                                   const Options &options,
                                   const ResumePoint *resumed,
                                   std::vector<std::string> &notes);

  /// Loads the weights of the base model and the adapters, or the shards of
  /// both that `rank` stores. The states must have their initial values.
  /// Verifies that the adapters were trained on these weights.
  Status load(Engine &engine, int rank, std::vector<std::string> &notes);

  /// The base model. Its hash is known after load().
  const BaseReference &base() const { return base_; }

private:
  AdapterStart(const Options &options, const ResumePoint *resumed)
      : options_(options), resumed_(resumed) {}
  Result<std::string> pathOfBase();
  Result<std::string> baseOfCheckpoint() const;
  Result<std::string> baseOfAdapter() const;
  /// Returns the reference that the loaded weights must match, or null if they
  /// need not match any.
  const BaseReference *expectedBase() const;

  const Options &options_;
  const ResumePoint *resumed_;
  std::optional<AdapterSource> adapter_;
  BaseReference base_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_ADAPTERSTART_H
