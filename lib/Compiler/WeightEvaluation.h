//===- WeightEvaluation.h - Weights evaluated by an executable --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates the loss of weights with an executable of their model, which is
// compiled into a temporary directory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_WEIGHTEVALUATION_H
#define KILN_LIB_COMPILER_WEIGHTEVALUATION_H

#include "kiln/Compiler/Compile.h"

namespace kiln {

struct EvaluatedLoss {
  /// The mean loss over all targets.
  double loss = 0;
  int64_t targets = 0;
};

class WeightEvaluation {
public:
  /// Compiles the model of `options`. Ignores options.output.
  static Result<WeightEvaluation> compile(CompileOptions options);

  WeightEvaluation(WeightEvaluation &&other) noexcept;
  WeightEvaluation &operator=(WeightEvaluation &&) = delete;
  /// Removes the executable.
  ~WeightEvaluation();

  /// Evaluates the weights in the directory `weights` on `batches` batches (0:
  /// all) of `data`. `unused` are the tensors that the model does not have.
  Result<EvaluatedLoss> run(const std::string &weights,
                            const std::vector<std::string> &unused,
                            const std::string &data, int64_t batches) const;

private:
  explicit WeightEvaluation(std::string directory)
      : directory_(std::move(directory)) {}
  std::string directory_;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_WEIGHTEVALUATION_H
