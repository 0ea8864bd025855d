//===- ByteSize.h - Sizes as people write them ------------------*- C++ -*-===//
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

/// Bytes of "8GiB", "1.5GB", "300MiB", "4096" or "4096B". `flag` names where it
/// was given; a failure has exit code Usage.
Result<int64_t> parseByteSize(llvm::StringRef text, llvm::StringRef flag);

} // namespace kiln

#endif // KILN_COMPILER_BYTESIZE_H
