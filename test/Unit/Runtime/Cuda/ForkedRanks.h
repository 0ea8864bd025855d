//===- ForkedRanks.h - Ranks of tests as processes --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state of the fake driver belongs to a process, so ranks of a test are
// processes that fork() creates.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_CUDA_FORKEDRANKS_H
#define KILN_TEST_UNIT_RUNTIME_CUDA_FORKEDRANKS_H

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace kiln::runtime::toy {

/// How a process ended.
struct RankEnd {
  int exitCode = -1; ///< -1 if a signal ended the process.
  std::string err;   ///< What it has written to stderr.
};

/// The exit code of a rank whose process did not end in time.
inline constexpr int hanging = -2;

/// Runs body(rank) in one process per rank. The result of `body` is the exit
/// code of the process.
inline std::vector<RankEnd> forkRanks(int ranks,
                                      const std::function<int(int)> &body) {
  // Ranks that fail may leave temporary files, so give them a directory of
  // their own.
  std::string folder =
      (std::filesystem::temp_directory_path() / "kiln-ranks-XXXXXX").string();
  EXPECT_TRUE(::mkdtemp(folder.data()));
  std::vector<pid_t> processes;
  std::vector<int> pipes;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_t process = ::fork();
    if (process == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      ::close(ends[0]);
      ::setenv("TMPDIR", folder.c_str(), 1);
      ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
      int code = body(rank);
      std::fflush(nullptr);
      ::_exit(code);
    }
    ::close(ends[1]);
    processes.push_back(process);
    pipes.push_back(ends[0]);
  }
  std::vector<RankEnd> result(processes.size());
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    int status = 0;
    bool isStuck = false;
    while (::waitpid(processes[rank], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        isStuck = true;
        ::kill(processes[rank], SIGKILL);
        ::waitpid(processes[rank], &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    RankEnd &end = result[rank];
    end.exitCode = isStuck             ? hanging
                   : WIFEXITED(status) ? WEXITSTATUS(status)
                                       : -1;
    char text[4096];
    for (ssize_t n; (n = ::read(pipes[rank], text, sizeof text)) > 0;)
      end.err.append(text, std::size_t(n));
    ::close(pipes[rank]);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_CUDA_FORKEDRANKS_H
