//===- TemporaryDirectory.h - Scoped temporary directory --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_TEMPORARYDIRECTORY_H
#define KILN_LIB_RUNTIME_DIFF_TEMPORARYDIRECTORY_H

#include "kiln/Support/Messages.h"
#include "kiln/Support/Status.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace kiln::runtime {

/// A directory in $TMPDIR, or in /tmp, that the destructor removes.
class TemporaryDirectory {
public:
  TemporaryDirectory() = default;
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty())
      std::filesystem::remove_all(path_, ignored);
  }

  Status create() {
    const char *parent = std::getenv("TMPDIR");
    std::string pattern =
        std::string(parent && *parent ? parent : "/tmp") + "/kiln-diff-XXXXXX";
    if (!::mkdtemp(pattern.data()))
      return Status::error(
          "cannot create the directory " + support::inQuotes(pattern) + ": " +
          support::errnoText(errno) + "; set TMPDIR to a writable directory");
    path_ = pattern;
    return Status();
  }
  std::string file(const std::string &name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_TEMPORARYDIRECTORY_H
