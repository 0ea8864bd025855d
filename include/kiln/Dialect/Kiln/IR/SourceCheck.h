//===- SourceCheck.h - Sources, and what MLIR says of them ------*- C++ -*-===//
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

/// MLIR 22 ends the process when a source has an array attribute of type index,
/// `array<index>`. Returns what is wrong and where, or nothing. Every tool asks
/// before it parses a file.
std::optional<std::string> findUnparsable(llvm::StringRef source);

/// The first line of a diagnostic. MLIR prints whole ops into some of them.
std::string firstLineOf(llvm::StringRef diagnostic);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_SOURCECHECK_H
