//===- TargetRegistry.h - Registry of the targets of a context --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tool registers the targets that it needs with its DialectRegistry. The kiln
// dialect of each context then owns a backend for each registered target.
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

/// The backends of a context. This is the only implementation of TargetNames.
class TargetRegistry final : public TargetNames {
public:
  using TargetNames::TargetNames;

  /// Returns the registry of a dialect and creates it on first use. May be
  /// called only before passes run, because it changes the dialect without a
  /// lock.
  static TargetRegistry &of(KilnDialect &dialect);
  /// Returns the registry of a context, or null if no target is registered.
  static const TargetRegistry *lookup(mlir::MLIRContext &context);

  /// Adds a backend, unless a backend of the same name exists. The check is
  /// necessary because a context may apply the extensions of a DialectRegistry
  /// more than once.
  void add(std::unique_ptr<TargetBackend> backend);

  /// Returns the backend with this name, or null if there is none.
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

/// Returns the backend of a module's target. Reports an error on the module and
/// returns null if the target is not registered.
const TargetBackend *backendOf(mlir::ModuleOp module);

/// Sets the target of a module.
void setTarget(mlir::ModuleOp module, const TargetBackend &backend);

} // namespace kiln

#endif // KILN_TARGET_INTERFACE_TARGETREGISTRY_H
