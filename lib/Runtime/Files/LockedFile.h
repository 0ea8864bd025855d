//===- LockedFile.h - Exclusively locked files ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file with an exclusive flock, which is created if needed. A run that ends
// before it writes removes the files that it created, and another run may have
// opened such a file in the meantime. Therefore a lock is valid only while the
// path still refers to the locked file.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_FILES_LOCKEDFILE_H
#define KILN_LIB_RUNTIME_FILES_LOCKEDFILE_H

#include "kiln/Support/Posix.h"

namespace kiln::runtime {

class LockedFile {
public:
  /// Opens `path` with `flags`, such as O_WRONLY, and locks it if it is a
  /// regular file. Returns 0, or the errno value of a failed open.
  int open(const std::string &path, int flags);

  int get() const { return file_.get(); }
  bool valid() const { return file_.valid(); }
  bool isRegular() const { return isRegular_; }
  /// Returns 0 if the lock is held or the file is not regular, EWOULDBLOCK if
  /// another process holds the lock, and otherwise the error of the file
  /// system.
  int lockError() const { return lockError_; }
  /// Removes the file if open() created it.
  void removeIfCreated();

private:
  std::string path_;
  support::Descriptor file_;
  bool isRegular_ = false;
  bool created_ = false;
  int lockError_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_FILES_LOCKEDFILE_H
