//===- CheckpointFaultTest.cpp - Errors and crashes during saving ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If any system call of a save fails, the save must report the failure and
// leave no new files, and a search must find the previous checkpoint. If the
// process is killed at any system call, the next run must find a valid
// checkpoint.
//
//===----------------------------------------------------------------------===//

#include "FaultInjection.h"
#include "TestFiles.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include <cerrno>
#include <filesystem>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

Status save(CheckpointDir &directory, int64_t step, int keep,
            std::vector<std::string> &notes) {
  return directory.save(
      step,
      [&](CheckpointStage &stage) {
        if (Status status = stage.addText("config.json", "{}"); !status.ok())
          return status;
        return stage.addTensors("model.safetensors",
                                {{"w", ElementType::U8, {6}}},
                                [&](SafeTensorsWriter &writer) {
                                  return writer.write("abcdef", 6);
                                });
      },
      {}, keep, notes);
}

/// Saves checkpoints of steps 1 and 2. The save under test then saves step 3 (a
/// new checkpoint) or step 2 (a replacement).
void prepare(const std::string &path) {
  Result<CheckpointDir> directory = CheckpointDir::open(path);
  ASSERT_TRUE(directory.ok());
  std::vector<std::string> notes;
  for (int64_t step : {1, 2})
    expectOk(save(*directory, step, 0, notes));
}

void expectNoLeftovers(const TestDirectory &temporary) {
  for (const std::string &name : temporary.names())
    EXPECT_TRUE(name == ".lock" || name == "latest" ||
                name.substr(0, 11) == "checkpoint-")
        << name;
}

/// Makes each system call of a save fail in turn. Returns the number of these
/// calls.
int sweepErrors(int64_t step, int error, int keep) {
  for (int call = 1;; ++call) {
    TestDirectory temporary;
    prepare(temporary.path());
    Result<CheckpointDir> directory = CheckpointDir::open(temporary.path());
    EXPECT_TRUE(directory.ok());
    Status status;
    std::vector<std::string> notes;
    bool fired;
    {
      Fault fault(call, error);
      status = save(*directory, step, keep, notes);
      fired = fault.fired();
    }
    if (!fired) {
      expectOk(status);
      EXPECT_TRUE(notes.empty());
      return call - 1;
    }
    // A failure after the new checkpoint has its final name is reported as a
    // note, and the save succeeds.
    Result<FoundCheckpoint> found = findCheckpoint(temporary.path());
    EXPECT_TRUE(found.ok()) << found.status().message();
    if (found.ok()) {
      EXPECT_TRUE(found->notes.empty()) << "call " << call;
      EXPECT_EQ(found->manifest.sequence, status.ok() ? 2 : 1)
          << "call " << call;
    }
    // If the new checkpoint could not be synced, the checkpoint that it
    // replaces is kept under another name and counts as a leftover.
    bool notSynced = !notes.empty() &&
                     notes[0].find("could not be synced") != std::string::npos;
    if (!notSynced)
      expectNoLeftovers(temporary);
    // The next save succeeds and removes leftovers.
    notes.clear();
    expectOk(save(*directory, 9, 0, notes));
    EXPECT_TRUE(notes.empty());
    expectNoLeftovers(temporary);
  }
}

TEST(CheckpointFault, EveryFailingCall) {
  for (int64_t step : {3, 2})
    for (int error : {EIO, ENOSPC})
      EXPECT_GT(sweepErrors(step, error, 1), 30);
}

// Not every file system supports renameat2. The fallback must pass the same
// tests.
TEST(CheckpointFault, WithoutRenameat2) {
  EXPECT_GT(sweepErrors(3, EINVAL, 0), 30);
  EXPECT_GT(sweepErrors(2, EINVAL, 0), 30);
}

/// Kills the process at each system call of a save. Returns the number of these
/// calls.
int sweepDeaths(bool hasRenameFlags) {
  int swept = 0;
  for (int64_t step : {3, 2}) {
    bool died = true;
    for (int call = 1; died; ++call) {
      TestDirectory temporary;
      prepare(temporary.path());
      pid_t child = ::fork();
      if (child == 0) {
        Result<CheckpointDir> directory = CheckpointDir::open(temporary.path());
        std::vector<std::string> notes;
        std::optional<NoRenameFlags> none;
        if (!hasRenameFlags)
          none.emplace();
        Fault fault(call, 0, /*kill=*/true);
        ::_exit(directory.ok() && save(*directory, step, 1, notes).ok() ? 0
                                                                        : 1);
      }
      int result = 0;
      EXPECT_EQ(::waitpid(child, &result, 0), child);
      EXPECT_TRUE(WIFEXITED(result));
      died = WEXITSTATUS(result) == 99;
      EXPECT_TRUE(died || WEXITSTATUS(result) == 0);
      swept += died;

      Result<CheckpointDir> next = CheckpointDir::open(temporary.path());
      EXPECT_TRUE(next.ok()) << next.status().message();
      expectNoLeftovers(temporary);
      Result<FoundCheckpoint> found = findCheckpoint(temporary.path());
      EXPECT_TRUE(found.ok())
          << "call " << call << ": " << found.status().message();
      if (!found.ok())
        return swept;
      EXPECT_TRUE(found->notes.empty()) << "call " << call;
      EXPECT_GE(found->manifest.sequence, 1) << "call " << call;
      if (!died)
        EXPECT_EQ(found->manifest.sequence, 2);
    }
  }
  return swept;
}

TEST(CheckpointFault, DyingAtEveryCall) { EXPECT_GT(sweepDeaths(true), 60); }

// Without the flags of renameat2(), the old checkpoint is first moved to
// another name, so for a moment no checkpoint has its original name.
TEST(CheckpointFault, DyingAtEveryCallWithoutRenameFlags) {
  EXPECT_GT(sweepDeaths(false), 60);
}

// A directory contains a checkpoint that was moved away to be replaced. If
// open() cannot give this checkpoint its name back, open() must not remove it.
TEST(CheckpointFault, FailingRestore) {
  TestDirectory temporary;
  prepare(temporary.path());
  std::filesystem::rename(temporary / "checkpoint-2",
                          temporary / ".replaced-checkpoint-2.1");
  bool fired = true;
  for (int call = 1; fired; ++call) {
    Fault fault(call, EIO);
    bool isOpen = CheckpointDir::open(temporary.path()).ok();
    fired = fault.fired();
    EXPECT_TRUE(std::filesystem::exists(temporary / "checkpoint-2") ||
                std::filesystem::exists(temporary / ".replaced-checkpoint-2.1"))
        << "call " << call;
    EXPECT_TRUE(isOpen || fired);
  }
  EXPECT_EQ(findCheckpoint(temporary.path())->manifest.step, 2);
}

} // namespace
