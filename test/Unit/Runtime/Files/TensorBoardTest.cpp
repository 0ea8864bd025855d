//===- TensorBoardTest.cpp - Golden bytes of TensorBoard records ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An independent implementation computed the golden records.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/TensorBoard.h"
#include "FaultInjection.h"
#include "TestFiles.h"
#include <cerrno>

using namespace kiln::runtime;
using namespace kiln;

namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(TensorBoard, Crc32c) { EXPECT_EQ(crc32c("123456789"), 0xe3069283u); }

TEST(TensorBoard, GoldenRecords) {
  EXPECT_EQ(hex(tensorBoardVersionRecord(0.0)),
            "1800000000000000a37f4b220900000000000000001a0d627261696e2e4576656e"
            "743a32eedf28a3");
  EXPECT_EQ(hex(tensorBoardScalarRecord(1.0, 1, "train/loss", 2.5f)),
            "200000000000000029eda95009000000000000f03f10012a130a110a0a74726169"
            "6e2f6c6f73731500002040d1595c87");
}

TEST(TensorBoard, LargeStepIsAVarint) {
  std::string record = tensorBoardScalarRecord(0.0, 300, "t", 0.0f);
  EXPECT_EQ(hex(record.substr(12 + 9, 3)), "10ac02");
}

TEST(TensorBoard, WritesAFileOfRecords) {
  TestDirectory directory;
  Result<TensorBoardLog> log =
      TensorBoardLog::open(directory / "events", nullptr);
  ASSERT_TRUE(log.ok()) << log.status().message();
  log->scalar("train/loss", 1, 2.5);
  log->scalar("train/loss", 2, 2.25);
  std::string bytes = readBytes(log->path());
  int records = 0;
  for (std::size_t at = 0; at < bytes.size(); ++records)
    at += 16 + uint8_t(bytes[at]);
  EXPECT_EQ(records, 3);
  // Two logs that a process opens in the same second use different files.
  Result<TensorBoardLog> second =
      TensorBoardLog::open(directory / "events", nullptr);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(log->path(), second->path());
}

TEST(TensorBoard, FailureIsSaidOnceAndLeavesNoPartialRecord) {
  TestDirectory directory;
  std::vector<std::string> said;
  Result<TensorBoardLog> log = TensorBoardLog::open(
      directory.path(), [&](const std::string &text) { said.push_back(text); });
  ASSERT_TRUE(log.ok());
  std::string before = readBytes(log->path());
  for (int i = 0; i < 3; ++i) {
    Fault fault(1, ENOSPC);
    log->scalar("train/loss", i, 1.0);
  }
  EXPECT_EQ(said.size(), 1u);
  EXPECT_EQ(log->outcome().message(), "3 values of '" + log->path() +
                                          "' could not be written: No space "
                                          "left on device");
  EXPECT_EQ(readBytes(log->path()), before);
  log->scalar("train/loss", 4, 1.0);
  EXPECT_GT(readBytes(log->path()).size(), before.size());
}

TEST(TensorBoard, LeavesNothingWhenNothingWasWritten) {
  TestDirectory directory;
  ASSERT_TRUE(TensorBoardLog::open(directory / "events", nullptr).ok());
  EXPECT_TRUE(directory.names().empty());
}

TEST(TensorBoard, CreatesOneDirectory) {
  TestDirectory directory;
  Result<TensorBoardLog> log =
      TensorBoardLog::open(directory / "deep/er", nullptr);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.status().message(),
            "cannot create the directory '" + directory / "deep/er" + "': '" +
                directory / "deep" +
                "' does not exist; check the path, or create that directory "
                "first");
  EXPECT_TRUE(directory.names().empty());
}

TEST(TensorBoard, OpenFailsBelowAFile) {
  TestDirectory directory;
  directory.put("file", "");
  EXPECT_FALSE(TensorBoardLog::open(directory / "file/x", nullptr).ok());
}

} // namespace
