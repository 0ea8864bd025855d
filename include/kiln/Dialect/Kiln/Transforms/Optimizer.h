//===- Optimizer.h - The optimizer a user names -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_OPTIMIZER_H
#define KILN_DIALECT_KILN_TRANSFORMS_OPTIMIZER_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kiln {

/// NAME[:key=value,...], for example "adamw:beta1=0.9,weight_decay=0.1".
/// adamw (decoupled decay), adam (decay added to the gradient), sgd, momentum,
/// nesterov. Decay applies to parameters of two or more dimensions unless
/// decay=all.
struct OptimizerSpec {
  enum class Kind { Adam, Sgd, Momentum };
  Kind kind = Kind::Adam;
  bool decoupled = false;
  bool nesterov = false;
  bool decayAll = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0.0;
  double momentum = 0.9;

  /// Parses the text; on failure returns nothing and says why in `error`.
  static std::optional<OptimizerSpec> parse(llvm::StringRef text,
                                            std::string &error);
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_OPTIMIZER_H
