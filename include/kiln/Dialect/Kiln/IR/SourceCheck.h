//===- SourceCheck.h - Checks before parsing --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_SOURCECHECK_H
#define KILN_DIALECT_KILN_IR_SOURCECHECK_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kiln {

/// MLIR 22 aborts the process if a source has an array attribute of type index,
/// `array<index>`. Returns a description of the first such attribute with its
/// line, or std::nullopt. Every tool calls this function before it parses a
/// file.
std::optional<std::string> findUnparsable(llvm::StringRef source);

/// Returns the first line of a diagnostic. Some diagnostics of MLIR contain
/// whole ops on further lines.
std::string firstLineOf(llvm::StringRef diagnostic);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_SOURCECHECK_H
