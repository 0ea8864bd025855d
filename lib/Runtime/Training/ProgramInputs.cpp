//===- ProgramInputs.cpp - Named program inputs and outputs ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramInputs.h"

#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

static Status mismatch(const ProgramInfo &info, const ValueInfo &value,
                       const std::string &expected) {
  return Status::error(
      "program " + inQuotes(info.name) + ": " + inQuotes(value.name) +
      " has a wrong type or shape: the shape is " + shapeText(value.shape) +
      ", expected " + expected + "; compile the executable again");
}

Status ProgramInputs::bindInput(const ProgramInfo &info, size_t index,
                                char *data) {
  const InputInfo &value = info.inputs[index];
  if (value.isData) {
    dataInputs_.push_back({value, data});
    return Status();
  }
  auto bindTo = [&](auto *&pointer, ElementType type, size_t rank,
                    const char *expected) {
    if (value.type != type || value.shape.size() != rank)
      return mismatch(info, value, expected);
    pointer =
        reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(data);
    return Status();
  };
  if (value.name == "tokens" || value.name == "targets") {
    Status status =
        bindTo(value.name == "tokens" ? tokens_ : targets_, ElementType::I32, 2,
               "[batch, sequence length] of i32");
    if (!status.ok())
      return status;
    if (batch_ != 0 && (batch_ != value.shape[0] || length_ != value.shape[1]))
      return mismatch(info, value, shapeText({batch_, length_}));
    batch_ = value.shape[0];
    length_ = value.shape[1];
    return batch_ > 0 && length_ > 0 ? Status()
                                     : mismatch(info, value, "a batch");
  }
  if (value.name == "rng") {
    Status status =
        bindTo(rng_, ElementType::I64, 2, "[micro-batches, 3 or 4] of i64");
    if (!status.ok())
      return status;
    microbatches_ = value.shape[0];
    rngColumns_ = value.shape[1];
    return rngColumns_ == 3 || rngColumns_ == 4
               ? Status()
               : mismatch(info, value, "[micro-batches, 3 or 4]");
  }
  if (value.name == "loss_scale")
    return bindTo(lossScale_, ElementType::F64, 0, "[] of f64");
  if (value.name == "lr")
    return bindTo(rate_, ElementType::F64, 0, "[] of f64");
  if (value.name == "step")
    return bindTo(step_, ElementType::I64, 0, "[] of i64");
  if (value.name == "clip")
    return bindTo(clip_, ElementType::F64, 0, "[] of f64");
  if (value.name == "gradient_scale")
    return bindTo(gradientScale_, ElementType::F64, 0, "[] of f64");
  if (value.name == "position")
    return bindTo(position_, ElementType::I64, 0, "[] of i64");
  if (value.name == "tp_rank")
    return bindTo(tensorRank_, ElementType::I32, 0, "[] of i32");
  return Status::error(
      "program " + inQuotes(info.name) + " has an input " +
      inQuotes(value.name) +
      ", expected tokens, targets, rng, loss_scale, lr, step, "
      "clip, gradient_scale, position, tp_rank or an input that the model "
      "declares");
}

Status ProgramInputs::bindOutput(const ProgramInfo &info, size_t index,
                                 char *data) {
  const ValueInfo &value = info.outputs[index];
  if (value.name == "loss" || value.name == "grad_norm") {
    if (value.type != ElementType::F64 || value.elements() != 1)
      return mismatch(info, value, "[] of f64");
    (value.name == "loss" ? loss_ : gradNorm_) =
        reinterpret_cast<const double *>(data);
  }
  if (value.name == "logits") {
    vocabulary_ = value.elements();
    if (value.type == ElementType::F32)
      logits32_ = reinterpret_cast<const float *>(data);
    else if (value.type == ElementType::F64)
      logits64_ = reinterpret_cast<const double *>(data);
    else
      return mismatch(info, value, "[vocabulary] of f32 or f64");
  }
  return Status();
}

Result<ProgramInputs> ProgramInputs::bind(Engine &engine, size_t program,
                                          int64_t rank) {
  ProgramInputs inputs;
  inputs.program_ = program;
  inputs.tensorIndex_ = engine.description().mesh.indexOn(tensorAxis, rank);
  const ProgramInfo &info = engine.description().programs[program];
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    Status status = inputs.bindInput(info, i, engine.inputData(program, i));
    if (!status.ok())
      return status;
  }
  for (size_t i = 0; i < info.outputs.size(); ++i) {
    Status status = inputs.bindOutput(info, i, engine.outputData(program, i));
    if (!status.ok())
      return status;
  }
  if (!inputs.tokens_)
    return Status::error("program " + inQuotes(info.name) +
                         " has no input 'tokens'");
  for (const DataInput &input : inputs.dataInputs_)
    if (input.info.isBatched &&
        (input.info.shape.empty() || input.info.shape.front() != inputs.batch_))
      return mismatch(info, input.info,
                      std::to_string(inputs.batch_) + " rows");
  if (inputs.batch_ % inputs.microbatches_ != 0)
    return Status::error(
        "program " + inQuotes(info.name) + ": the batch of " +
        std::to_string(inputs.batch_) + " sequences cannot be divided into " +
        std::to_string(inputs.microbatches_) + " equal micro-batches");
  inputs.sink_.resize(size_t(inputs.length_));
  return inputs;
}

Status ProgramInputs::writeData(const SequenceSource &source, int64_t first,
                                int64_t rows) {
  for (const DataInput &input : dataInputs_) {
    if (!source.inputs) {
      std::fill_n(input.data, input.info.bytes(), 0);
    } else if (!input.info.isBatched) {
      source.inputs->copy(input.info, input.data);
    } else {
      int64_t rowBytes = bytesOf(input.info.type, rowElements(input.info));
      for (int64_t row = 0; row < batch_; ++row) {
        char *place = input.data + row * rowBytes;
        if (row >= rows) {
          std::fill_n(place, rowBytes, 0);
          continue;
        }
        Status status = source.inputs->readRow(
            input.info, source.number(first + row, length_), place);
        if (!status.ok())
          return status;
      }
    }
  }
  return Status();
}

Result<int64_t> ProgramInputs::writeBatch(const SequenceSource &source,
                                          int64_t first, int64_t rows,
                                          uint64_t seed, int64_t step,
                                          int64_t firstRow) {
  if (Status status = writeData(source, first, rows); !status.ok())
    return status;
  int64_t counted = 0;
  for (int64_t row = 0; row < batch_; ++row) {
    int32_t *tokens = tokens_ + row * length_;
    int32_t *targets = targets_ ? targets_ + row * length_ : sink_.data();
    if (row >= rows) {
      std::fill_n(tokens, length_, 0);
      std::fill_n(targets, length_, ignoredTarget);
      continue;
    }
    Status status = source.read(first + row, length_, tokens, targets);
    if (!status.ok())
      return status;
    counted += length_ - std::count(targets, targets + length_, ignoredTarget);
  }
  writeRank();
  writeLossScale(counted);
  for (int64_t i = 0; rng_ && i < microbatches_; ++i) {
    int64_t *state = rng_ + rngColumns_ * i;
    state[0] = int64_t(seed);
    state[1] = step;
    state[2] = firstRow + i * (batch_ / microbatches_);
    if (rngColumns_ == 4)
      state[3] = tensorIndex_;
  }
  return counted;
}

void ProgramInputs::writeLossScale(int64_t targets) {
  if (lossScale_)
    *lossScale_ = 1.0 / double(std::max<int64_t>(targets, 1));
}

void ProgramInputs::writeUpdate(double rate, int64_t step, double clip,
                                double gradientScale) {
  if (rate_)
    *rate_ = rate;
  if (step_)
    *step_ = step;
  if (clip_)
    *clip_ = clip;
  if (gradientScale_)
    *gradientScale_ = gradientScale;
}

void ProgramInputs::writePrompt(const int32_t *tokens, int64_t count,
                                const InputTensors *inputs) {
  for (const DataInput &input : dataInputs_)
    if (inputs && !input.info.isBatched)
      inputs->copy(input.info, input.data);
  writeRank();
  std::fill_n(tokens_, batch_ * length_, 0);
  std::copy_n(tokens, count, tokens_);
  if (targets_)
    std::fill_n(targets_, batch_ * length_, ignoredTarget);
  if (lossScale_)
    *lossScale_ = 1.0;
  if (rng_)
    std::fill_n(rng_, rngColumns_ * microbatches_, 0);
  writePosition(count - 1);
}

void ProgramInputs::writeRank() {
  if (tensorRank_)
    *tensorRank_ = int32_t(tensorIndex_);
}

void ProgramInputs::writePosition(int64_t position) {
  if (position_)
    *position_ = position;
}

} // namespace kiln::runtime
