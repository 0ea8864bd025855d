//===- ByteSize.h - Parsing of byte sizes -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_BYTESIZE_H
#define KILN_COMPILER_BYTESIZE_H

#include "kiln/Support/Status.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace kiln {

/// Parses a size such as "8GiB", "1.5GB", "300MiB", "4096" or "4096B" into
/// bytes. `flag` is the name of the flag that the error message reports. Errors
/// have the exit code Usage.
Result<int64_t> parseByteSize(llvm::StringRef text, llvm::StringRef flag);

} // namespace kiln

#endif // KILN_COMPILER_BYTESIZE_H
