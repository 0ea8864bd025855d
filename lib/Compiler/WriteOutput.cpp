//===- WriteOutput.cpp - Writing of output files ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A regular file is written under a temporary name and then renamed; see
// WriteOutput.h.
//
//===----------------------------------------------------------------------===//

#include "WriteOutput.h"

#include "kiln/Support/OutputFile.h"
#include "kiln/Support/OutputPath.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace kiln::support;
using namespace kiln;

/// Writes to an existing file that is not a regular file, such as a pipe.
/// Renaming a temporary file to this name would replace the pipe.
static Status writeStream(const std::string &path, StringRef contents) {
  std::error_code failure;
  raw_fd_ostream stream(path, failure);
  if (!failure) {
    stream << contents;
    stream.flush();
    failure = stream.error();
    stream.clear_error();
  }
  if (failure)
    return Status::error("cannot write " +
                         (path == "-" ? "standard output" : "'" + path + "'") +
                         ": " + failure.message());
  return Status();
}

/// Returns true if `path` is standard output or an existing file that is not a
/// regular file.
static bool isStream(const std::string &path) {
  sys::fs::file_status info;
  return path == "-" ||
         (!sys::fs::status(path, info) && sys::fs::exists(info) &&
          !sys::fs::is_regular_file(info));
}

Status kiln::tryOutput(const std::string &path) {
  // Opening a pipe would wait for its reader.
  if (isStream(path))
    return sys::fs::is_directory(path) ? writeStream(path, "") : Status();
  return tryOutputFile(path);
}

Status kiln::writeOutput(const std::string &path, StringRef contents,
                         bool isExecutable) {
  if (isStream(path))
    return writeStream(path, contents);
  Result<OutputFile> file = OutputFile::create(path);
  if (!file.ok())
    return file.status();
  if (isExecutable)
    if (Status status = file->makeExecutable(); !status.ok())
      return status;
  if (Status status = file->reserve(contents.size()); !status.ok())
    return status;
  if (Status status = file->write(contents.data(), contents.size());
      !status.ok())
    return status;
  return file->commit();
}
