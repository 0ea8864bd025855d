//===- ProgramInputs.h - Inputs and outputs by name -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds a program's inputs and outputs by the names of
// docs/reference/program-format.md once, checks their types and shapes, and
// gives typed pointers. A program has only the inputs that it uses; the others
// are null and writing them does nothing.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_PROGRAMINPUTS_H
#define KILN_LIB_RUNTIME_TRAINING_PROGRAMINPUTS_H

#include "InputTensors.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <functional>
#include <vector>

namespace kiln::runtime {

/// An endless stream of sequences.
struct SequenceSource {
  /// Reads sequence `index`: `length` tokens and targets.
  std::function<Status(int64_t index, int64_t length, int32_t *tokens,
                       int32_t *targets)>
      read;
  /// The number of sequence `index` among those of its file.
  std::function<int64_t(int64_t index, int64_t length)> number;
  /// The values of inputs that the model declares; null: zeros.
  const InputTensors *inputs = nullptr;
};

/// The value of a target that does not count.
constexpr int32_t ignoredTarget = -100;

class ProgramInputs {
public:
  /// The engine must have been started.
  static Result<ProgramInputs> bind(Engine &engine, size_t program);

  size_t program() const { return program_; }
  int64_t batch() const { return batch_; }
  int64_t length() const { return length_; }

  /// Reads sequences first, first + 1, ... into tokens and targets and what the
  /// model declares, and writes the loss scale and the random keys. Rows at and
  /// beyond `rows` are blank: their targets do not count. Returns the number of
  /// targets that count.
  Result<int64_t> writeBatch(const SequenceSource &source, int64_t first,
                             int64_t rows, uint64_t seed, int64_t step);

  void writeUpdate(double rate, int64_t step, double clip);
  /// One sequence of `count` <= length() tokens; wants the last one's logits.
  void writePrompt(const int32_t *tokens, int64_t count,
                   const InputTensors *inputs);

  /// The row whose logits are wanted.
  void writePosition(int64_t position);

  bool hasGradNorm() const { return gradNorm_ != nullptr; }
  double loss() const { return loss_ ? *loss_ : 0.0; }
  double gradNorm() const { return gradNorm_ ? *gradNorm_ : 0.0; }
  int64_t vocabulary() const { return vocabulary_; }
  double logit(int64_t index) const {
    return logits32_ ? double(logits32_[index]) : logits64_[index];
  }

private:
  /// An input that the model declares, and its place.
  struct DataInput {
    InputInfo info;
    char *data;
  };

  Status writeData(const SequenceSource &source, int64_t first, int64_t rows);
  Status bindInput(const ProgramInfo &info, size_t index, char *data);
  Status bindOutput(const ProgramInfo &info, size_t index, char *data);

  size_t program_ = 0;
  int64_t batch_ = 0;
  int64_t length_ = 0;
  int64_t microbatches_ = 1;
  int64_t vocabulary_ = 0;
  int32_t *tokens_ = nullptr;
  int32_t *targets_ = nullptr;
  int64_t *rng_ = nullptr;
  double *lossScale_ = nullptr;
  double *rate_ = nullptr;
  int64_t *step_ = nullptr;
  double *clip_ = nullptr;
  int64_t *position_ = nullptr;
  const double *loss_ = nullptr;
  const double *gradNorm_ = nullptr;
  const float *logits32_ = nullptr;
  const double *logits64_ = nullptr;
  std::vector<DataInput> dataInputs_;
  std::vector<int32_t> sink_; ///< Where an unused tensor of a sequence goes.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_PROGRAMINPUTS_H
