//===- NonFinite.h - Search for infinities and NaNs -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_NONFINITE_H
#define KILN_LIB_RUNTIME_TRAINING_NONFINITE_H

#include "kiln/Runtime/Engine/Engine.h"

#include <string>

namespace kiln::runtime {

/// Returns true if any of `count` elements is infinite or NaN.
bool hasNonFinite(ElementType type, const char *data, int64_t count);

/// An observer of Engine::runObserved() that finds the first command with a
/// result that is not finite.
class NonFiniteFinder {
public:
  void operator()(const OpResult &result);
  /// Returns the name of the command, or "" if all results are finite. Buffers
  /// of unknown type and buffers that are only partly written are not searched.
  const std::string &name() const { return name_; }

private:
  std::string name_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_NONFINITE_H
