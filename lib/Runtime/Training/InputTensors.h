//===- InputTensors.h - Tensors of declared inputs --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model may declare inputs besides tokens (see #kiln.input). A safetensors
// file provides one tensor per declared input. The tensor of a batched input
// has one row per sequence of the data; any other tensor is the same in every
// step.
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

/// Returns the inputs that the named programs of a description declare, without
/// duplicates. Fails if two programs declare the same name with different types
/// or shapes.
Result<std::vector<InputInfo>>
declaredInputs(const Description &description,
               const std::vector<std::string> &programs);

class InputTensors {
public:
  /// Opens a file and checks the shapes and types of the tensors of `inputs`.
  /// `flag` is the flag that specified the file, for messages. A batched input
  /// must have `sequences` rows; nullopt accepts any number of rows, for a run
  /// without data.
  static Result<InputTensors> open(const std::string &path,
                                   const std::string &flag,
                                   const std::vector<InputInfo> &inputs,
                                   std::optional<int64_t> sequences);

  /// Copies the tensor of an unbatched input to `data`.
  void copy(const InputInfo &input, char *data) const;
  /// Reads the row of a sequence, 0 <= sequence < sequences.
  Status readRow(const InputInfo &input, int64_t sequence, char *data) const;
  /// Returns a hash of the names, types and shapes of all tensors of the file
  /// and of a sample of their elements.
  Result<std::string> identity() const;

private:
  explicit InputTensors(support::SafeTensorsFile file)
      : file_(std::move(file)) {}
  Status check(const InputInfo &input, const std::string &flag,
               std::optional<int64_t> sequences);

  support::SafeTensorsFile file_;
  std::map<std::string, std::vector<char>> constants_;
};

/// Opens the tensors of the inputs that the named programs declare. Leaves
/// `file` empty if they declare none; if they declare some and `path` is empty,
/// returns an error that names `flag`. `data`, if set, determines the number of
/// sequences.
Status openInputTensors(const std::string &path, const std::string &flag,
                        const Description &description,
                        const std::vector<std::string> &programs,
                        const std::optional<TokenFile> &data, int64_t length,
                        std::optional<InputTensors> &file);

/// Returns the number of elements in one row of a batched input.
int64_t rowElements(const InputInfo &input);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_INPUTTENSORS_H
