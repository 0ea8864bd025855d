//===- HuggingFace.h - Model directories to forward graphs ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the config.json of a Hugging Face model directory and builds the
// forward graph that it describes. Nothing of the directory is trusted, run or
// guessed at: a key that would change the computation is honoured or refused by
// name. docs/use/import.md lists what is understood.
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

/// One line for the user, and the code that the program should exit with:
/// BadInput for the directory, Usage for the options.
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

struct ImportOptions {
  /// Sequences per step.
  int64_t batch = 1;
  /// Tokens per sequence; 0 is as many as the model has positions.
  int64_t sequenceLength = 0;
  /// Element type of states and activations, f32 or f64; null is f32.
  mlir::FloatType elementType;
  /// Replaces every dropout probability of the model.
  std::optional<double> dropout;
  /// Keys of config.json that are not honoured and pass with any value; a key
  /// of a nested object is "rope_parameters.KEY".
  std::vector<std::string> ignoredKeys;
};

/// The keys that configurations of each family may have, and what kiln does
/// with them, as JSON: {"transformers": version, "families": {"gpt2": [{"key",
/// "use", "default", ...}, ...], ...}}.
std::string listConfigKeys();

/// True when `path` is a directory, which is how a model directory is told from
/// a file of IR.
bool isModelDirectory(llvm::StringRef path);

/// A module with the model's states, one program @forward and the attribute
/// `kiln.model`: a dictionary of type, name (StringAttr), vocab_size, batch,
/// sequence_length (i64), has_weights (BoolAttr), files (an array of the names
/// of small files of the directory that a saved model needs beside its weights)
/// and unused_tensors (an array of patterns of names of tensors that old weight
/// files hold and the model does not need). The kiln dialect gets loaded into
/// the context.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importHuggingFace(mlir::MLIRContext &context, llvm::StringRef directory,
                  const ImportOptions &options = {});

/// Compares the parameters of `module` with the headers of the directory's
/// safetensors files: the first tensor that is missing, or of another shape, is
/// an error. Further tensors, which the executable refuses unless it is told to
/// ignore them, are a warning. Succeeds when the directory has no such file.
llvm::Error checkWeights(mlir::ModuleOp module, llvm::StringRef directory,
                         std::vector<std::string> &warnings);

/// `config`, the text of a config.json, with the value of `dtype` and of
/// `torch_dtype` at its top replaced by `type`, such as "float32". Every other
/// byte stays. A text without these keys, and one that is no JSON object, is
/// returned as it is.
std::string withStorageType(llvm::StringRef config, llvm::StringRef type);

} // namespace kiln

#endif // KILN_IMPORT_HUGGINGFACE_H
