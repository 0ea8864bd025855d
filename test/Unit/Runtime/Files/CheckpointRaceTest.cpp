//===- CheckpointRaceTest.cpp - Reading during concurrent pruning ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Another process saves with --keep=1 while this process searches for the
// newest checkpoint. At whichever point of the search the save occurs, the
// search must find a complete newest checkpoint, which must remain readable.
//
//===----------------------------------------------------------------------===//

#include "FaultInjection.h"
#include "TestFiles.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/SafeTensors.h"
#include <atomic>
#include <thread>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// Saves a checkpoint whose tensor is `value`, and removes all other
/// checkpoints.
void save(CheckpointDir &directory, int64_t step, float value) {
  std::vector<std::string> notes;
  expectOk(directory.save(
      step,
      [&](CheckpointStage &stage) {
        if (Status status = stage.addText("config.json", "{}"); !status.ok())
          return status;
        return stage.addTensors(
            "model.safetensors", {{"w", ElementType::F32, {1}}},
            [&](SafeTensorsWriter &writer) { return writer.write(&value, 4); });
      },
      {{"value", value}}, /*keep=*/1, notes));
}

/// Returns the value in the tensor. The manifest must contain the same value.
float valueOf(const FoundCheckpoint &found) {
  Result<InputFile> file = found.open("model.safetensors");
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok())
    return -1;
  Result<SafeTensorsFile> tensors = SafeTensorsFile::open(std::move(*file));
  EXPECT_TRUE(tensors.ok()) << tensors.status().message();
  float value = -1;
  if (tensors.ok())
    expectOk(tensors->read("w", ElementType::F32, &value, 4));
  EXPECT_EQ(found.manifest.extra["value"], value);
  return value;
}

class CheckpointRace : public testing::Test {
protected:
  void SetUp() override {
    Result<CheckpointDir> opened = CheckpointDir::open(temporary.path());
    ASSERT_TRUE(opened.ok());
    directory.emplace(std::move(*opened));
    save(*directory, 1, 1);
  }

  TestDirectory temporary;
  std::optional<CheckpointDir> directory;
};

TEST_F(CheckpointRace, ThePrunedOneIsReplacedByTheNewest) {
  for (const char *moment :
       {"checkpoint-1/kiln_manifest.json", "checkpoint-1/config.json",
        "checkpoint-1/model.safetensors"}) {
    SCOPED_TRACE(moment);
    TestDirectory fresh;
    Result<CheckpointDir> other = CheckpointDir::open(fresh.path());
    ASSERT_TRUE(other.ok());
    save(*other, 1, 1);
    OnOpen prune(moment, [&] { save(*other, 2, 2); });
    Result<FoundCheckpoint> found = findCheckpoint(fresh.path());
    ASSERT_TRUE(prune.fired());
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->path, fresh / "checkpoint-2");
    EXPECT_TRUE(found->notes.empty()) << found->notes[0];
    EXPECT_EQ(valueOf(*found), 2);
  }
}

// A resumed run saves the same step again.
TEST_F(CheckpointRace, AReplacedOneIsReadAnew) {
  for (const std::string &path :
       {temporary.path(), temporary / "checkpoint-1"}) {
    OnOpen replace("checkpoint-1/model.safetensors",
                   [&] { save(*directory, 1, 5); });
    Result<FoundCheckpoint> found = findCheckpoint(path);
    ASSERT_TRUE(replace.fired());
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_TRUE(found->notes.empty());
    valueOf(*found);
  }
}

TEST_F(CheckpointRace, WhatWasFoundStaysReadable) {
  Result<FoundCheckpoint> found = findCheckpoint(temporary.path());
  ASSERT_TRUE(found.ok());
  save(*directory, 2, 2);
  ASSERT_FALSE(std::filesystem::exists(found->path));
  EXPECT_EQ(valueOf(*found), 1);
  EXPECT_EQ(valueOf(*found), 1);
  expectBadInput(found->open("other").status(), "holds no file 'other'");
}

TEST_F(CheckpointRace, ASearchEndsAlthoughTheOneNamedIsGone) {
  OnOpen prune("checkpoint-1/model.safetensors",
               [&] { save(*directory, 2, 2); });
  expectBadInput(findCheckpoint(temporary / "checkpoint-1").status(),
                 "checkpoint-1");
}

TEST_F(CheckpointRace, BesideARunThatNeverStopsSaving) {
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int64_t step = 2; !done; ++step)
      save(*directory, step, float(step));
  });
  float last = 0;
  for (int round = 0; round < 300; ++round) {
    Result<FoundCheckpoint> found = findCheckpoint(temporary.path());
    EXPECT_TRUE(found.ok()) << found.status().message();
    if (!found.ok())
      break;
    float value = valueOf(*found);
    EXPECT_GE(value, last);
    last = value;
  }
  done = true;
  writer.join();
}

} // namespace
