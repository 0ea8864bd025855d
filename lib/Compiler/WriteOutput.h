//===- WriteOutput.h - Writing of output files ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_WRITEOUTPUT_H
#define KILN_LIB_COMPILER_WRITEOUTPUT_H

#include "kiln/Support/Status.h"

#include "llvm/ADT/StringRef.h"

namespace kiln {

/// Writes a file atomically: a regular file appears under its name only when it
/// is complete on disk. "-" is standard output; devices and pipes are written
/// directly.
Status writeOutput(const std::string &path, llvm::StringRef contents,
                   bool isExecutable = false);

/// Fails if writeOutput() could not write `path` now. Leaves existing files
/// unchanged and creates no new ones. Devices and pipes are not tried.
Status tryOutput(const std::string &path);

} // namespace kiln

#endif // KILN_LIB_COMPILER_WRITEOUTPUT_H
