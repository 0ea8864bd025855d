//===- Target.h - Name of a module's target ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect contains only the names of targets. TargetBackend.h declares the
// interface of targets to passes and code generation.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_TARGET_H
#define KILN_DIALECT_KILN_IR_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectInterface.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

/// Module attribute with the name of the target. kilnc sets the attribute to
/// the value of --target and ignores the attribute in the input file.
inline constexpr llvm::StringLiteral kTargetAttr = "kiln.target";

/// Target of a module without the attribute `kiln.target`.
inline constexpr llvm::StringLiteral kDefaultTarget = "cpu";

/// Returns the name of a module's target.
llvm::StringRef targetNameOf(mlir::ModuleOp module);

/// Lists the targets that a tool has registered with the kiln dialect. If the
/// list is not empty, the dialect accepts only the names in the list as
/// `kiln.target`. If the list is empty, the dialect accepts every name, but
/// passes that need a backend cannot run.
class TargetNames : public mlir::DialectInterface::Base<TargetNames> {
public:
  explicit TargetNames(mlir::Dialect *dialect) : Base(dialect) {}
  /// Returns the names of the targets in the order of their registration.
  virtual llvm::SmallVector<llvm::StringRef> getNames() const = 0;
};

/// Joins items with commas and a final "or": "a, b or c".
std::string joinWithOr(llvm::ArrayRef<std::string> items);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_TARGET_H
