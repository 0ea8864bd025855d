//===- LockedFile.h - Exclusively locked files ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file with an exclusive flock. open() creates the file if it does not exist.
// A run that has created the file removes the file if the run ends before it
// has written anything. Another run may have opened the file before the
// removal. Therefore a lock counts as held only while the path still refers to
// the locked file.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_FILES_LOCKEDFILE_H
#define KILN_LIB_RUNTIME_FILES_LOCKEDFILE_H

#include "kiln/Support/Posix.h"

namespace kiln::runtime {

class LockedFile {
public:
  /// Opens `path` with `flags`, such as O_WRONLY. Tries to lock the file if it
  /// is a regular file (see lockError()). Returns 0, or errno if the file
  /// cannot be opened.
  int open(const std::string &path, int flags);

  int get() const { return file_.get(); }
  bool valid() const { return file_.valid(); }
  bool isRegular() const { return isRegular_; }
  /// Returns 0 if the lock is held or the file is not a regular file,
  /// EWOULDBLOCK if another process holds the lock, or another errno value if
  /// the file system failed to lock the file.
  int lockError() const { return lockError_; }
  /// Removes the file if open() created and locked it.
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
