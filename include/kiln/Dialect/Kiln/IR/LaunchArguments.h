//===- LaunchArguments.h - Kernel arguments from op attributes --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops that differ only in a random key or a scale share a kernel, and launches
// pass these attributes as arguments (LaunchArgumentsOpInterface). In the
// kernel body, the number of the argument replaces the value of such an
// attribute if the attribute is an integer, and 1.0 replaces it if the
// attribute is an f64. Arguments are numbered in the order of their first use
// in the block. Equal integers share an argument.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_LAUNCHARGUMENTS_H
#define KILN_DIALECT_KILN_IR_LAUNCHARGUMENTS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace kiln {

/// Returns the arguments that the launch of a dispatch with this body passes to
/// the kernel: an IntegerAttr of i64 or a FloatAttr of f64 for each argument.
llvm::SmallVector<mlir::Attribute> launchArgumentsOf(mlir::Block &body);

/// Turns the body of a dispatch into the body of a kernel by replacing the
/// values that launches pass as arguments.
void removeLaunchArguments(mlir::Block &body);

/// Returns the types of the launch arguments of a kernel with this body.
llvm::SmallVector<mlir::Type> launchArgumentTypes(mlir::Block &body);

/// Fails with a diagnostic unless the argument numbers in a kernel body are
/// those that removeLaunchArguments assigns.
llvm::LogicalResult verifyLaunchArguments(mlir::Block &body);

/// Reverts removeLaunchArguments. `arguments` must have the types that
/// launchArgumentTypes() returns.
void bindLaunchArguments(mlir::Block &body,
                         llvm::ArrayRef<mlir::Attribute> arguments);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_LAUNCHARGUMENTS_H
