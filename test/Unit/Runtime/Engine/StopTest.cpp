//===- StopTest.cpp - Signals, in a process of their own ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunToy.h"

#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::toy;

namespace {

/// The toy executable, with its stdout in a pipe.
class ToyProcess {
public:
  explicit ToyProcess(std::vector<std::string> flags,
                      const char *program = KILN_TOY) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
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

  /// Reads lines until one begins with `start`.
  bool waitForLine(const std::string &start) {
    char line[4096];
    while (std::fgets(line, sizeof(line), out_))
      if (std::string(line).rfind(start, 0) == 0)
        return true;
    return false;
  }
  void send(int signal) { kill(child_, signal); }
  /// Drains stdout and returns the exit code; -signal if one killed it.
  int wait() {
    char buffer[4096];
    while (std::fread(buffer, 1, sizeof(buffer), out_) > 0) {
    }
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

private:
  pid_t child_;
  std::FILE *out_ = nullptr;
};

class StopTest : public ToyTest {
protected:
  std::vector<std::string> flags(const std::string &steps) {
    return {data(), "--lr=0.5", "--steps=" + steps, "--threads=1"};
  }
};

TEST_F(StopTest, SigtermSavesAndTheResumedRunHasTheSameBits) {
  // The second program has threads that copy. What it saves, the first reads.
  for (auto [signal, program] : {std::pair{SIGTERM, KILN_TOY},
                                 {SIGINT, KILN_TOY},
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

TEST_F(StopTest, ClosedOutputDoesNotStopTraining) {
  std::vector<std::string> all = flags("50");
  all.push_back("--log=" + path("log"));
  {
    int null = open("/dev/full", O_WRONLY);
    pid_t child = fork();
    if (child == 0) {
      dup2(null, STDOUT_FILENO);
      std::vector<char *> argv = {const_cast<char *>(KILN_TOY)};
      for (std::string &flag : all)
        argv.push_back(flag.data());
      argv.push_back(nullptr);
      execv(KILN_TOY, argv.data());
      _exit(127);
    }
    close(null);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(lossTexts(path("log")).size(), 50u);
}

TEST_F(StopTest, ExitCodesReachTheShell) {
  EXPECT_EQ(ToyProcess({"--nonsense"}).wait(), 2);
  EXPECT_EQ(ToyProcess({"--data=/nonexistent", "--steps=1"}).wait(), 3);
  EXPECT_EQ(ToyProcess({"--help"}).wait(), 0);
}

} // namespace
