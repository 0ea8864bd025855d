//===- InputTensors.h - Inputs that a model declares ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model may declare inputs besides tokens (see #kiln.input): a file in the
// safetensors format has a tensor for each of them. A batched input has a row
// per sequence of the data; any other is the same in every step.
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

/// The inputs that the named programs of a description declare, by name. Fails
/// if two programs declare one name differently.
Result<std::vector<InputInfo>>
declaredInputs(const Description &description,
               const std::vector<std::string> &programs);

class InputTensors {
public:
  /// Opens a file and checks the shapes and types of the tensors of `inputs`.
  /// `flag` is the flag that named it. A batched input must have `sequences`
  /// rows, unless that is not known because there is no data.
  static Result<InputTensors> open(const std::string &path,
                                   const std::string &flag,
                                   const std::vector<InputInfo> &inputs,
                                   std::optional<int64_t> sequences);

  /// Copies an input that is not batched.
  void copy(const InputInfo &input, char *data) const;
  /// Reads the row of a sequence, 0 <= sequence < sequences.
  Status readRow(const InputInfo &input, int64_t sequence, char *data) const;
  /// Hashes the names, types and shapes of all tensors of the file and some of
  /// their elements.
  Result<std::string> identity() const;

private:
  explicit InputTensors(support::SafeTensorsFile file)
      : file_(std::move(file)) {}
  Status check(const InputInfo &input, const std::string &flag,
               std::optional<int64_t> sequences);

  support::SafeTensorsFile file_;
  std::map<std::string, std::vector<char>> constants_;
};

/// Opens the values of the inputs that the named programs declare. Leaves
/// `file` empty if there are none; an empty `path` is an error that names
/// `flag` if there are some. `data` has the sequences, if it is given.
Status openInputTensors(const std::string &path, const std::string &flag,
                        const Description &description,
                        const std::vector<std::string> &programs,
                        const std::optional<TokenFile> &data, int64_t length,
                        std::optional<InputTensors> &file);

/// Elements of one row of a batched input.
int64_t rowElements(const InputInfo &input);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_INPUTTENSORS_H
