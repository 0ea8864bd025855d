//===- Architectures.h - The model types that can be imported ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function per family of architectures: reads its configuration, builds its
// graph. Adding a family is adding such a function, its table of keys
// (ConfigKeys.h) and a row to the table in HuggingFace.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_ARCHITECTURES_H
#define KILN_LIB_IMPORT_ARCHITECTURES_H

#include "ConfigReader.h"

namespace kiln {

/// Limits of what a configuration may say. They keep products of a few
/// dimensions within 64 bits; what the model needs as a whole is checked when
/// its graph is complete.
constexpr int64_t kMaxDimension = int64_t(1) << 28;
constexpr int64_t kMaxVocabulary = INT32_MAX;
constexpr int64_t kMaxLayers = 10000;
constexpr int64_t kMaxHeadDimension = 1 << 16;

/// A forward graph and the facts about it that `kiln.model` records.
struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t vocabulary, batch, sequenceLength;
};

struct ImportRequest {
  mlir::MLIRContext &context;
  ConfigReader &config;
  /// The value of model_type.
  llvm::StringRef type;
  const ImportOptions &options;

  /// The sequence length to compile for. Fails when the model, whose number of
  /// positions is the value of `key`, has fewer.
  llvm::Expected<int64_t> chooseSequenceLength(int64_t positions,
                                               llvm::StringRef key) const;
};

llvm::Expected<ImportedModel> importGpt2(const ImportRequest &request);
/// Llama, and Mistral and Qwen2, which are Llama with other defaults.
llvm::Expected<ImportedModel> importLlama(const ImportRequest &request);

} // namespace kiln

#endif // KILN_LIB_IMPORT_ARCHITECTURES_H
