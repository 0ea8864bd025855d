//===- OutputPath.cpp - Checks of output paths ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See OutputPath.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/OutputPath.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputFile.h"
#include "kiln/Support/Posix.h"
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>

using namespace kiln::support;

Status kiln::support::tryOutputFile(const std::string &path) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file.ok())
    return file.status();
  // Write a page, because writing may fail (full disk, quota) although the file
  // can be created.
  char page[4096] = {};
  return file->write(page, sizeof page);
}

bool kiln::support::nameOneFile(const std::string &a, const std::string &b) {
  struct stat first, second;
  bool hasFirst = ::stat(a.c_str(), &first) == 0;
  bool hasSecond = ::stat(b.c_str(), &second) == 0;
  if (hasFirst && hasSecond)
    return S_ISREG(first.st_mode) && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
  std::error_code error, otherError;
  return !hasFirst && !hasSecond &&
         std::filesystem::weakly_canonical(a, error) ==
             std::filesystem::weakly_canonical(b, otherError) &&
         !error && !otherError;
}

Result<bool> kiln::support::makeDirectory(const std::string &path) {
  if (::mkdir(path.c_str(), 0777) == 0)
    return true;
  int error = errno;
  struct stat info;
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 &&
      S_ISDIR(info.st_mode))
    return false;
  std::string plain = path;
  while (plain.size() > 1 && plain.back() == '/')
    plain.pop_back();
  std::string parent = parentPath(plain);
  // mkdir reports EEXIST if `path` is an existing file.
  std::string detail = errnoText(error == EEXIST ? ENOTDIR : error) +
                       "; choose another directory";
  if (error == ENOENT && ::stat(parent.c_str(), &info) != 0)
    detail = inQuotes(parent, 4096) +
             " does not exist; check the path, or create that directory first";
  return Status::error("cannot create the directory '" + path + "': " + detail);
}
