//===- LaunchArguments.h - Attributes that launches pass --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two ops that differ only in a random key or in a scale share a kernel. Its
// body has, for every integer attribute that launches pass, the number of the
// argument, and 1 for every real one; an argument's number is its order of
// first appearance in the block, and equal integers share one
// (LaunchArgumentsOpInterface).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_LAUNCHARGUMENTS_H
#define KILN_DIALECT_KILN_IR_LAUNCHARGUMENTS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace kiln {

/// The values that a launch of a kernel with this body passes: IntegerAttr of
/// i64 and FloatAttr of f64. The body is a dispatch's.
llvm::SmallVector<mlir::Attribute> launchArgumentsOf(mlir::Block &body);

/// Turns the body of a dispatch into that of a kernel.
void removeLaunchArguments(mlir::Block &body);

/// The types of the arguments of a kernel with this body.
llvm::SmallVector<mlir::Type> launchArgumentTypes(mlir::Block &body);

/// Fails with a diagnostic unless the numbers of arguments in a kernel's body
/// are as removeLaunchArguments makes them.
llvm::LogicalResult verifyLaunchArguments(mlir::Block &body);

/// The reverse of removeLaunchArguments; `arguments` have the types of
/// launchArgumentTypes.
void bindLaunchArguments(mlir::Block &body,
                         llvm::ArrayRef<mlir::Attribute> arguments);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_LAUNCHARGUMENTS_H
