//===- TargetRegistry.h - Targets by name -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tool registers the targets that it needs with its DialectRegistry; the kiln
// dialect of each context then has a backend for each of them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_INTERFACE_TARGETREGISTRY_H
#define KILN_TARGET_INTERFACE_TARGETREGISTRY_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Target/Interface/TargetBackend.h"

#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>
#include <string>
#include <vector>

namespace kiln {

/// The backends of a context. It is the only implementation of TargetNames.
class TargetRegistry final : public TargetNames {
public:
  using TargetNames::TargetNames;

  /// The registry of a dialect, which is created at first use. Only for the
  /// time before passes run: the dialect is changed without a lock.
  static TargetRegistry &of(KilnDialect &dialect);
  /// The registry of a context; null if nothing was registered.
  static const TargetRegistry *lookup(mlir::MLIRContext &context);

  /// Adds a backend. A context applies the extensions of a DialectRegistry
  /// again when it is extended, so a name that is known keeps its backend.
  void add(std::unique_ptr<TargetBackend> backend);

  /// The backend with a name, or null.
  const TargetBackend *find(llvm::StringRef name) const;

  llvm::SmallVector<llvm::StringRef> getNames() const override;

  /// Lists the targets for which `has` is true, such as "cuda or cuda-emu".
  std::string
  listNames(llvm::function_ref<bool(const TargetBackend &)> has) const;

private:
  std::vector<std::unique_ptr<TargetBackend>> backends;
};

/// Registers a target with the kiln dialect of each context that uses
/// `registry`.
template <typename Backend>
void registerTarget(mlir::DialectRegistry &registry) {
  registry.addExtension(+[](mlir::MLIRContext *, KilnDialect *dialect) {
    TargetRegistry::of(*dialect).add(std::make_unique<Backend>());
  });
}

/// The backend of a module's target. Without one, reports an error on the
/// module and returns null.
const TargetBackend *backendOf(mlir::ModuleOp module);

/// Makes `backend` the target of a module.
void setTarget(mlir::ModuleOp module, const TargetBackend &backend);

} // namespace kiln

#endif // KILN_TARGET_INTERFACE_TARGETREGISTRY_H
