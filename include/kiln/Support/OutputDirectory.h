//===- OutputDirectory.h - Atomically created directory ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creates a directory with all of its files, or nothing: the files are written
// to a directory with a temporary name next to the destination, which is then
// renamed.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_OUTPUTDIRECTORY_H
#define KILN_SUPPORT_OUTPUTDIRECTORY_H

#include "kiln/Support/Status.h"
#include <functional>
#include <string>

namespace kiln::support {

/// Returns true if `path` names nothing or an empty directory.
bool isNewDirectory(const std::string &path);

/// Returns an error if writeDirectory() cannot create the directory `path`, for
/// which isNewDirectory() must be true, for example because `path` is a mount
/// point or its parent is read-only. Leaves no new file or directory.
Status tryDirectory(const std::string &path);

/// Returns true if `path` is `directory` or lies inside it.
bool isInside(const std::string &path, const std::string &directory);

/// Creates the directory `path`, for which isNewDirectory() must be true.
/// `fill` writes the files into the directory `staging`. If `fill` fails, no
/// file or directory remains.
Status
writeDirectory(const std::string &path,
               const std::function<Status(const std::string &staging)> &fill);

/// Returns `path` without the slashes at its end.
std::string withoutSlash(std::string path);

} // namespace kiln::support

#endif // KILN_SUPPORT_OUTPUTDIRECTORY_H
