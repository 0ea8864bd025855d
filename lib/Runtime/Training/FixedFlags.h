//===- FixedFlags.h - Values of compile-time flags --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_TRAINING_FIXEDFLAGS_H
#define KILN_RUNTIME_TRAINING_FIXEDFLAGS_H

#include "kiln/Support/Flags.h"

#include <optional>
#include <string>

namespace kiln::runtime {

struct Description;

/// Returns the value of a kilnc flag at compile time as text for users, or
/// nullopt if the description does not record it.
std::optional<std::string> fixedValue(const support::Flag &flag,
                                      const Description &description);

/// Returns the error text for a kilnc flag on the command line of an
/// executable: a sentence that starts with the flag. `description` may be null.
std::string explainFixedFlag(const support::Flag &flag,
                             const Description *description);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_FIXEDFLAGS_H
