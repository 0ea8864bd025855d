//===- OutputPathTest.cpp - Tests of output path checks -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/OutputPath.h"
#include "FaultInjection.h"
#include "TestFiles.h"
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln::support;
using namespace kiln;

namespace {

TEST(OutputPath, TryingChangesNothing) {
  TestDirectory directory;
  std::string old = directory.put("old", "text");
  EXPECT_TRUE(tryOutputFile(old).ok());
  EXPECT_TRUE(tryOutputFile(directory / "new").ok());
  EXPECT_EQ(readBytes(old), "text");
  EXPECT_EQ(directory.names(), std::vector<std::string>{"old"});
}

TEST(OutputPath, TryingFailsWhereWritingWould) {
  TestDirectory directory;
  EXPECT_FALSE(tryOutputFile(directory / "nowhere/file").ok());
  EXPECT_FALSE(tryOutputFile(directory.path()).ok());
  // A FIFO is not opened, because opening it would block.
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(tryOutputFile(directory / "fifo").ok());
  for (int call : {1, 2}) {
    Fault fault(call, ENOSPC);
    EXPECT_FALSE(tryOutputFile(directory / "full").ok());
    EXPECT_TRUE(fault.fired());
  }
  EXPECT_EQ(directory.names(), std::vector<std::string>{"fifo"});
}

TEST(OutputPath, TwoNamesOfOneFile) {
  TestDirectory directory;
  std::string file = directory.put("file", "");
  ASSERT_EQ(::symlink("file", (directory / "link").c_str()), 0);
  EXPECT_TRUE(nameOneFile(file, directory / "link"));
  EXPECT_TRUE(nameOneFile(file, directory / "./file"));
  EXPECT_FALSE(nameOneFile(file, directory / "other"));
  EXPECT_TRUE(nameOneFile(directory / "new", directory / "./new"));
  EXPECT_FALSE(nameOneFile(directory / "new", directory / "newer"));
  EXPECT_FALSE(nameOneFile("/dev/null", "/dev/null"));
}

TEST(OutputPath, MakesOneDirectory) {
  TestDirectory directory;
  EXPECT_TRUE(*makeDirectory(directory / "a"));
  EXPECT_FALSE(*makeDirectory(directory / "a"));
  EXPECT_TRUE(*makeDirectory(directory / "a/b/"));
  EXPECT_FALSE(makeDirectory(directory / "c/d").ok());
  EXPECT_FALSE(makeDirectory(directory.put("file", "")).ok());
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"a", "file"}));
}

} // namespace
