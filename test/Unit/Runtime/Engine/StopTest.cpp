//===- StopTest.cpp - Signals to a separate process -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunToy.h"

#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// A process that runs the toy executable and whose stdout is a pipe.
class ToyProcess {
public:
  explicit ToyProcess(
      std::vector<std::string> flags, const char *program = KILN_TOY,
      const std::function<void()> &prepare = [] {}) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      // Reset these signals, because a parent that ignores them, such as a
      // shell or nohup, makes its children ignore them.
      for (int signal : {SIGHUP, SIGINT})
        ::signal(signal, SIG_DFL);
      prepare();
      std::vector<char *> argv = {const_cast<char *>(program)};
      for (std::string &flag : flags)
        argv.push_back(flag.data());
      argv.push_back(nullptr);
      execv(program, argv.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = fdopen(ends[0], "r");
  }
  ~ToyProcess() {
    if (out_)
      std::fclose(out_);
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }

  /// Reads lines until one begins with `start`. Returns false if none does.
  bool waitForLine(const std::string &start) {
    char line[4096];
    while (std::fgets(line, sizeof(line), out_))
      if (std::string(line).rfind(start, 0) == 0)
        return true;
    return false;
  }
  void send(int signal) { kill(child_, signal); }
  /// Drains stdout. Returns the exit code, or -signal if a signal ended the
  /// process.
  int wait() {
    char buffer[4096];
    while (size_t size = std::fread(buffer, 1, sizeof(buffer), out_))
      rest_.append(buffer, size);
    return waitWithoutReading();
  }
  /// Returns the output that wait() read.
  const std::string &rest() const { return rest_; }
  int waitWithoutReading() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

private:
  pid_t child_;
  std::FILE *out_ = nullptr;
  std::string rest_;
};

/// Called in the child: makes every write to standard output fail.
void useFullDevice() { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); }

class StopTest : public ToyTest {
protected:
  /// Waits until a file has grown and then stays unchanged for a while.
  static void waitForStandstill(const std::string &file) {
    std::error_code error;
    for (uintmax_t last = 0, same = 0; same < 20;) {
      usleep(10000);
      uintmax_t size = std::filesystem::file_size(file, error);
      same = !error && size > 1000 && size == last ? same + 1 : 0;
      last = size;
    }
  }
  std::vector<std::string> flags(const std::string &steps) {
    return {data(), "--lr=0.5", "--steps=" + steps, "--threads=1"};
  }
};

TEST_F(StopTest, SigtermSavesAndTheResumedRunHasTheSameBits) {
  // The offloaded toy has copy threads. Its checkpoints are read by the toy
  // without offloading.
  for (auto [signal, program] : {std::pair{SIGTERM, KILN_TOY},
                                 {SIGINT, KILN_TOY},
                                 {SIGHUP, KILN_TOY},
                                 {SIGTERM, KILN_OFFLOADED_TOY}}) {
    std::string save = path("save-" + std::to_string(signal) +
                            std::filesystem::path(program).stem().string());
    std::vector<std::string> endless = flags("100000000");
    endless.push_back("--save=" + save);
    ToyProcess process(endless, program);
    ASSERT_TRUE(process.waitForLine("step 5/"));
    process.send(signal);
    EXPECT_EQ(process.wait(), 75);

    int64_t stopped = -1;
    for (const auto &entry : std::filesystem::directory_iterator(save)) {
      std::string name = entry.path().filename().string();
      if (name.rfind("checkpoint-", 0) == 0)
        stopped = std::stoll(name.substr(11));
    }
    ASSERT_GE(stopped, 5);
    std::string steps = std::to_string(stopped + 7);
    std::vector<std::string> rest = flags(steps);
    rest.push_back("--resume=" + save);
    rest.push_back("--save=" + save);
    ASSERT_EQ(runToy(rest).exitCode, 0);
    std::vector<std::string> whole = flags(steps);
    whole.push_back("--save=" + save + "-whole");
    ASSERT_EQ(runToy(whole).exitCode, 0);
    std::string file = "/checkpoint-" + steps + "/model.safetensors";
    EXPECT_EQ(readFile(save + file), readFile(save + "-whole" + file));
    EXPECT_FALSE(readFile(save + file).empty());
  }
}

TEST_F(StopTest, WhatWasIgnoredAtTheStartStaysIgnored) {
  std::vector<std::string> endless = flags("100000000");
  endless.push_back("--save=" + path("save"));
  ToyProcess process(endless, KILN_TOY, [] {
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
  });
  ASSERT_TRUE(process.waitForLine("step 5/"));
  process.send(SIGHUP);
  process.send(SIGINT);
  process.send(SIGINT);
  // The pipe cannot hold the output of 3000 steps, so step 3000 can only be
  // printed after the signals, by a run that has continued.
  ASSERT_TRUE(process.waitForLine("step 3000/"));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 75);
}

TEST_F(StopTest, AStoppedTextEndsItsLine) {
  ToyProcess process({"--generate=100000000", "--prompt=the ", "--threads=1"});
  ASSERT_TRUE(process.waitForLine("the "));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 75);
  ASSERT_FALSE(process.rest().empty());
  EXPECT_EQ(process.rest().back(), '\n');
}

TEST_F(StopTest, AStopBeforeTheFirstStepLeavesNothing) {
  // The FIFO has no reader, so that opening it blocks.
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  std::vector<std::string> all = flags("10");
  for (std::string flag : {"--log=" + path("fifo"), "--save=" + path("save")})
    all.push_back(flag);
  ToyProcess process(all);
  while (!std::filesystem::exists(path("save")))
    usleep(1000);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 75);
  EXPECT_FALSE(std::filesystem::exists(path("save")));
}

TEST_F(StopTest, AStandardOutputThatNobodyReadsDoesNotKeepARunFromSaving) {
  std::vector<std::string> endless = flags("100000000");
  endless.push_back("--save=" + path("save"));
  endless.push_back("--log=" + path("log"));
  ToyProcess process(endless);
  waitForStandstill(path("log"));
  process.send(SIGTERM);
  EXPECT_EQ(process.waitWithoutReading(), 75);
  EXPECT_TRUE(std::filesystem::exists(path("save/latest")));
}

TEST_F(StopTest, ALogThatNobodyReadsDoesNotKeepARunFromSaving) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  int reader = open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::vector<std::string> endless = flags("100000000");
  endless.push_back("--save=" + path("save"));
  endless.push_back("--log=" + path("fifo"));
  ToyProcess process(endless, KILN_TOY, [&] {
    dup2(open(path("out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  });
  waitForStandstill(path("out"));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 75);
  EXPECT_TRUE(std::filesystem::exists(path("save/latest")));
  close(reader);
}

TEST_F(StopTest, ProgressThatCannotBeWrittenDoesNotStopTraining) {
  std::vector<std::string> all = flags("50");
  all.push_back("--log=" + path("log"));
  EXPECT_EQ(ToyProcess(all, KILN_TOY, useFullDevice).wait(), 0);
  EXPECT_EQ(lossTexts(path("log")).size(), 50u);
}

TEST_F(StopTest, ResultsThatCannotBeWrittenAreAnError) {
  for (const char *flag :
       {"--help", "--describe", "--generate=3", "--check-memory"})
    EXPECT_EQ(ToyProcess({flag}, KILN_TOY, useFullDevice).wait(), 1) << flag;
}

TEST_F(StopTest, FilesNeverBecomeAStandardStream) {
  std::vector<std::string> all = flags("20");
  for (const char *name : {"open", "closed"}) {
    std::vector<std::string> saving = all;
    saving.push_back("--save=" + path(name));
    saving.push_back("--log=" + path(std::string(name) + ".jsonl"));
    bool closes = name == std::string("closed");
    EXPECT_EQ(ToyProcess(saving, KILN_TOY,
                         [closes] {
                           for (int fd = 0; closes && fd < 3; ++fd)
                             close(fd);
                         })
                  .wait(),
              0);
  }
  std::string file = "/checkpoint-20/model.safetensors";
  EXPECT_EQ(readFile(path("open") + file), readFile(path("closed") + file));
  EXPECT_EQ(lossTexts(path("open.jsonl")), lossTexts(path("closed.jsonl")));
}

TEST_F(StopTest, ASecondRunOnOneLogIsRefused) {
  std::vector<std::string> endless = flags("100000000");
  endless.push_back("--log=" + path("log"));
  ToyProcess process(endless);
  ASSERT_TRUE(process.waitForLine("step 5/"));
  Outcome second = runToy(
      {data(), "--steps=2", "--log=" + path("log"), "--save=" + path("save")});
  EXPECT_EQ(second.exitCode, 1);
  EXPECT_EQ(second.err, "error: the log '" + path("log") +
                            "' is in use by another run; choose another file, "
                            "or wait for that run to end\n");
  EXPECT_FALSE(std::filesystem::exists(path("save")));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 75);
  std::vector<nlohmann::json> log = readLog(path("log"));
  EXPECT_EQ(log.front()["event"], "start");
  EXPECT_EQ(log.back()["reason"], "stopped");
  EXPECT_EQ(int64_t(log.size()), log.back()["steps"].get<int64_t>() + 2);
}

TEST_F(StopTest, ATraceThatCannotBeWrittenInTheEndDoesNotKeepARunFromSaving) {
  std::filesystem::create_directory(path("traces"));
  std::vector<std::string> all = flags("3000");
  all.push_back("--trace=" + path("traces/trace.json"));
  all.push_back("--save=" + path("save"));
  ToyProcess process(all);
  // The pipe blocks the run long before its last step.
  ASSERT_TRUE(process.waitForLine("step 5/"));
  std::filesystem::remove(path("traces"));
  EXPECT_EQ(process.wait(), 1);
  EXPECT_TRUE(std::filesystem::exists(path("save/checkpoint-3000")));
}

TEST_F(StopTest, ExitCodesReachTheShell) {
  EXPECT_EQ(ToyProcess({"--nonsense"}).wait(), 2);
  EXPECT_EQ(ToyProcess({"--data=/nonexistent", "--steps=1"}).wait(), 3);
  EXPECT_EQ(ToyProcess({"--help"}).wait(), 0);
}

} // namespace
