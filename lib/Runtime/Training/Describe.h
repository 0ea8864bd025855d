//===- Describe.h - Text of --describe --------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_DESCRIBE_H
#define KILN_LIB_RUNTIME_TRAINING_DESCRIBE_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Runtime/Files/EventLog.h"

#include <cstdint>
#include <string>

namespace kiln::runtime {

/// Return the total number of elements of all parameters, and of the trainable
/// parameters.
int64_t parameterCount(const Description &description);
int64_t trainableCount(const Description &description);

/// Returns the sizes of the axes of the mesh, such as " (dp=2, tp=2)", or "" if
/// only the axis of data parallelism has several ranks.
std::string meshText(const Description &description);

/// Returns the properties of the executable as text for users, one
/// "name: value" line per property.
std::string describeText(const Description &description);

/// Adds the model, the compile options and the figures of the plan, except its
/// list of buffers, to `line`, the "start" line of the log.
void addDescription(LogLine &line, const Description &description);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_DESCRIBE_H
