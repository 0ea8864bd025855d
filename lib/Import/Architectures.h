//===- Architectures.h - Importers of model architectures -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares one importer per family of architectures. An importer reads a
// configuration and builds the graph. A new family needs an importer, a table
// of keys (ConfigKeys.h) and a row of the table in HuggingFace.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_ARCHITECTURES_H
#define KILN_LIB_IMPORT_ARCHITECTURES_H

#include "ConfigReader.h"

namespace kiln {

/// Upper bounds of configuration values. They keep products of two dimensions
/// within 64 bits; the total size of the model is checked once its graph is
/// complete.
constexpr int64_t kMaxDimension = int64_t(1) << 28;
constexpr int64_t kMaxVocabulary = INT32_MAX;
constexpr int64_t kMaxLayers = 10000;
constexpr int64_t kMaxHeadDimension = 1 << 16;

/// A forward graph and the dimensions that the attribute `kiln.model` stores.
struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t vocabulary, batch, sequenceLength;
};

struct ImportRequest {
  mlir::MLIRContext &context;
  ConfigReader &config;
  /// The value of the configuration key model_type.
  llvm::StringRef type;
  const ImportOptions &options;

  /// Returns the sequence length to compile for. Fails if it exceeds
  /// `positions`, the number of positions of the model. `key` is the
  /// configuration key that sets `positions`; the error message names it.
  llvm::Expected<int64_t> chooseSequenceLength(int64_t positions,
                                               llvm::StringRef key) const;
};

llvm::Expected<ImportedModel> importGpt2(const ImportRequest &request);
/// Imports Llama, and also Mistral and Qwen2, which are Llama with different
/// defaults.
llvm::Expected<ImportedModel> importLlama(const ImportRequest &request);

} // namespace kiln

#endif // KILN_LIB_IMPORT_ARCHITECTURES_H
