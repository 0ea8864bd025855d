//===- OutputDirectoryTest.cpp - Tests of created directories -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/OutputDirectory.h"
#include "TestFiles.h"
#include "kiln/Support/OutputFile.h"

using namespace kiln::support;
using namespace kiln;

namespace {

TEST(OutputDirectory, WritesAll) {
  TestDirectory directory;
  for (std::string name : {"new", "slash/", "empty"}) {
    if (name == "empty")
      std::filesystem::create_directory(directory / name);
    EXPECT_TRUE(isNewDirectory(directory / name));
    expectOk(writeDirectory(directory / name, [](const std::string &staging) {
      return writeFile(staging + "/a", "text");
    }));
    EXPECT_EQ(readBytes(directory / name + "/a"), "text");
    EXPECT_FALSE(isNewDirectory(directory / name));
  }
  EXPECT_EQ(directory.names(),
            (std::vector<std::string>{"empty", "new", "slash"}));
}

TEST(OutputDirectory, TriesWithoutATrace) {
  TestDirectory directory;
  expectOk(tryDirectory(directory / "new/"));
  std::filesystem::create_directory(directory / "empty");
  expectOk(tryDirectory(directory / "empty"));
  std::filesystem::create_directories(directory / "full/part");
  EXPECT_FALSE(tryDirectory(directory / "full").ok());
  EXPECT_FALSE(tryDirectory(directory / "none/new").ok());
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"empty", "full"}));
}

TEST(OutputDirectory, KnowsWhatIsInside) {
  TestDirectory directory;
  EXPECT_TRUE(isInside(directory / "a/b", directory / "a/"));
  EXPECT_TRUE(isInside(directory / "a", directory / "a"));
  EXPECT_TRUE(isInside(directory / "a/../b/c", directory / "b"));
  EXPECT_FALSE(isInside(directory / "a/../b", directory / "a"));
  EXPECT_FALSE(isInside(directory / "ab", directory / "a"));
}

TEST(OutputDirectory, FailureLeavesNothing) {
  TestDirectory directory;
  Status status =
      writeDirectory(directory / "new", [](const std::string &staging) {
        expectOk(writeFile(staging + "/a", "text"));
        return Status::badInput("no");
      });
  expectBadInput(status, "no");
  EXPECT_TRUE(directory.names().empty());
}

TEST(OutputDirectory, Exists) {
  TestDirectory directory;
  directory.put("file", "text");
  EXPECT_FALSE(isNewDirectory(directory / "file"));
  EXPECT_FALSE(isNewDirectory(directory.path()));
  std::filesystem::create_symlink("nowhere", directory / "link");
  EXPECT_FALSE(isNewDirectory(directory / "link"));
  Status status = writeDirectory(directory / "file",
                                 [](const std::string &) { return Status(); });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(readBytes(directory / "file"), "text");
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"file", "link"}));
}

} // namespace
