//===- HuggingFace.h - Importer of model directories ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the config.json of a Hugging Face model directory and builds the
// forward graph of the model that this file describes. No code of the directory
// is executed. A key that affects the computation is either implemented or
// rejected with an error. docs/use/import.md lists the supported keys.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_IMPORT_HUGGINGFACE_H
#define KILN_IMPORT_HUGGINGFACE_H

#include "kiln/Support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A one-line message for the user and the exit code of the program: BadInput
/// for errors in the directory, Usage for errors in the options.
class ImportError : public llvm::ErrorInfo<ImportError> {
public:
  static char ID;
  ImportError(ExitCode code, std::string message)
      : code(code), text(std::move(message)) {}
  ExitCode getExitCode() const { return code; }
  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }

private:
  ExitCode code;
  std::string text;
};

/// Returns the exit code and the text of an error of an importer; the code of
/// an error that is not an ImportError is ExitCode::BadInput.
support::Status statusOf(llvm::Error error);

struct ImportOptions {
  /// Number of sequences per step.
  int64_t batch = 1;
  /// Number of tokens per sequence; 0: the number of positions of the model.
  int64_t sequenceLength = 0;
  /// Element type of states and activations, f32 or f64; null: f32.
  mlir::FloatType elementType;
  /// Overrides every dropout probability of the model.
  std::optional<double> dropout;
  /// Keys of config.json to accept with any value although kiln does not
  /// implement them. The name of a nested key has the form
  /// "rope_parameters.KEY".
  std::vector<std::string> ignoredKeys;
  /// The number of layers to import, if the model has more; 0: all. All further
  /// layers are left out, as if config.json specified this number of layers.
  int64_t layers = 0;

  /// Returns the number of layers to import from a model with `count` layers.
  int64_t layersOf(int64_t count) const {
    return layers > 0 && layers < count ? layers : count;
  }
};

/// Returns the keys that configurations of each family of models may contain,
/// and how kiln treats them, as JSON: {"transformers": version, "families":
/// {"gpt2": [{"key", "use", "default", ...}, ...], ...}}.
std::string listConfigKeys();

/// Returns true if `path` is a directory, and thus a model to import. A file
/// contains IR instead.
bool isModelDirectory(llvm::StringRef path);

/// Imports a model directory. Returns a module with the model's states, one
/// program @forward and the dictionary attribute `kiln.model`:
///   type, name       strings
///   vocab_size, batch, sequence_length   i64
///   has_weights      bool
///   files            names of the small files of the directory that a saved
///                    model contains in addition to its weights
///   unused_tensors   name patterns of tensors that old weight files contain
///                    and the model does not use
/// Loads the kiln dialect into the context.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importHuggingFace(mlir::MLIRContext &context, llvm::StringRef directory,
                  const ImportOptions &options = {});

/// Compares the parameters of `module` with the headers of the directory's
/// safetensors files. Returns an error for the first tensor that is missing or
/// has a different shape. If the files contain tensors that the model does not
/// use, adds a warning to `warnings`, because an executable rejects these
/// tensors unless --init-ignore names them. Succeeds if the directory has no
/// safetensors files.
llvm::Error checkWeights(mlir::ModuleOp module, llvm::StringRef directory,
                         std::vector<std::string> &warnings);

/// Returns `config`, the text of a config.json, with the values of the
/// top-level keys `dtype` and `torch_dtype` replaced by `type`, such as
/// "float32". All other bytes are unchanged. If `config` has neither key or is
/// not a JSON object, returns `config` unchanged.
std::string withStorageType(llvm::StringRef config, llvm::StringRef type);

} // namespace kiln

#endif // KILN_IMPORT_HUGGINGFACE_H
