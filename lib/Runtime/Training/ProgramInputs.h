//===- ProgramInputs.h - Named program inputs and outputs -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the inputs and outputs of a program by the names in
// docs/reference/program-format.md, checks their types and shapes, and stores
// typed pointers to them. A program has only the inputs that it uses. The
// pointers to all other inputs are null, and writing such an input has no
// effect.
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
  /// Reads sequence `index`: `length` tokens and as many targets.
  std::function<Status(int64_t index, int64_t length, int32_t *tokens,
                       int32_t *targets)>
      read;
  /// Returns the position in the file, counted in sequences, of the sequence
  /// that read() reads for `index`. It differs from `index` if the data is
  /// shuffled or repeated.
  std::function<int64_t(int64_t index, int64_t length)> number;
  /// The values of the inputs that the model declares. If null, these inputs
  /// are zero.
  const InputTensors *inputs = nullptr;
};

class ProgramInputs {
public:
  /// The engine must have been started. `rank` is the number of this rank.
  static Result<ProgramInputs> bind(Engine &engine, size_t program,
                                    int64_t rank = 0);

  size_t program() const { return program_; }
  int64_t batch() const { return batch_; }
  int64_t length() const { return length_; }

  /// Reads the sequences first, ..., first + rows - 1, and writes the tokens,
  /// targets, declared inputs, loss scale and random keys. The rows from `rows`
  /// to batch() - 1 are padding, and their targets are ignored. Returns the
  /// number of targets that are not ignored; the loss scale is set for this
  /// number. `firstRow` is the number of rows that precede the batch in the
  /// global batch. The random keys depend on `firstRow`.
  Result<int64_t> writeBatch(const SequenceSource &source, int64_t first,
                             int64_t rows, uint64_t seed, int64_t step,
                             int64_t firstRow = 0);

  /// Sets the factor by which the program multiplies the sum of the losses of
  /// all targets of the batch: 1 / max(`targets`, 1).
  void writeLossScale(int64_t targets);

  /// Writes the inputs of the updates. `gradientScale` is unused unless
  /// scalesGradients().
  void writeUpdate(double rate, int64_t step, double clip,
                   double gradientScale);
  /// Writes one sequence of `count` <= length() tokens, and selects the last
  /// token as the position whose logits are computed.
  void writePrompt(const int32_t *tokens, int64_t count,
                   const InputTensors *inputs);

  /// Selects the token position whose logits are computed.
  void writePosition(int64_t position);

  /// Returns true if the program multiplies gradients by a scale, and changes
  /// no state if the norm of the gradients is not finite.
  bool scalesGradients() const { return gradientScale_ != nullptr; }
  bool hasGradNorm() const { return gradNorm_ != nullptr; }
  double loss() const { return loss_ ? *loss_ : 0.0; }
  double gradNorm() const { return gradNorm_ ? *gradNorm_ : 0.0; }
  int64_t vocabulary() const { return vocabulary_; }
  double logit(int64_t index) const {
    return logits32_ ? double(logits32_[index]) : logits64_[index];
  }

private:
  /// An input that the model declares, and the address of its value.
  struct DataInput {
    InputInfo info;
    char *data;
  };

  Status writeData(const SequenceSource &source, int64_t first, int64_t rows);
  /// Writes the inputs that depend only on the rank.
  void writeRank();
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
  /// Number of columns of `rng_`, 3 or 4. The fourth column contains
  /// tensorIndex_.
  int64_t rngColumns_ = 3;
  double *lossScale_ = nullptr;
  double *rate_ = nullptr;
  int64_t *step_ = nullptr;
  double *clip_ = nullptr;
  double *gradientScale_ = nullptr;
  int64_t *position_ = nullptr;
  int32_t *tensorRank_ = nullptr;
  /// The index of this rank on the axis of tensor parallelism.
  int64_t tensorIndex_ = 0;
  const double *loss_ = nullptr;
  const double *gradNorm_ = nullptr;
  const float *logits32_ = nullptr;
  const double *logits64_ = nullptr;
  std::vector<DataInput> dataInputs_;
  /// If the program has no input for targets, the targets are written to this
  /// buffer.
  std::vector<int32_t> sink_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_PROGRAMINPUTS_H
