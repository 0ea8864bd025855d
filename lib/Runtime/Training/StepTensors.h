//===- StepTensors.h - What a step leaves behind, by name -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The states of an engine, and the gradients that its training program keeps,
// as one list of tensors that can be hashed, written, read, kept and moved a
// little. Two engines of one model have the same list, whatever their plans:
// mirrors of parameters are left out, and follow what is done to parameters.
// The gradients are those of the last run of the training program: any run of
// another program destroys them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_STEPTENSORS_H
#define KILN_LIB_RUNTIME_TRAINING_STEPTENSORS_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln::runtime {

struct StepTensor : ValueInfo {
  const char *role = "gradient"; ///< Or that of a state, such as "parameter".
  const char *data = nullptr;    ///< Where a watched run shows it, or null.
  std::size_t index = 0;         ///< Of the state, or of the program's output.
  bool isState() const { return std::string_view(role) != "gradient"; }
};

class StepTensors {
public:
  /// The engine must have been started and must outlive the list.
  StepTensors(Engine &engine, size_t program);

  const std::vector<StepTensor> &list() const { return tensors_; }

  /// The tensor that begins at `data`, or list().size().
  size_t at(const char *data) const;

  /// XXH3-128 of every tensor.
  Result<std::vector<std::string>> hashes() const;

  /// Writes some tensors to a safetensors file, under their names.
  Status save(const std::string &path,
              const std::vector<size_t> &indexes) const;

  /// Reads some states from a file that save() wrote.
  Status load(const std::string &path, const std::vector<size_t> &indexes);

  /// Copies all states, for restore().
  Status keep();
  bool kept() const { return !copies_.empty(); }
  Status restore();
  void forget() { copies_.clear(); }

  /// Multiplies every element of the weights by 1 + eps or 1 - eps, as a hash
  /// of its place says, where eps is the spacing at 1 of its type or, with
  /// mixed precision, of the narrower type.
  Status perturb();

private:
  /// Calls body(data) with the bytes of a tensor.
  Status read(const StepTensor &tensor,
              const std::function<Status(const char *)> &body) const;

  Engine &engine_;
  std::size_t program_;
  std::vector<StepTensor> tensors_;
  std::unordered_map<const char *, size_t> places_;
  std::vector<std::vector<char>> copies_; ///< Of the states, or empty.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_STEPTENSORS_H
