//===- StateTypes.h - Storage types by class of state -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_STATETYPES_H
#define KILN_DIALECT_KILN_TRANSFORMS_STATETYPES_H

#include "kiln/Support/ElementType.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kiln {

struct OptimizerRule;

/// The types in which a step stores parameters, gradients and optimizer states,
/// for example "gradients:bf16,moments:bf16/f32" or "moments:dynamic8". A class
/// that is not listed has the type of the parameter in full precision.
struct StateTypes {
  /// The type of the working copies of parameters, which programs read. The
  /// parameters themselves are then master copies of f32, which only updates
  /// read.
  std::optional<ElementType> parameters;
  std::optional<ElementType> gradients;
  /// The types of the states of the optimizer in the order of
  /// OptimizerRule::slots. A single type applies to all states.
  llvm::SmallVector<ElementType, 2> moments;
  /// Bit i is set if entry i of `moments` is "dynamic8": 8-bit codes and scales
  /// (Dynamic8.h) of those states that can be encoded. The entry then has the
  /// type of all other states.
  unsigned encodedMoments = 0;

  /// Returns the type of the optimizer state `slot`, or std::nullopt if none is
  /// given.
  std::optional<ElementType> momentType(unsigned slot) const;
  /// Returns true if the optimizer state `slot` is "dynamic8".
  bool isEncoded(unsigned slot) const;

  /// Returns why these types do not fit a precision such as "bf16", or an empty
  /// string if they do.
  std::string checkPrecision(llvm::StringRef precision) const;

  /// Parses the text, which may be empty or the name of a recipe such as
  /// "fp16-adam". Fails if the optimizer `rule` has
  /// fewer states than types are given. On failure, returns std::nullopt and
  /// sets `error` to the reason.
  static std::optional<StateTypes>
  parse(llvm::StringRef text, const OptimizerRule &rule, std::string &error);
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_STATETYPES_H
