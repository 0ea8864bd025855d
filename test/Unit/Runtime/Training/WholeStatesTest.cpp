//===- WholeStatesTest.cpp - Files of sharded states ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WholeStates.h"

#include "Checkpoint.h"
#include "FaultInjection.h"
#include "ShardedEngine.h"
#include "States.h"
#include "TestFiles.h"
#include "ThreadWorlds.h"
#include "kiln/Support/Process.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <sys/resource.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// The number of elements of a tensor. If three ranks share the tensor, each
/// rank sends its part in more than two messages.
constexpr int64_t manyElements = 6'500'001;

/// Returns the states of a model: parameters, a buffer, a mirror (a copy of a
/// parameter), a constant and moments. `largest` is the number of elements of
/// the largest parameter.
StateList describeModel(int64_t ranks, int64_t largest = 20) {
  StateList list(ranks);
  list.addSharded("w", ElementType::F32, {7, 3});
  list.makeMirror(list.add("w.bf16", ElementType::BF16, {7, 3}), "w");
  list.add("b", ElementType::F32, {5});
  list.addSharded("e", ElementType::BF16, {largest});
  list.addSharded("mask", ElementType::F32, {2}).role = StateRole::Buffer;
  list.addSharded("table", ElementType::F32, {4}).role = StateRole::Constant;
  // The initial values of moments stand for values after a few steps.
  for (const char *slot : {"m", "v"})
    list.addMoment("w", slot, {7, 3});
  StateInfo &momentB = list.add("b.m", ElementType::F32, {5});
  momentB.role = StateRole::Optimizer;
  momentB.of = "b";
  momentB.slot = "m";
  return list;
}

/// Returns the states of a model with an adapter. All tensors are sharded.
StateList describeAdapter(int64_t ranks) {
  StateList list(ranks);
  auto frozen = [](StateInfo &state) -> StateInfo & {
    state.trainable = false;
    return state;
  };
  LoraConfig config;
  config.rank = 2;
  config.targets = {"w"};
  list.description().lora = config;
  frozen(list.addSharded("w", ElementType::F32, {2100, 2011}));
  frozen(list.addSharded("n", ElementType::F32, {3}));
  list.addSharded("w.a", ElementType::F32, {2, 2011}).adapter = {
      AdapterPart::Factor::A, "w", false};
  list.addSharded("w.b", ElementType::F32, {2100, 2}).adapter = {
      AdapterPart::Factor::B, "w", false};
  list.addMoment("w.b", "m", {2100, 2});
  return list;
}

/// Saves a checkpoint of step `step` to `path`, as a training run does.
Status save(Engine &engine, Ranks &ranks, const std::string &path,
            int64_t step) {
  WholeStates states(engine, ranks, "the checkpoint");
  if (!ranks.isFirst())
    return states.finish(sendCheckpoint(states));
  Result<CheckpointDir> directory = CheckpointDir::open(path);
  if (!directory.ok())
    return states.finish(directory.status());
  Progress progress;
  progress.step = step;
  std::vector<std::string> notes;
  return states.finish(saveCheckpoint(*directory, states, progress, {}, {}, {},
                                      /*keep=*/0, notes));
}

/// Calls body(engine, ranks) on each of the ranks that `list` describes, after
/// the initialization of the states.
template <typename Body> void onRanks(StateList list, Body body) {
  int64_t size = list.description().ranks();
  auto run = [&](Ranks ranks) {
    ShardedEngine engine(list.description());
    ASSERT_TRUE(initialiseStates(engine, ranks.rank(), 7).ok());
    body(engine, ranks);
  };
  if (size == 1)
    return run(Ranks());
  ThreadWorlds worlds(int(size), /*peerTimeout=*/20);
  worlds.onEach([&](World &world) {
    run(Ranks(world));
    EXPECT_TRUE(world.failure().ok()) << world.failure().message();
  });
}

/// Saves a checkpoint of a model on all ranks.
void saveOnRanks(const StateList &list, const std::string &path) {
  onRanks(list, [&](ShardedEngine &engine, Ranks &ranks) {
    Status status = save(engine, ranks, path, 10);
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

std::map<std::string, std::string> filesIn(const std::string &directory) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(directory))
    files[entry.path().filename()] = readBytes(entry.path());
  return files;
}

// All files are compared, including the manifest, which has the hashes of the
// other files.
TEST(WholeStatesTest, CheckpointsDoNotDependOnTheNumberOfRanks) {
  TestDirectory directory;
  saveOnRanks(describeModel(1, manyElements), directory / "1");
  auto expected = filesIn(directory / "1/checkpoint-10");
  EXPECT_GE(expected["model.safetensors"].size(), size_t(2 * manyElements));
  EXPECT_TRUE(expected.count("optimizer.safetensors"));
  for (int64_t ranks : {2, 3, 5}) {
    std::string path = directory / std::to_string(ranks);
    saveOnRanks(describeModel(ranks, manyElements), path);
    EXPECT_TRUE(filesIn(path + "/checkpoint-10") == expected) << ranks;
    std::filesystem::remove_all(path);
  }
}

TEST(WholeStatesTest, SizesAreThoseOfWholeTensors) {
  Result<uint64_t> one = checkpointBytes(describeModel(1).description());
  Result<uint64_t> three = checkpointBytes(describeModel(3).description());
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(*one, *three);
}

TEST(WholeStatesTest, AnyNumberOfRanksResumes) {
  for (bool isAdapter : {false, true}) {
    auto describe = isAdapter ? describeAdapter
                              : +[](int64_t n) { return describeModel(n); };
    TestDirectory directory;
    saveOnRanks(describe(3), directory / "3");
    std::string path = directory / "3/checkpoint-10";
    ShardedEngine whole(describe(1).description());
    ASSERT_TRUE(initialiseStates(whole, 0, 7).ok());
    for (int64_t size : {1, 2, 3}) {
      onRanks(describe(size), [&](ShardedEngine &engine, Ranks &ranks) {
        // The checkpoint must replace these initial values.
        ASSERT_TRUE(initialiseStates(engine, ranks.rank(), 8).ok());
        std::vector<std::string> notes;
        Result<ResumePoint> point = openCheckpoint(path, engine, notes);
        ASSERT_TRUE(point.ok()) << point.status().message();
        point->loadsStates = true;
        Status status = loadCheckpoint(*point, engine, ranks.rank(), notes);
        ASSERT_TRUE(status.ok()) << status.message();
        for (size_t i = 0; i < engine.size(); ++i) {
          const StateInfo &state = engine.description().states[i];
          if (state.role == StateRole::Mirror ||
              state.role == StateRole::Constant ||
              (isAdapter && isWeight(state)))
            continue;
          EXPECT_TRUE(engine.bytes(i) == partOf(whole.bytes(i), state,
                                                engine.description().mesh,
                                                ranks.rank()))
              << state.name;
        }
        // A second save writes the same bytes.
        std::string again = directory / std::to_string(10 + size);
        ASSERT_TRUE(save(engine, ranks, again, 10).ok());
        if (ranks.isFirst())
          EXPECT_TRUE(filesIn(again + "/checkpoint-10") == filesIn(path));
      });
    }
  }
}

TEST(WholeStatesTest, MergedModelsDoNotDependOnTheNumberOfRanks) {
  TestDirectory directory;
  std::map<std::string, std::string> expected;
  for (int64_t size : {1, 2, 3}) {
    std::string path = directory / std::to_string(size);
    onRanks(describeAdapter(size), [&](ShardedEngine &engine, Ranks &ranks) {
      WholeStates states(engine, ranks, "the merged model");
      Status status = states.finish(ranks.isFirst() ? saveMerged(states, path)
                                                    : sendMerged(states));
      ASSERT_TRUE(status.ok()) << status.message();
    });
    if (size == 1)
      expected = filesIn(path);
    EXPECT_EQ(expected.size(), 1u);
    EXPECT_TRUE(filesIn(path) == expected) << size;
  }
}

/// Saves step 9, calls `prepare`, and saves step 10. Expects that the second
/// save fails on all ranks with `message` and leaves no checkpoint of step 10.
template <typename Prepare>
void expectNoCheckpoint(const StateList &list, const std::string &message,
                        Prepare prepare) {
  TestDirectory directory;
  onRanks(list, [&](ShardedEngine &engine, Ranks &ranks) {
    ASSERT_TRUE(save(engine, ranks, directory.path(), 9).ok());
    ASSERT_TRUE(ranks.vote("the test", Status()).ok());
    prepare(engine, ranks);
    Status status = save(engine, ranks, directory.path(), 10);
    EXPECT_NE(status.message().find(message), std::string::npos)
        << ranks.rank() << ": " << status.message();
    EXPECT_NE(status.message(), "");
    ASSERT_TRUE(ranks.vote("the test", Status()).ok());
  });
  EXPECT_EQ(directory.names(),
            (std::vector<std::string>{".lock", "checkpoint-9", "latest"}));
}

TEST(WholeStatesTest, ARankThatCannotReadItsShardPreventsTheCheckpoint) {
  for (int failing : {0, 1, 2})
    for (std::size_t state : {0u, 3u, 7u}) // w, e and w.v
      expectNoCheckpoint(
          describeModel(3, manyElements),
          (failing > 0 ? "rank " + std::to_string(failing) + ": " : "") +
              "the device is gone",
          [&](ShardedEngine &engine, Ranks &ranks) {
            if (ranks.rank() == failing)
              engine.failAt(state);
          });
}

TEST(WholeStatesTest, AnUnshardedStateMayFail) {
  expectNoCheckpoint(describeModel(3), "the device is gone",
                     [&](ShardedEngine &engine, Ranks &ranks) {
                       if (ranks.isFirst())
                         engine.failAt(2); // b
                     });
}

// A limit of the process on the size of files lets the first file of the
// checkpoint be written, but not the second one.
TEST(WholeStatesTest, AFileThatIsTooLargePreventsTheCheckpoint) {
  prepareProcess();
  StateList list = describeModel(3);
  list.addMoment("e", "m", {100'000});
  rlimit old;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  expectNoCheckpoint(list, "File too large",
                     [&](ShardedEngine &, Ranks &ranks) {
                       rlimit small = {100'000, old.rlim_max};
                       if (ranks.isFirst())
                         ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
                     });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
}

// Makes each system call of the first rank fail in turn; only this rank
// accesses files. All ranks must report the same error, and the new checkpoint
// must not exist after an error.
TEST(WholeStatesTest, AnyFailureOfTheDiskIsReportedOnAllRanks) {
  for (int call = 1;; ++call) {
    TestDirectory directory;
    std::optional<Fault> fault;
    std::vector<std::string> messages(3);
    bool fired = false;
    onRanks(describeModel(3), [&](ShardedEngine &engine, Ranks &ranks) {
      ASSERT_TRUE(save(engine, ranks, directory.path(), 9).ok());
      ASSERT_TRUE(ranks.vote("the test", Status()).ok());
      if (ranks.isFirst())
        fault.emplace(call, ENOSPC);
      messages[size_t(ranks.rank())] =
          save(engine, ranks, directory.path(), 10).message();
      ASSERT_TRUE(ranks.vote("the test", Status()).ok());
      if (!ranks.isFirst())
        return;
      fired = fault->fired();
      fault.reset();
    });
    EXPECT_EQ(messages[1], messages[0]);
    EXPECT_EQ(messages[2], messages[0]);
    EXPECT_EQ(std::filesystem::exists(directory / "checkpoint-10"),
              messages[0].empty())
        << call << ": " << messages[0];
    EXPECT_TRUE(std::filesystem::exists(directory / "checkpoint-9"));
    if (!fired) {
      EXPECT_GT(call, 20);
      return;
    }
  }
}

// A receiver that fails in the middle of a tensor gets no further data, and the
// other ranks can complete their messages.
TEST(WholeStatesTest, AReceiverMayFailInTheMiddle) {
  onRanks(
      describeModel(3, manyElements), [&](ShardedEngine &engine, Ranks &ranks) {
        WholeStates states(engine, ranks, "the test");
        int chunks = 0;
        WholeStates::Receiver receive = [&](const char *, int64_t) {
          return ++chunks == 3 ? Status::error("the disk is full") : Status();
        };
        Status status = states.read(3, ranks.isFirst() ? receive : nullptr);
        EXPECT_EQ(status.message(), "the disk is full");
        EXPECT_EQ(chunks, ranks.isFirst() ? 3 : 0);
        // Later calls of read() return the same error and exchange no messages.
        EXPECT_EQ(states.read(0, receive).message(), "the disk is full");
        EXPECT_EQ(states.finish(Status()).message(), "the disk is full");
        EXPECT_TRUE(ranks.vote("the next vote", Status()).ok());
      });
}

// The first rank fails before it receives any shard, while the other ranks send
// theirs. Afterwards, all ranks can still end their runs.
TEST(WholeStatesTest, FirstRankMayFailBeforeItReads) {
  onRanks(describeModel(3), [&](ShardedEngine &engine, Ranks &ranks) {
    WholeStates states(engine, ranks, "the test");
    Status status = ranks.isFirst() ? Status::error("no directory")
                                    : sendCheckpoint(states);
    EXPECT_EQ(states.finish(status).message(), "no directory");
    EXPECT_TRUE(ranks.finish(Status()).ok());
  });
}

// Without sharded states, there are no messages before finish().
TEST(WholeStatesTest, WholeStatesNeedNoMessages) {
  ThreadWorlds worlds(2);
  worlds.onEach([](World &world) {
    StateList list = describeModel(1);
    ShardedEngine engine(list.description());
    Ranks ranks(world);
    WholeStates states(engine, ranks, "the test");
    int calls = 0;
    for (std::size_t i = 0; i < engine.size(); ++i)
      EXPECT_TRUE(states
                      .read(i,
                            [&](const char *data, int64_t bytes) {
                              ++calls;
                              EXPECT_EQ(std::string(data, size_t(bytes)),
                                        engine.bytes(i));
                              return Status();
                            })
                      .ok());
    EXPECT_EQ(calls, ranks.isFirst() ? int(engine.size()) : 0);
    EXPECT_EQ(states.finish(ranks.isFirst() ? Status() : Status::error("late"))
                  .message(),
              "rank 1: late");
  });
}

} // namespace
