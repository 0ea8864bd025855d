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

/// The types in which a step stores parameters, gradients and optimizer states
/// (moments). They are parsed from a text such as
/// "gradients:bf16,moments:bf16/f32" or "moments:dynamic8". Tensors of a kind
/// that the text does not list have the type of the parameter in full
/// precision.
struct StateTypes {
  /// If set, programs read copies of the parameters (working copies), which
  /// have this type. The parameters themselves are then f32 master copies,
  /// which only updates read.
  std::optional<ElementType> parameters;
  std::optional<ElementType> gradients;
  /// The types of the states of the optimizer in the order of
  /// OptimizerRule::slots. A single type applies to all states.
  llvm::SmallVector<ElementType, 2> moments;
  /// Bit i is set if entry i of `moments` was given as "dynamic8". States that
  /// can be encoded are then stored as 8-bit codes and scales (see Dynamic8.h),
  /// and entry i is the type of the states that cannot be encoded.
  unsigned encodedMoments = 0;

  /// Returns the type of the optimizer state `slot`, or std::nullopt if no type
  /// is given for this state.
  std::optional<ElementType> momentType(unsigned slot) const;
  /// Returns true if the optimizer state `slot` is "dynamic8".
  bool isEncoded(unsigned slot) const;

  /// Returns the reason why these types do not fit a precision such as "bf16",
  /// or an empty string if they do.
  std::string checkPrecision(llvm::StringRef precision) const;

  /// Parses the text, which may be empty or the name of a recipe such as
  /// "fp16-adam". Fails if more types are given than the optimizer `rule` has
  /// states. On failure, returns std::nullopt and sets `error` to the reason.
  static std::optional<StateTypes>
  parse(llvm::StringRef text, const OptimizerRule &rule, std::string &error);
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_STATETYPES_H
