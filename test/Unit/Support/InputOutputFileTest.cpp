//===- InputOutputFileTest.cpp - Tests of file input and output -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that a reader detects every change of its file, and that a writer
// leaves either the old contents or the complete new contents.
//
//===----------------------------------------------------------------------===//

#include "FaultInjection.h"
#include "TestFiles.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputFile.h"
#include "kiln/Support/Process.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln::support;
using namespace kiln;

namespace {

TEST(Messages, ArePrintable) {
  EXPECT_EQ(inQuotes("a\n\x1b\xff"), "'a\\x0a\\x1b\\xff'");
  EXPECT_EQ(inQuotes(std::string(200, 'x'), 5), "'xxxxx...'");
  EXPECT_EQ(shapeText({2, 3}), "[2, 3]");
  EXPECT_EQ(shapeText({}), "[]");
}

TEST(InputFile, ReadsRanges) {
  TestDirectory directory;
  Result<InputFile> file = InputFile::open(directory.put("f", "0123456789"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->size(), 10u);
  char buffer[4] = {};
  expectOk(file->read(7, buffer, 3));
  EXPECT_STREQ(buffer, "789");
  expectOk(file->read(10, buffer, 0));
  expectBadInput(file->read(8, buffer, 3), "cannot read 3 bytes at offset 8");
  expectBadInput(file->read(UINT64_MAX, buffer, 3), "cannot read");
}

TEST(InputFile, AcceptsOnlyRegularFiles) {
  TestDirectory directory;
  expectBadInput(InputFile::open(directory / "none").status(), "No such file");
  expectBadInput(InputFile::open(directory.path()).status(), "is a directory");
  expectBadInput(InputFile::open("/dev/zero").status(), "is a device");
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  expectBadInput(InputFile::open(directory / "fifo").status(), "is a pipe");
}

TEST(InputFile, NoticesChanges) {
  TestDirectory directory;
  char buffer[4];
  Result<InputFile> shrunk = InputFile::open(directory.put("s", "0123456789"));
  ASSERT_EQ(::truncate((directory / "s").c_str(), 5), 0);
  expectBadInput(shrunk->read(0, buffer, 4), "it had 10 bytes and now has 5");

  Result<InputFile> written = InputFile::open(directory.put("w", "0123456789"));
  timespec past[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (directory / "w").c_str(), past, 0), 0);
  expectBadInput(written->read(0, buffer, 4), "was written to");

  // A new file under the same name has no effect: the old file is still open.
  Result<InputFile> replaced =
      InputFile::open(directory.put("r", "0123456789"));
  ASSERT_EQ(::rename(directory.put("other", "abc").c_str(),
                     (directory / "r").c_str()),
            0);
  expectOk(replaced->read(0, buffer, 4));
}

TEST(InputFile, SiblingsStayInside) {
  TestDirectory directory;
  directory.put("shard", "x");
  std::filesystem::create_directory(directory / "inner");
  std::filesystem::create_symlink("../shard", directory / "inner/link");
  std::string inner = directory / "inner";
  EXPECT_TRUE(InputFile::openSibling(directory.path(), "shard").ok());
  for (const char *name :
       {"../shard", "..", ".", "", "/etc/passwd", "a/b", "a\nb", "..\\shard"})
    expectBadInput(InputFile::openSibling(inner, name).status(),
                   "is invalid: expected the name of a file in this directory");
  expectBadInput(InputFile::openSibling(inner, "link").status(),
                 "symbolic link");
  expectBadInput(InputFile::openSibling(inner, "none").status(), "No such");
}

// snapshots/<revision>/ of a Hugging Face cache contains links to blobs/.
TEST(InputFile, SiblingsInAHuggingFaceCache) {
  TestDirectory directory;
  std::string snapshot = directory / "snapshots/abc";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directory(directory / "blobs");
  directory.put("blobs/1234", "x");
  directory.put("secret", "x");
  std::filesystem::create_symlink("../../blobs/1234", snapshot + "/shard");
  std::filesystem::create_symlink("../../secret", snapshot + "/bad");
  EXPECT_TRUE(InputFile::openSibling(snapshot, "shard").ok());
  expectBadInput(InputFile::openSibling(snapshot, "bad").status(),
                 "symbolic link");
}

TEST(OutputFile, ReplacesWhole) {
  TestDirectory directory;
  std::string path = directory.put("f", "old");
  {
    Result<OutputFile> file = OutputFile::create(path);
    ASSERT_TRUE(file.ok());
    expectOk(file->reserve(1 << 20)); // More than is written below.
    expectOk(file->write("new ", 4));
    expectOk(file->write("text", 4));
    EXPECT_EQ(readBytes(path), "old");
    expectOk(file->commit());
    EXPECT_EQ(file->bytesWritten(), 8u);
    EXPECT_EQ(file->hash().size(), 32u);
  }
  EXPECT_EQ(readBytes(path), "new text");
  EXPECT_EQ(directory.names(), std::vector<std::string>{"f"});
}

TEST(OutputFile, HashIsThatOfXxhsum) {
  TestDirectory directory;
  Result<OutputFile> file = OutputFile::create(directory / "f");
  ASSERT_TRUE(file.ok());
  // Published XXH3-128 of the empty input with seed 0.
  EXPECT_EQ(file->hash(), "99aa06d3014798d86001c324468d497f");
}

TEST(OutputFile, WithoutCommitNothingStays) {
  TestDirectory directory;
  std::string path = directory.put("f", "old");
  {
    Result<OutputFile> file = OutputFile::create(path);
    expectOk(file->write("new", 3));
  }
  EXPECT_EQ(readBytes(path), "old");
  EXPECT_EQ(directory.names(), std::vector<std::string>{"f"});
}

TEST(OutputFile, FollowsLinksAndSparesDevices) {
  TestDirectory directory;
  directory.put("target", "old");
  std::filesystem::create_symlink("target", directory / "link");
  expectOk(writeFile(directory / "link", "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link"));
  EXPECT_EQ(readBytes(directory / "target"), "new");
  Status status = writeFile("/dev/full", "x");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("not a regular file"), std::string::npos);
  EXPECT_FALSE(writeFile(directory.path(), "x").ok());
  // Even root cannot create a file in a path below a regular file.
  EXPECT_FALSE(writeFile(directory / "target/x", "x").ok());
}

TEST(OutputFile, EveryFaultLeavesOldOrNew) {
  for (int error : {EIO, ENOSPC}) {
    bool fired = true;
    for (int call = 1; fired; ++call) {
      TestDirectory directory;
      std::string path = directory.put("f", "old");
      Status status;
      {
        Fault fault(call, error);
        status = writeFile(path, "new text");
        fired = fault.fired();
      }
      EXPECT_EQ(status.ok(), !fired) << call;
      std::string content = readBytes(path);
      EXPECT_TRUE(content == "new text" || (fired && content == "old")) << call;
      EXPECT_EQ(directory.names(), std::vector<std::string>{"f"}) << call;
      if (fired)
        EXPECT_EQ(status.code(), ExitCode::Error);
    }
  }
}

TEST(OutputFile, FileSizeLimitIsAnError) {
  prepareProcess();
  TestDirectory directory;
  rlimit old;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = {4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status = writeFile(directory / "f", std::string(10'000, 'x'));
  Result<OutputFile> reserved = OutputFile::create(directory / "g");
  Status reservation = reserved->reserve(10'000);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("File too large"), std::string::npos);
  EXPECT_FALSE(reservation.ok());
  *reserved = std::move(*OutputFile::create(directory / "h"));
  EXPECT_FALSE(std::filesystem::exists(directory / "f"));
}

} // namespace
