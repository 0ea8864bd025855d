//===- OutputPath.h - Trying where a run will write -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A path that cannot be written is an error before the work whose result should
// go there, not after it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_OUTPUTPATH_H
#define KILN_SUPPORT_OUTPUTPATH_H

#include "kiln/Support/Status.h"
#include <string>

namespace kiln::support {

/// Fails if OutputFile could not write `path` now. What is there stays as it
/// is, and nothing new stays behind.
Status tryOutputFile(const std::string &path);

/// True if both paths name one regular file, or would once they are written.
bool nameOneFile(const std::string &a, const std::string &b);

/// Makes `path` a directory and returns true if there was none. Only the last
/// component is created: a longer path that does not exist is a mistake.
Result<bool> makeDirectory(const std::string &path);

} // namespace kiln::support

#endif // KILN_SUPPORT_OUTPUTPATH_H
