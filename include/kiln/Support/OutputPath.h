//===- OutputPath.h - Checks of output paths --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks output paths early, before the program computes the contents of the
// files.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_OUTPUTPATH_H
#define KILN_SUPPORT_OUTPUTPATH_H

#include "kiln/Support/Status.h"
#include <string>

namespace kiln::support {

/// Fails if OutputFile could not write `path` now. Leaves existing files
/// unchanged and creates no new ones.
Status tryOutputFile(const std::string &path);

/// Returns true if both paths refer to one regular file, or if neither file
/// exists and writing to both paths would create only one file.
bool nameOneFile(const std::string &a, const std::string &b);

/// Creates the directory `path` and returns true, or returns false if it
/// exists. Creates only the last component: a missing parent is an error.
Result<bool> makeDirectory(const std::string &path);

} // namespace kiln::support

#endif // KILN_SUPPORT_OUTPUTPATH_H
