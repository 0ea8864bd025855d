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

/// Returns the value that a kilnc flag had when the executable was compiled, as
/// text for users, or nullopt if the description does not contain it.
std::optional<std::string> fixedValue(const support::Flag &flag,
                                      const Description &description);

/// Returns the error text for a flag of kilnc that was passed to an executable.
/// The text is a sentence that starts with the flag. If `description` is null,
/// the text does not contain the value of the flag.
std::string explainFixedFlag(const support::Flag &flag,
                             const Description *description);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_FIXEDFLAGS_H
