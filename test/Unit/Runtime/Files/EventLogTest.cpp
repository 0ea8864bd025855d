//===- EventLogTest.cpp - Tests of the JSON-lines log ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests of the number format, of resuming, and of a full disk.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/EventLog.h"
#include "FaultInjection.h"
#include "TestFiles.h"
#include "kiln/Support/Json.h"
#include <cerrno>
#include <cmath>
#include <limits>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

LogLine step(int64_t number) {
  return LogLine().integer("step", number).real("loss", 1.0 / number);
}

Result<EventLog> open(const std::string &path,
                      std::optional<int64_t> resumed = {}) {
  Result<EventLog> log = EventLog::open(path, [](const std::string &text) {
    FAIL() << "unexpected warning: " << text;
  });
  if (log.ok())
    EXPECT_TRUE(log->begin(resumed).ok());
  return log;
}

TEST(EventLog, LineFormat) {
  EXPECT_EQ(LogLine()
                .text("event", "start \"x\"")
                .integer("step", -3)
                .real("loss", 0.1)
                .real("lr", 1e-300)
                .real("one", 1.0)
                .boolean("ok", true)
                .json("plan", "{\"a\":[1]}")
                .finish(),
            "{\"event\":\"start \\\"x\\\"\",\"step\":-3,"
            "\"loss\":0.10000000000000001,\"lr\":1e-300,"
            "\"one\":1,\"ok\":true,\"plan\":{\"a\":[1]}}\n");
  EXPECT_EQ(LogLine().finish(), "{}\n");
}

TEST(EventLog, EveryRealComesBack) {
  for (double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.5}) {
    std::string line = LogLine().real("x", value).finish();
    EXPECT_EQ((*parseJson(line, "line"))["x"].get<double>(), value);
  }
}

TEST(EventLog, NonfiniteIsNullAndNamed) {
  double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(LogLine().real("loss", NAN).real("norm", inf).finish(),
            "{\"loss\":null,\"norm\":null,\"nonfinite\":\"nan\"}\n");
  EXPECT_EQ(LogLine().real("loss", -inf).finish(),
            "{\"loss\":null,\"nonfinite\":\"-inf\"}\n");
}

TEST(EventLog, ResumeCutsLaterSteps) {
  TestDirectory directory;
  std::string path = directory / "log.jsonl";
  {
    Result<EventLog> log = open(path);
    ASSERT_TRUE(log.ok());
    log->write(LogLine().text("event", "start"));
    for (int i = 1; i <= 5; ++i)
      log->write(step(i));
    log->write(LogLine().text("event", "end").integer("steps", 5));
  }
  std::string five = readBytes(path);
  // Resuming at the last step keeps all lines.
  ASSERT_TRUE(open(path, 5).ok());
  EXPECT_EQ(readBytes(path), five);
  // A crash within a line leaves an incomplete line.
  directory.put("log.jsonl", five + "{\"step\": 6, \"lo");
  ASSERT_TRUE(open(path, 5).ok());
  EXPECT_EQ(readBytes(path), five);
  {
    Result<EventLog> log = open(path, 3);
    ASSERT_TRUE(log.ok());
    log->write(step(4));
  }
  EXPECT_EQ(readBytes(path), five.substr(0, five.find("{\"step\":5")));
  // Without a resume, the file is truncated.
  ASSERT_TRUE(open(path).ok());
  EXPECT_EQ(readBytes(path), "");
}

TEST(EventLog, ResumeKeepsForeignLines) {
  TestDirectory directory;
  std::string text = "garbage\n{\"step\": \"x\"}\n[1]\n" +
                     std::string(3 << 20, 'x') + "\n{\"step\":2}\n";
  std::string path = directory.put("log.jsonl", text + "{\"step\":9}\n");
  ASSERT_TRUE(open(path, 2).ok());
  EXPECT_EQ(readBytes(path), text);
}

TEST(EventLog, KeepsAFileUntilItBegins) {
  TestDirectory directory;
  std::string old = directory.put("old.jsonl", "{\"step\":1}\n");
  for (const std::string &path : {old, directory / "new.jsonl"})
    ASSERT_TRUE(EventLog::open(path, nullptr).ok());
  EXPECT_EQ(readBytes(old), "{\"step\":1}\n");
  EXPECT_EQ(directory.names(), std::vector<std::string>{"old.jsonl"});
  ASSERT_TRUE(open(directory / "new.jsonl").ok());
  EXPECT_EQ(directory.names().size(), 2u);
}

TEST(EventLog, OneRunWritesAFile) {
  TestDirectory directory;
  std::string path = directory / "log.jsonl";
  {
    Result<EventLog> log = open(path);
    ASSERT_TRUE(log.ok());
    log->write(step(1));
    Result<EventLog> second = EventLog::open(path, nullptr);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.status().message().find("in use by another run"),
              std::string::npos);
    log->write(step(2));
  }
  EXPECT_EQ(readBytes(path), step(1).finish() + step(2).finish());
  EXPECT_TRUE(open(path, 2).ok());
  // Device files are not locked, so two runs can write to /dev/null.
  Result<EventLog> one = open("/dev/null"), other = open("/dev/null");
  EXPECT_TRUE(one.ok() && other.ok());
}

TEST(EventLog, WritesThroughALinkToAFileThatDoesNotExist) {
  TestDirectory directory;
  ASSERT_EQ(::symlink("real.jsonl", (directory / "link").c_str()), 0);
  {
    Result<EventLog> log = open(directory / "link");
    ASSERT_TRUE(log.ok()) << log.status().message();
    log->write(step(1));
  }
  EXPECT_EQ(readBytes(directory / "real.jsonl"), step(1).finish());
}

TEST(EventLog, FullDeviceIsSaidOnce) {
  std::vector<std::string> said;
  Result<EventLog> log = EventLog::open(
      "/dev/full", [&](const std::string &text) { said.push_back(text); });
  ASSERT_TRUE(log.ok()) << log.status().message();
  ASSERT_TRUE(log->begin({}).ok());
  EXPECT_TRUE(log->outcome().ok());
  for (int i = 1; i <= 10; ++i)
    log->write(step(i));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("No space left"), std::string::npos);
  EXPECT_EQ(log->linesLost(), 10);
  EXPECT_EQ(log->outcome().message(),
            "10 lines of the log '/dev/full' could not be written: No space "
            "left on device");
}

TEST(EventLog, NoPartialLineAfterAFailure) {
  TestDirectory directory;
  std::string path = directory / "log.jsonl";
  int said = 0;
  Result<EventLog> log =
      EventLog::open(path, [&](const std::string &) { ++said; });
  ASSERT_TRUE(log.ok() && log->begin({}).ok());
  log->write(step(1));
  {
    Fault fault(1, ENOSPC); // The failing write stores half of the line.
    log->write(step(2));
    EXPECT_TRUE(fault.fired());
  }
  EXPECT_EQ(readBytes(path), step(1).finish());
  log->write(step(3));
  EXPECT_EQ(readBytes(path), step(1).finish() + step(3).finish());
  EXPECT_EQ(said, 1);
}

TEST(EventLog, OpenFailsWithoutDirectory) {
  Result<EventLog> log = EventLog::open("/nonexistent/log", nullptr);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.status().code(), ExitCode::Error);
}

TEST(EventLog, StepOfLine) {
  EXPECT_EQ(stepOfLine("{\"step\": 7}"), 7);
  EXPECT_EQ(stepOfLine("{\"event\":\"end\",\"steps\": 9}"), 9);
  EXPECT_EQ(stepOfLine("{\"step\": 1.5}"), std::nullopt);
  EXPECT_EQ(stepOfLine("{\"step\": 18446744073709551615}"), std::nullopt);
  EXPECT_EQ(stepOfLine("{}"), std::nullopt);
  EXPECT_EQ(stepOfLine(""), std::nullopt);
}

} // namespace
