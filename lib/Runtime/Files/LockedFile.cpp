//===- LockedFile.cpp - Exclusively locked files --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See LockedFile.h.
//
//===----------------------------------------------------------------------===//

#include "LockedFile.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

int LockedFile::open(const std::string &path, int flags) {
  path_ = path;
  flags |= O_CREAT | O_CLOEXEC;
  for (;;) {
    file_ = Descriptor(::open(path.c_str(), flags | O_EXCL, 0666));
    created_ = file_.valid();
    // If the path is a dangling symbolic link, the call with O_EXCL fails with
    // EEXIST, and the call without O_EXCL creates the target of the link.
    if (!created_ && errno == EEXIST)
      file_ = Descriptor(::open(path.c_str(), flags, 0666));
    if (!file_.valid())
      return errno;
    struct stat own, named;
    isRegular_ = ::fstat(file_.get(), &own) == 0 && S_ISREG(own.st_mode);
    if (!isRegular_)
      return 0;
    lockError_ = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (lockError_ != 0 ||
        (::stat(path.c_str(), &named) == 0 && named.st_dev == own.st_dev &&
         named.st_ino == own.st_ino))
      return 0;
  }
}

void LockedFile::removeIfCreated() {
  if (created_ && lockError_ == 0)
    ::unlink(path_.c_str());
  created_ = false;
}
