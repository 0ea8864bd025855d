//===- FixedFlags.h - Flags that were fixed when compiling ------*- C++ -*-===//
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

/// Returns the value that a flag of kilnc had when the model was compiled, as
/// text for people; nothing if the description does not have it.
std::optional<std::string> fixedValue(const support::Flag &flag,
                                      const Description &description);

/// Answers a flag of kilnc on the command line of an executable: a sentence
/// that starts with the flag. `description` may be null.
std::string explainFixedFlag(const support::Flag &flag,
                             const Description *description);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_FIXEDFLAGS_H
