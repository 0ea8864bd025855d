//===- Target.h - The name of a module's target -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect knows targets by name alone. TargetBackend.h declares what a
// target answers to passes and code generation.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_TARGET_H
#define KILN_DIALECT_KILN_IR_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectInterface.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

/// The attribute of a module that names its target. kilnc sets it from
/// --target, whatever the file of a model contains.
inline constexpr llvm::StringLiteral kTargetAttr = "kiln.target";

/// The target of a module without the attribute.
inline constexpr llvm::StringLiteral kDefaultTarget = "cpu";

/// The name of a module's target.
llvm::StringRef targetNameOf(mlir::ModuleOp module);

/// Lists the targets that a tool has registered with the kiln dialect. The
/// dialect accepts only their names in `kiln.target`. A tool that registers
/// none reads modules for every target, but runs no pass that asks for a
/// backend.
class TargetNames : public mlir::DialectInterface::Base<TargetNames> {
public:
  explicit TargetNames(mlir::Dialect *dialect) : Base(dialect) {}
  /// The names in the order of registration.
  virtual llvm::SmallVector<llvm::StringRef> getNames() const = 0;
};

/// Joins the items of a list as a sentence does: "a, b or c".
std::string joinWithOr(llvm::ArrayRef<std::string> items);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_TARGET_H
