//===- Optimizer.h - The registry of optimizers --------------------------===//
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

/// A numeric option of an optimizer: low <= value < high.
struct OptimizerOption {
  llvm::StringLiteral key;
  double initial, low, high;
};

/// The values that an update is built from. `step` is null unless the rule needs
/// it; `weightDecay` is that of this parameter.
struct UpdateValues {
  mlir::Value parameter;
  llvm::SmallVector<mlir::Value, 2> states;
  mlir::Value gradient, factor, rate, step;
  double weightDecay;
};

/// An optimizer: its name, options and states, and how its update is built.
struct OptimizerRule {
  llvm::StringLiteral name;
  /// Every rule has "weight_decay".
  llvm::SmallVector<OptimizerOption, 4> options;
  /// The names under which files know the states of a parameter, in the order
  /// of the update's operands.
  llvm::SmallVector<llvm::StringLiteral, 2> slots;
  bool needsStep;
  /// Builds the update, whose results are those of UpdateOpInterface.
  UpdateOpInterface (*build)(mlir::OpBuilder &builder, mlir::Location loc,
                             const OptimizerSpec &spec,
                             const UpdateValues &values);
};

/// All optimizers, in the order in which messages list them.
llvm::ArrayRef<OptimizerRule> optimizerRules();

/// Their names as a sentence lists them: "adamw, adam or sgd".
std::string optimizerNames();

/// What a user names: NAME[:key=value,...], for example
/// "adamw:beta1=0.9,weight_decay=0.1". Weight decay applies to parameters of two
/// or more dimensions unless decay=all.
struct OptimizerSpec {
  const OptimizerRule *rule = nullptr;
  bool decayAll = false;
  /// One value per option of the rule.
  llvm::SmallVector<double, 4> values;

  /// The value of an option that the rule has.
  double get(llvm::StringRef key) const;

  /// Parses the text; on failure returns nothing and sets `error` to the reason.
  static std::optional<OptimizerSpec> parse(llvm::StringRef text,
                                            std::string &error);
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_OPTIMIZER_H
