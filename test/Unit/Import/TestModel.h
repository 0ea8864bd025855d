//===- TestModel.h - Model directories for tests ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Provides small configurations that can be imported, and a model directory
// that exists for the duration of a test.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_IMPORT_TESTMODEL_H
#define KILN_TEST_UNIT_IMPORT_TESTMODEL_H

#include "kiln/Import/HuggingFace.h"
#include "kiln/Support/Json.h"

#include "mlir/IR/MLIRContext.h"

namespace kiln::test {

nlohmann::json gpt2Config();
nlohmann::json llamaConfig();
nlohmann::json mistralConfig();
nlohmann::json qwen2Config();

/// A temporary directory that the destructor removes.
class ModelDirectory {
public:
  ModelDirectory();
  explicit ModelDirectory(const nlohmann::json &config);
  ~ModelDirectory();
  const std::string &path() const { return directory; }
  void write(llvm::StringRef name, llvm::StringRef text) const;

private:
  std::string directory;
};

/// The result of an import: a module, or an error message and its exit code.
struct Imported {
  Imported() = default;
  Imported(Imported &&) = default;
  /// Destroys the old module before the old context, because a module must not
  /// outlive its context.
  Imported &operator=(Imported &&other) {
    module = nullptr;
    context = std::move(other.context);
    module = std::move(other.module);
    error = std::move(other.error);
    code = other.code;
    return *this;
  }
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string error;
  ExitCode code = ExitCode::Done;
};

Imported importDirectory(llvm::StringRef directory,
                         const ImportOptions &options = {});
Imported importConfig(const nlohmann::json &config,
                      const ImportOptions &options = {});

/// Consumes an Error and returns its text.
std::string takeMessage(llvm::Error error);

/// Returns the custom assembly of a module, optionally with locations.
std::string print(mlir::ModuleOp module, bool locations = false);

} // namespace kiln::test

#endif // KILN_TEST_UNIT_IMPORT_TESTMODEL_H
