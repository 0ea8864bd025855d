//===- OutputDirectory.cpp - Atomically created directory -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/OutputDirectory.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputPath.h"
#include "kiln/Support/Posix.h"
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln::support;
namespace fs = std::filesystem;

std::string kiln::support::withoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

bool kiln::support::isNewDirectory(const std::string &path) {
  std::string directory = withoutSlash(path);
  std::error_code error;
  fs::file_status kind = fs::symlink_status(directory, error);
  return !fs::exists(kind) ||
         (fs::is_directory(kind) && fs::is_empty(directory, error) && !error);
}

bool kiln::support::isInside(const std::string &path,
                             const std::string &directory) {
  std::error_code error;
  auto absolute = [&](const std::string &name) {
    return fs::weakly_canonical(fs::absolute(name, error), error);
  };
  fs::path inside =
      absolute(path).lexically_relative(absolute(withoutSlash(directory)));
  return !inside.empty() && *inside.begin() != "..";
}

/// See writeDirectory(), which also syncs the parent directory.
static Status
createDirectory(const std::string &directory,
                const std::function<Status(const std::string &)> &fill) {
  std::string staging = directory + ".tmp-" + std::to_string(::getpid());
  if (::mkdir(staging.c_str(), 0777) != 0)
    return Status::error("cannot create '" + staging +
                         "': " + errnoText(errno));
  Status status = fill(staging);
  // A rename replaces an empty directory, whose permissions are kept.
  struct stat info;
  if (::stat(directory.c_str(), &info) == 0)
    (void)::chmod(staging.c_str(), info.st_mode & 07777);
  if (status.ok() && ::rename(staging.c_str(), directory.c_str()) != 0)
    status = Status::error("cannot rename '" + staging + "' to '" + directory +
                           "': " + errnoText(errno));
  if (!status.ok()) {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
  }
  return status;
}

Status kiln::support::tryDirectory(const std::string &path) {
  std::string directory = withoutSlash(path);
  Result<bool> created = makeDirectory(directory);
  if (!created.ok())
    return created.status();
  Status status =
      createDirectory(directory, [](const std::string &) { return Status(); });
  if (*created)
    (void)::rmdir(directory.c_str());
  return status;
}

Status kiln::support::writeDirectory(
    const std::string &path,
    const std::function<Status(const std::string &)> &fill) {
  std::string directory = withoutSlash(path);
  if (Status status = createDirectory(directory, fill); !status.ok())
    return status;
  if (int error = syncDirectory(parentPath(directory)))
    return Status::error("'" + directory +
                         "' could not be synced: " + errnoText(error));
  return Status();
}
