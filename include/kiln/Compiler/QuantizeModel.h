//===- QuantizeModel.h - Quantization of a saved model ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Post-training quantization: writes the weights of a trained model with fewer
// bits, without training it further. docs/use/ptq.md describes what users see.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_QUANTIZEMODEL_H
#define KILN_COMPILER_QUANTIZEMODEL_H

#include "kiln/Compiler/Compile.h"

namespace kiln {

struct QuantizeOptions {
  /// Directory with config.json and weights in safetensors files.
  std::string model;
  /// Directory to create. It must not exist or be empty.
  std::string output;
  /// "f16", which stores all tensors in that type, or the name of a format of
  /// support::PackedFormat, in which the weights of linear layers are stored;
  /// other tensors keep their types.
  std::string format;
  /// Tokens on which the loss of the model before and after is evaluated;
  /// empty: the loss is not evaluated.
  std::string validationData;
  /// Batches to evaluate; 0: all.
  int64_t validationBatches = 0;
  /// The executable that evaluates the loss is compiled with these options. The
  /// model, the output and everything that only training needs are set by
  /// quantizeModel(). maxThreads also limits the threads that encode weights.
  CompileOptions evaluation;
};

/// Writes the quantized model and prints its size and loss. If anything fails,
/// nothing is written.
Status quantizeModel(const QuantizeOptions &options);

} // namespace kiln

#endif // KILN_COMPILER_QUANTIZEMODEL_H
