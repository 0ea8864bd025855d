//===- CheckpointDirTest.cpp - Tests of saving and finding checkpoints ----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that every kind of damage is detected and that the previous checkpoint
// is then used.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/CheckpointDir.h"
#include "TestFiles.h"
#include <cerrno>
#include <cstring>
#include <sys/mount.h>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;
using nlohmann::json;

namespace {

/// Saves a small checkpoint in which all weights are `step`.
Status save(CheckpointDir &directory, int64_t step, int keep = 0) {
  std::vector<std::string> notes;
  Status status = directory.save(
      step,
      [&](CheckpointStage &stage) {
        if (Status status = stage.addText("config.json", "{}"); !status.ok())
          return status;
        return stage.addTensors("model.safetensors",
                                {{"w", ElementType::F32, {64}}},
                                [&](SafeTensorsWriter &writer) {
                                  std::vector<float> values(64, float(step));
                                  return writer.write(values.data(), 256);
                                });
      },
      {{"step", step}, {"lr", 0.1}}, keep, notes);
  EXPECT_TRUE(notes.empty()) << notes[0];
  return status;
}

CheckpointDir open(const std::string &path) {
  Result<CheckpointDir> directory = CheckpointDir::open(path);
  EXPECT_TRUE(directory.ok()) << directory.status().message();
  return std::move(*directory);
}

int64_t stepFound(const std::string &path, std::size_t notes = 0) {
  Result<FoundCheckpoint> found = findCheckpoint(path);
  EXPECT_TRUE(found.ok()) << found.status().message();
  if (!found.ok())
    return -1;
  EXPECT_EQ(found->notes.size(), notes);
  Result<SafeTensorsFile> file =
      SafeTensorsFile::open(found->path + "/model.safetensors");
  EXPECT_TRUE(file.ok());
  float values[64];
  expectOk(file->read("w", ElementType::F32, values, 256));
  EXPECT_EQ(values[63], float(found->manifest.step));
  return found->manifest.step;
}

TEST(CheckpointDir, SavesAndFinds) {
  TestDirectory temporary;
  std::string path = temporary / "out";
  CheckpointDir directory = open(path);
  EXPECT_TRUE(directory.steps().empty());
  expectOk(save(directory, 5));
  expectOk(save(directory, 10));
  EXPECT_EQ(directory.steps(), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(stepFound(path), 10);
  EXPECT_EQ(stepFound(path + "/checkpoint-5"), 5);
  EXPECT_EQ(readBytes(path + "/latest"), "checkpoint-10\n");
  Result<FoundCheckpoint> found = findCheckpoint(path);
  EXPECT_EQ(found->path, path + "/checkpoint-10");
  EXPECT_EQ(found->manifest.extra["lr"], 0.1);
  EXPECT_EQ(found->manifest.files.size(), 2u);
  EXPECT_EQ(readBytes(found->path + "/config.json"), "{}");
}

TEST(CheckpointDir, KeepsTheNewest) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  std::filesystem::create_directory(temporary / "checkpoint-1");
  temporary.put("checkpoint-1/foreign", "of another program");
  for (int64_t step : {2, 4, 6, 8})
    expectOk(save(directory, step, 2));
  EXPECT_EQ(temporary.names(),
            (std::vector<std::string>{".lock", "checkpoint-1", "checkpoint-6",
                                      "checkpoint-8", "latest"}));
}

// After a resume from an older checkpoint, the newest checkpoint is the one
// that was saved last, not the one with the highest step.
TEST(CheckpointDir, NewestIsBySequence) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  for (int64_t step : {10, 20, 30})
    expectOk(save(directory, step));
  expectOk(save(directory, 15));
  EXPECT_EQ(stepFound(temporary.path()), 15);
  expectOk(save(directory, 20)); // Replaces the older checkpoint of step 20.
  EXPECT_EQ(stepFound(temporary.path()), 20);
  EXPECT_EQ(directory.steps(), (std::vector<int64_t>{10, 30, 15, 20}));
  expectOk(save(directory, 25, 2));
  EXPECT_EQ(directory.steps(), (std::vector<int64_t>{20, 25}));
}

TEST(CheckpointDir, FailedSaveLeavesNothing) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  expectOk(save(directory, 1));
  std::vector<std::string> before = temporary.names(), notes;
  auto fails = [&](const std::function<Status(CheckpointStage &)> &fill,
                   std::string_view fragment) {
    Status status = directory.save(2, fill, {}, 1, notes);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find(fragment), std::string::npos)
        << status.message();
    EXPECT_EQ(temporary.names(), before);
    EXPECT_EQ(stepFound(temporary.path()), 1);
  };
  fails(
      [](CheckpointStage &stage) {
        expectOk(stage.addText("a", "x"));
        return Status::error("the caller's reason");
      },
      "the caller's reason");
  fails([](CheckpointStage &stage) { return stage.addText("../a", "x"); },
        "cannot hold a file named '../a'");
  fails(
      [](CheckpointStage &stage) {
        return stage.addText("kiln_manifest.json", "x");
      },
      "cannot hold");
  fails(
      [](CheckpointStage &stage) {
        expectOk(stage.addText("a", "x"));
        return stage.addText("a", "y");
      },
      "two files named 'a'");
  fails(
      [](CheckpointStage &stage) {
        return stage.addTensors("m", {{"w", ElementType::F32, {2}}},
                                [](SafeTensorsWriter &) { return Status(); });
      },
      "were not written");
}

TEST(CheckpointDir, FallsBackFromEveryFlippedBit) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  expectOk(save(directory, 1));
  expectOk(save(directory, 2));
  for (const char *name :
       {"kiln_manifest.json", "model.safetensors", "config.json"}) {
    std::string path = temporary / "checkpoint-2/" + name;
    std::string good = readBytes(path);
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] ^= 1 << (i % 8);
      std::ofstream(path, std::ios::binary) << bad;
      Result<FoundCheckpoint> found = findCheckpoint(temporary.path());
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_EQ(found->manifest.step, 1) << name << " byte " << i;
      ASSERT_EQ(found->notes.size(), 1u);
    }
    std::ofstream(path, std::ios::binary) << good;
  }
  EXPECT_EQ(stepFound(temporary.path()), 2);
}

TEST(CheckpointDir, FallsBackFromMissingOrShortFiles) {
  for (const char *name : {"kiln_manifest.json", "model.safetensors"})
    for (bool remove : {true, false}) {
      TestDirectory temporary;
      CheckpointDir directory = open(temporary.path());
      expectOk(save(directory, 1));
      expectOk(save(directory, 2));
      std::string path = temporary / "checkpoint-2/" + name;
      if (remove)
        std::filesystem::remove(path);
      else
        std::filesystem::resize_file(path,
                                     std::filesystem::file_size(path) - 1);
      EXPECT_EQ(stepFound(temporary.path(), 1), 1);
      // A damaged checkpoint whose path is given explicitly is an error.
      expectBadInput(findCheckpoint(temporary / "checkpoint-2").status(),
                     remove ? "No such file" : name);
      // A check of the file sizes suffices to detect the damage.
      Result<FoundCheckpoint> found =
          findCheckpoint(temporary.path(), VerifyLevel::Sizes);
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(found->manifest.step, 1);
    }
}

TEST(CheckpointDir, NothingValid) {
  TestDirectory temporary;
  expectBadInput(findCheckpoint(temporary.path()).status(),
                 "holds no checkpoint");
  expectBadInput(findCheckpoint(temporary / "none").status(), "cannot list");
  CheckpointDir directory = open(temporary.path());
  expectOk(save(directory, 1));
  temporary.put("checkpoint-1/config.json", "[]");
  expectBadInput(findCheckpoint(temporary.path()).status(),
                 "holds no valid checkpoint: skipping");
  expectBadInput(findCheckpoint(temporary / "checkpoint-1").status(),
                 "is damaged");
}

TEST(CheckpointDir, ARenamedCheckpointIsNoticed) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  expectOk(save(directory, 1));
  std::filesystem::rename(temporary / "checkpoint-1",
                          temporary / "checkpoint-7");
  expectBadInput(findCheckpoint(temporary / "checkpoint-7").status(),
                 "has step 1, but the name of its directory has step 7");
  // A directory name that contains no step is allowed.
  std::filesystem::rename(temporary / "checkpoint-7", temporary / "best");
  EXPECT_EQ(stepFound(temporary / "best"), 1);
}

TEST(CheckpointDir, OneRunAtATime) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  Result<CheckpointDir> second = CheckpointDir::open(temporary.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), ExitCode::Error);
  EXPECT_NE(second.status().message().find("in use by another run"),
            std::string::npos);
  {
    CheckpointDir gone = std::move(directory);
  }
  EXPECT_TRUE(CheckpointDir::open(temporary.path()).ok());
}

TEST(CheckpointDir, RemovesWhatDeadRunsLeft) {
  TestDirectory temporary;
  for (const char *name :
       {".tmp-checkpoint-3.123", ".trash-checkpoint-1.123"}) {
    std::filesystem::create_directory(temporary / name);
    temporary.put(std::string(name) + "/model.safetensors", "x");
  }
  temporary.put(".tmp-latest.123.0", "x");
  temporary.put(".tmp-of-the-user", "x");
  CheckpointDir directory = open(temporary.path());
  EXPECT_EQ(temporary.names(),
            (std::vector<std::string>{".lock", ".tmp-of-the-user"}));
}

// A process that replaces a checkpoint ends after it has moved the old one away
// and before the new one has its name.
TEST(CheckpointDir, RestoresACheckpointThatWasNotReplaced) {
  TestDirectory temporary;
  {
    CheckpointDir directory = open(temporary.path());
    expectOk(save(directory, 5));
    expectOk(save(directory, 7));
  }
  auto rename = [&](const char *from, const char *to) {
    std::filesystem::rename(temporary / from, temporary / to);
  };
  rename("checkpoint-7", ".replaced-checkpoint-7.123");
  temporary.put(".tmp-checkpoint-7.123", "incomplete");
  { EXPECT_EQ(open(temporary.path()).steps(), (std::vector<int64_t>{5, 7})); }
  EXPECT_EQ(stepFound(temporary.path()), 7);
  // If the new checkpoint already has its final name, the old one is removed.
  std::filesystem::copy(temporary / "checkpoint-5",
                        temporary / ".replaced-checkpoint-7.123");
  CheckpointDir directory = open(temporary.path());
  EXPECT_EQ(temporary.names(),
            (std::vector<std::string>{".lock", "checkpoint-5", "checkpoint-7",
                                      "latest"}));
  EXPECT_EQ(stepFound(temporary.path()), 7);
}

TEST(CheckpointDir, RefusesWhereItCannotWrite) {
  TestDirectory temporary;
  temporary.put("file", "");
  Result<CheckpointDir> below = CheckpointDir::open(temporary / "file/out");
  ASSERT_FALSE(below.ok());
  EXPECT_EQ(below.status().code(), ExitCode::Error);
  EXPECT_FALSE(CheckpointDir::open(temporary / "file").ok());
  // A directory in which even root cannot create files.
  EXPECT_FALSE(CheckpointDir::open("/proc/self").ok());
}

TEST(CheckpointDir, CreatesOneDirectoryAndRemovesItUnlessItSaves) {
  TestDirectory temporary;
  Result<CheckpointDir> deep = CheckpointDir::open(temporary / "typo/out");
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.status().message(),
            "cannot create the directory '" + temporary / "typo/out" + "': '" +
                temporary / "typo" +
                "' does not exist; check the path, or create that directory "
                "first");
  EXPECT_TRUE(temporary.names().empty());
  for (const char *name : {"out", "out/"}) {
    open(temporary / name);
    EXPECT_TRUE(temporary.names().empty()) << name;
  }
  {
    CheckpointDir directory = open(temporary / "out");
    expectOk(save(directory, 1));
  }
  open(temporary / "out");
  EXPECT_EQ(stepFound(temporary / "out"), 1);
  // An existing directory is kept unchanged.
  std::filesystem::create_directory(temporary / "mine");
  open(temporary / "mine");
  EXPECT_TRUE(std::filesystem::is_empty(temporary / "mine"));
}

TEST(CheckpointDir, ChecksFreeSpace) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  expectOk(directory.checkFreeSpace(1));
  Status status = directory.checkFreeSpace(uint64_t{1} << 62);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("bytes free, but a checkpoint needs"),
            std::string::npos);
}

// Uses a file system that is really full, if this process may mount one.
TEST(CheckpointDir, FullDisk) {
  TestDirectory temporary;
  if (::mount("tmpfs", temporary.path().c_str(), "tmpfs", 0, "size=256k") !=
      0) {
    ASSERT_EQ(errno, EPERM) << std::strerror(errno);
    GTEST_SKIP() << "mounting is not permitted";
  }
  {
    CheckpointDir directory = open(temporary.path());
    expectOk(save(directory, 1));
    std::vector<std::string> before = temporary.names(), notes;
    for (int attempt = 0; attempt < 20; ++attempt) {
      Status status = directory.save(
          2,
          [](CheckpointStage &stage) {
            return stage.addText("big", std::string(1 << 20, 'x'));
          },
          {}, 1, notes);
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.message().find("No space left"), std::string::npos);
      EXPECT_EQ(temporary.names(), before);
    }
    EXPECT_FALSE(directory.checkFreeSpace(1 << 20).ok());
    EXPECT_EQ(stepFound(temporary.path()), 1);
    expectOk(save(directory, 3));
  }
  EXPECT_EQ(::umount(temporary.path().c_str()), 0);
}

TEST(CheckpointManifest, Rejects) {
  TestDirectory temporary;
  CheckpointDir directory = open(temporary.path());
  expectOk(save(directory, 1));
  std::string good = readBytes(temporary / "checkpoint-1/kiln_manifest.json");
  Result<CheckpointManifest> manifest = parseManifest(good, "m");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->step, 1);
  for (std::size_t length = 0; length < good.size(); ++length)
    ASSERT_FALSE(parseManifest(good.substr(0, length), "m").ok());
  expectBadInput(parseManifest("", "m").status(), "truncated");
  expectBadInput(parseManifest(good + " ", "m").status(),
                 "end with a hash of its content");
  std::string other = good;
  other[good.find("config")] = 'C';
  expectBadInput(parseManifest(other, "m").status(), "match its hash");
}

TEST(OpenWeights, DirectoryOfCheckpoints) {
  TestDirectory directory;
  Result<CheckpointDir> saved = CheckpointDir::open(directory / "run");
  ASSERT_TRUE(saved.ok());
  std::vector<std::string> notes;
  for (int step : {9, 100})
    expectOk(saved->save(
        step,
        [](CheckpointStage &stage) { return stage.addText("a.txt", "a"); },
        nlohmann::json::object(), 0, notes));
  expectBadInput(openWeights(directory / "run").status(),
                 "run' is a directory of checkpoints, expected a single "
                 "checkpoint: choose '" +
                     directory.path() +
                     "/run/checkpoint-100', which is the newest, or another "
                     "checkpoint in the directory");
}

} // namespace
