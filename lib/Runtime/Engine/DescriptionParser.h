//===- DescriptionParser.h - Reads program metadata -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_DESCRIPTIONPARSER_H
#define KILN_LIB_RUNTIME_ENGINE_DESCRIPTIONPARSER_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/JsonReader.h"

namespace kiln::runtime {

/// Reads all members of a program description except "arena", "queues",
/// "states" and "programs", which the caller reads. The ReadFailure of `root`
/// records errors.
void readDescription(const support::Node &root, Description &description);

/// Reads one element of "states" except its "arena", "offset" and "bytes".
StateInfo readState(const support::Node &node, const Description &description);

/// Reads the name, dtype and shape of an input or output.
ValueInfo readValue(const support::Node &node);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_DESCRIPTIONPARSER_H
