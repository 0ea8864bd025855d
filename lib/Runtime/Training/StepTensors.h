//===- StepTensors.h - Tensors of a step by name ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A list of named tensors, which can be hashed, saved, loaded, copied and
// perturbed: the states of an engine, and the gradients that its training
// program outputs. Two engines of one model have the same list, whatever their
// plans. Mirrors, which are copies of parameters, are not listed; they are
// updated with their parameters. The gradients are those of the last run of the
// training program; running another program overwrites them.
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
  /// "gradient", or the role of a state, such as "parameter".
  const char *role = "gradient";
  /// The address of the tensor, which equals OpResult::data for the commands
  /// that write the tensor. Null if the engine returns no address.
  const char *data = nullptr;
  std::size_t index = 0; ///< Index of the state or program output.
  bool isState() const { return std::string_view(role) != "gradient"; }
};

class StepTensors {
public:
  /// The engine must have been started and must outlive the list.
  StepTensors(Engine &engine, size_t program);

  const std::vector<StepTensor> &list() const { return tensors_; }

  /// Returns the index of the tensor that starts at `data`, or list().size() if
  /// there is none.
  size_t at(const char *data) const;

  /// Returns the XXH3-128 hash of every tensor.
  Result<std::vector<std::string>> hashes() const;

  /// Writes the tensors at `indexes` to a safetensors file under their names.
  Status save(const std::string &path,
              const std::vector<size_t> &indexes) const;

  /// Reads the states at `indexes` from a file that save() wrote.
  Status load(const std::string &path, const std::vector<size_t> &indexes);

  /// Copies all states for restore().
  Status keep();
  bool kept() const { return !copies_.empty(); }
  Status restore();
  void forget() { copies_.clear(); }

  /// Multiplies every element of the weights by 1 + eps or 1 - eps, where a
  /// hash of the element's index selects the sign. eps is the spacing at 1 of
  /// the element type or, with mixed precision, of the narrower compute type.
  Status perturb();

private:
  /// Calls body(data) with the contents of a tensor.
  Status read(const StepTensor &tensor,
              const std::function<Status(const char *)> &body) const;

  Engine &engine_;
  std::size_t program_;
  std::vector<StepTensor> tensors_;
  std::unordered_map<const char *, size_t> places_;
  /// The copies that keep() made. Empty if there are no copies.
  std::vector<std::vector<char>> copies_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_STEPTENSORS_H
