//===- Optimizer.h - Registry of optimizers ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_OPTIMIZER_H
#define KILN_DIALECT_KILN_TRANSFORMS_OPTIMIZER_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <optional>
#include <string>

namespace kiln {

struct OptimizerSpec;

/// A numeric option of an optimizer, with its default value and the valid range
/// low <= value < high.
struct OptimizerOption {
  llvm::StringLiteral key;
  double initial, low, high;
};

/// The operands of an update. `factor` multiplies the gradient, and `rate` is
/// the learning rate. `step` is null unless OptimizerRule::needsStep is set.
/// `apply` is null if the update is always applied. `weightDecay` is the weight
/// decay of `parameter`.
struct UpdateValues {
  mlir::Value parameter;
  llvm::SmallVector<mlir::Value, 2> states;
  mlir::Value gradient, factor, rate, step, apply;
  double weightDecay;
};

/// An optimizer: its name, options and states, and the builder of its update.
struct OptimizerRule {
  llvm::StringLiteral name;
  /// Options of the optimizer. Every optimizer has the option "weight_decay".
  llvm::SmallVector<OptimizerOption, 4> options;
  /// Names of the optimizer states of a parameter in files, in the order of the
  /// operands of the update.
  llvm::SmallVector<llvm::StringLiteral, 2> slots;
  bool needsStep;
  /// Builds the update op.
  UpdateOpInterface (*build)(mlir::OpBuilder &builder, mlir::Location loc,
                             const OptimizerSpec &spec,
                             const UpdateValues &values);
  /// Indexes of the slots whose values are never negative.
  llvm::SmallVector<unsigned, 1> nonNegative = {};
};

/// Returns all optimizers, in the order in which messages list them.
llvm::ArrayRef<OptimizerRule> optimizerRules();

/// Returns the names of all optimizers as an enumeration such as "adamw, adam
/// or sgd".
std::string optimizerNames();

/// The parsed value NAME[:key=value,...] of --optimizer, for example
/// "adamw:beta1=0.9,weight_decay=0.1". With "decay=all", weight decay applies
/// to all parameters. Without "decay=all", weight decay applies only to
/// parameters with two or more dimensions.
struct OptimizerSpec {
  const OptimizerRule *rule = nullptr;
  bool decayAll = false;
  /// Values of the options, in the order of OptimizerRule::options.
  llvm::SmallVector<double, 4> values;

  /// Returns the value of the option `key`, which the optimizer must have.
  double get(llvm::StringRef key) const;

  /// Parses the text. On failure, returns std::nullopt and sets `error` to the
  /// reason.
  static std::optional<OptimizerSpec> parse(llvm::StringRef text,
                                            std::string &error);
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_OPTIMIZER_H
