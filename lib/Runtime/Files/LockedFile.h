//===- LockedFile.h - A file that one run has for itself --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An exclusive flock on a file that is created if needed. A run that ends
// before it has written anything removes the files that it created, so another
// run may have opened such a file already: a lock counts only while the path
// still names the locked file.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_FILES_LOCKEDFILE_H
#define KILN_LIB_RUNTIME_FILES_LOCKEDFILE_H

#include "kiln/Support/Posix.h"

namespace kiln::runtime {

class LockedFile {
public:
  /// Opens `path` with `flags`, such as O_WRONLY, and locks it if it is a
  /// regular file. Returns the errno value of a failed open.
  int open(const std::string &path, int flags);

  int get() const { return file_.get(); }
  bool valid() const { return file_.valid(); }
  bool isRegular() const { return isRegular_; }
  /// 0: the lock is held, or there is none to hold. EWOULDBLOCK: another
  /// process holds it. Else why the file system cannot lock.
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
