//===- InputTensors.h - Tensors of declared inputs --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model may declare inputs other than tokens (see #kiln.input). A safetensors
// file provides one tensor per declared input. The tensor of a batched input
// has one row per sequence of the data. All other inputs have the same value in
// every step.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_INPUTTENSORS_H
#define KILN_LIB_RUNTIME_TRAINING_INPUTTENSORS_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Runtime/Files/TokenFile.h"
#include "kiln/Support/SafeTensors.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// Returns the inputs that the given programs declare, without duplicates.
/// Fails if two programs declare inputs of the same name with different types
/// or shapes.
Result<std::vector<InputInfo>>
declaredInputs(const Description &description,
               const std::vector<std::string> &programs);

class InputTensors {
public:
  /// Opens a file and checks the shapes and types of the tensors for `inputs`.
  /// `flag` is the flag with which the user specified the file; error messages
  /// contain it. The tensor of a batched input must have `sequences` rows. If
  /// `sequences` is nullopt (for a run without data), any number of rows is
  /// accepted.
  static Result<InputTensors> open(const std::string &path,
                                   const std::string &flag,
                                   const std::vector<InputInfo> &inputs,
                                   std::optional<int64_t> sequences);

  /// Copies the value of `input`, which must not be batched, to `data`.
  void copy(const InputInfo &input, char *data) const;
  /// Reads the row of a batched input for sequence `sequence`, which must be in
  /// [0, number of rows).
  Status readRow(const InputInfo &input, int64_t sequence, char *data) const;
  /// Returns a hash of the names, types and shapes of all tensors in the file,
  /// and of a sample of the elements of each tensor.
  Result<std::string> identity() const;

private:
  explicit InputTensors(support::SafeTensorsFile file)
      : file_(std::move(file)) {}
  Status check(const InputInfo &input, const std::string &flag,
               std::optional<int64_t> sequences);

  support::SafeTensorsFile file_;
  std::map<std::string, std::vector<char>> constants_;
};

/// Opens the file at `path`, which provides the inputs that the given programs
/// declare. If the programs declare no inputs and `path` is empty, leaves
/// `file` empty. If they declare inputs and `path` is empty, returns an error
/// that contains `flag`. If `data` is set, batched inputs must have one row per
/// sequence of `data`.
Status openInputTensors(const std::string &path, const std::string &flag,
                        const Description &description,
                        const std::vector<std::string> &programs,
                        const std::optional<TokenFile> &data, int64_t length,
                        std::optional<InputTensors> &file);

/// Returns the number of elements in one row of a batched input.
int64_t rowElements(const InputInfo &input);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_INPUTTENSORS_H
