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
  /// Output directory, which must either be empty or not exist yet.
  std::string output;
  /// The stored format. "f16" stores all tensors as f16. The name of a
  /// support::PackedFormat stores the weights of linear layers in this format;
  /// all other tensors keep their types.
  std::string format;
  /// File of tokens on which the loss of the model is evaluated before and
  /// after quantization. Empty: the loss is not evaluated.
  std::string validationData;
  /// Batches to evaluate; 0: all.
  int64_t validationBatches = 0;
  /// The executable that evaluates the loss is compiled with these options. The
  /// model, the output and everything that only training needs are set by
  /// quantizeModel(). maxThreads also limits the threads that encode weights.
  CompileOptions evaluation;
};

/// Writes the quantized model, and prints its size. If validation data is
/// given, also prints the loss on this data before and after quantization. If
/// anything fails, nothing is written.
Status quantizeModel(const QuantizeOptions &options);

} // namespace kiln

#endif // KILN_COMPILER_QUANTIZEMODEL_H
