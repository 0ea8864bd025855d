//===- TensorShardsTest.cpp - States that are divided over two axes -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns, rows and heads are divided over the axis tp, and the resulting parts
// of some states over the axis dp. On every mesh, the whole states must equal
// those of a single rank.
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"
#include "Describe.h"
#include "ShardedEngine.h"
#include "States.h"
#include "TestFiles.h"
#include "ThreadWorlds.h"
#include "TrainingDriver.h"
#include "kiln/Support/ElementConversion.h"

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

constexpr const char *meshes[] = {"", "tp=2", "tp=3", "dp=2,tp=2", "dp=3,tp=2"};

/// The extents of a tensor that is read in several chunks, of which the last
/// one is not complete.
constexpr int64_t manyRows = 2001, manyColumns = 1501;

StateList describeModel(const Mesh &mesh) {
  StateList list(mesh);
  int64_t data = mesh.sizeOf(dataAxis), tensor = mesh.sizeOf(tensorAxis);
  /// Divides a state over tp into `blocks` blocks, and then over dp.
  auto add = [&](const std::string &name, ElementType type,
                 std::vector<int64_t> shape, int64_t blocks, bool isSharded,
                 int64_t extra = 0) -> StateInfo & {
    StateInfo &state = list.add(name, type, std::move(shape));
    divide(state, tensor, tensorAxis, blocks, extra);
    if (isSharded)
      divide(state, data);
    return state;
  };
  add("columns", ElementType::F32, {4, 6}, 4, false);
  add("odd", ElementType::BF16, {3, 5}, 3, true).init.zeroRow = 1;
  add("sections", ElementType::F32, {4, 18}, 12, true);
  add("heads", ElementType::F32, {2, 12}, 2, false, 2);
  add("rows", ElementType::F32, {7, 3}, 1, true);
  list.add("norm", ElementType::F32, {5});
  add("mask", ElementType::F32, {3}, 1, true).role = StateRole::Buffer;
  add("many", ElementType::F32, {manyRows, manyColumns}, manyRows, true);
  for (const char *of : {"columns", "norm"}) {
    bool isMatrix = std::string(of) == "columns";
    StateInfo &moment =
        add(std::string(of) + ".m", ElementType::F32,
            isMatrix ? std::vector<int64_t>{4, 6} : std::vector<int64_t>{5},
            isMatrix ? 4 : 1, true);
    if (!isMatrix && tensor > 1) {
      // The elements of a norm are only divided over dp.
      moment.divisions.clear();
      moment.shape = moment.globalShape;
      divide(moment, data);
    }
    moment.role = StateRole::Optimizer;
    moment.of = of;
    moment.slot = "m";
  }
  list.makeMirror(add("columns.f16", ElementType::F16, {4, 6}, 4, false),
                  "columns");
  list.makeMirror(add("rows.bf16", ElementType::BF16, {7, 3}, 1, false),
                  "rows");
  list.makeMirror(add("odd.f32", ElementType::F32, {3, 5}, 3, false), "odd");
  list.makeMirror(add("many.bf16", ElementType::BF16, {manyRows, manyColumns},
                      manyRows, false),
                  "many");
  return list;
}

/// Initializes the states on each rank of a mesh and then calls body(engine,
/// ranks) on each rank.
template <typename Body> void onRanks(const char *text, Body body) {
  Mesh mesh = *parseMesh(text);
  auto run = [&](Ranks ranks) {
    ShardedEngine engine(describeModel(mesh).description());
    ranks.useMesh(mesh);
    Status status = initialiseStates(engine, ranks.rank(), 7);
    ASSERT_TRUE(status.ok()) << status.message();
    status = copyMirrors(engine, ranks.world());
    ASSERT_TRUE(status.ok()) << status.message();
    body(engine, ranks);
  };
  if (mesh.size() == 1)
    return run(Ranks());
  ThreadWorlds worlds(int(mesh.size()), /*peerTimeout=*/20);
  worlds.onEach([&](World &world) {
    run(Ranks(world));
    EXPECT_TRUE(world.failure().ok()) << world.failure().message();
  });
}

void expectParts(const ShardedEngine &whole, const ShardedEngine &part,
                 int64_t rank) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    const StateInfo &state = part.description().states[i];
    const Mesh &mesh = part.description().mesh;
    EXPECT_TRUE(part.bytes(i) == partOf(whole.bytes(i), state, mesh, rank))
        << state.name << " of rank " << rank << " of " << mesh.text();
  }
}

TEST(TensorShardsTest, StatesAndMirrorsArePartsOfTheWhole) {
  onRanks("", [](ShardedEngine &whole, Ranks &) {
    for (const char *mesh : meshes)
      onRanks(mesh, [&](ShardedEngine &part, Ranks &ranks) {
        expectParts(whole, part, ranks.rank());
      });
  });
}

// --check-memory runs only one rank of a program for several ranks. This rank
// must fill its part of each mirror (copy of a parameter) without the others.
TEST(TensorShardsTest, OneRankFillsItsPartOfMirrors) {
  Mesh mesh = *parseMesh("dp=2,tp=2");
  ShardedEngine part(describeModel(mesh).description());
  ASSERT_TRUE(initialiseStates(part, 0, 7).ok());
  ASSERT_TRUE(copyMirrors(part).ok());
  const std::vector<StateInfo> &states = part.description().states;
  ASSERT_EQ(states[12].name, "odd.f32");
  std::vector<float> mirror(size_t(states[12].elements())),
      shard(mirror.size());
  std::memcpy(mirror.data(), part.bytes(12).data(), part.bytes(12).size());
  convertElements(ElementType::BF16, part.bytes(1).data(), ElementType::F32,
                  shard.data(), size_t(states[1].elements()));
  EXPECT_EQ(mirror, shard);
}

/// Saves a checkpoint of step 10 on all ranks.
Status save(Engine &engine, Ranks &ranks, const std::string &path) {
  WholeStates states(engine, ranks, "the checkpoint");
  if (!ranks.isFirst())
    return states.finish(sendCheckpoint(states));
  Result<CheckpointDir> directory = CheckpointDir::open(path);
  if (!directory.ok())
    return states.finish(directory.status());
  Progress progress;
  progress.step = 10;
  std::vector<std::string> notes;
  return states.finish(saveCheckpoint(*directory, states, progress, {}, {}, {},
                                      /*keep=*/0, notes));
}

std::string filesIn(const std::string &directory) {
  return readBytes(directory + "/checkpoint-10/model.safetensors") +
         readBytes(directory + "/checkpoint-10/optimizer.safetensors") +
         readBytes(directory + "/checkpoint-10/kiln_manifest.json");
}

TEST(TensorShardsTest, CheckpointsDoNotDependOnTheMesh) {
  TestDirectory directory;
  std::string expected;
  for (const char *mesh : meshes) {
    std::string path = directory / ("mesh" + std::string(mesh));
    onRanks(mesh, [&](ShardedEngine &engine, Ranks &ranks) {
      Status status = save(engine, ranks, path);
      EXPECT_TRUE(status.ok()) << status.message();
    });
    if (expected.empty())
      expected = filesIn(path);
    EXPECT_GT(expected.size(), size_t(4 * manyRows * manyColumns));
    EXPECT_TRUE(filesIn(path) == expected) << mesh;
  }
}

TEST(TensorShardsTest, AnyMeshResumes) {
  TestDirectory directory;
  onRanks("dp=2,tp=2", [&](ShardedEngine &engine, Ranks &ranks) {
    ASSERT_TRUE(save(engine, ranks, directory / "saved").ok());
  });
  std::string path = directory / "saved/checkpoint-10";
  onRanks("", [&](ShardedEngine &whole, Ranks &) {
    for (const char *mesh : meshes)
      onRanks(mesh, [&](ShardedEngine &part, Ranks &ranks) {
        // Loading must replace all of these bytes, even in the padding.
        for (std::size_t i = 0; i < part.size(); ++i)
          std::memset(part.stateData(i), 0x55, part.bytes(i).size());
        std::vector<std::string> notes;
        Result<ResumePoint> point = openCheckpoint(path, part, notes);
        ASSERT_TRUE(point.ok()) << point.status().message();
        point->loadsStates = true;
        Status status = loadCheckpoint(*point, part, ranks.rank(), notes);
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_TRUE(copyMirrors(part, ranks.world()).ok());
        expectParts(whole, part, ranks.rank());
      });
  });
}

TEST(TensorShardsTest, WeightsHaveOneHash) {
  TestDirectory directory;
  onRanks("", [&](ShardedEngine &engine, Ranks &ranks) {
    ASSERT_TRUE(save(engine, ranks, directory / "saved").ok());
  });
  std::string path = directory / "saved/checkpoint-10/model.safetensors";
  std::string expected;
  onRanks("", [&](ShardedEngine &whole, Ranks &) {
    std::vector<std::string> notes;
    ASSERT_TRUE(loadWeights(whole, 0, path, {}, notes, &expected).ok());
    for (const char *mesh : meshes)
      onRanks(mesh, [&](ShardedEngine &part, Ranks &ranks) {
        for (std::size_t i = 0; i < part.size(); ++i)
          if (isWeight(part.description().states[i]))
            std::memset(part.stateData(i), 0x55, part.bytes(i).size());
        std::string hash;
        std::vector<std::string> messages;
        Status status =
            loadWeights(part, ranks.rank(), path, {}, messages, &hash);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(hash, expected);
        expectParts(whole, part, ranks.rank());
      });
  });
}

TEST(TensorShardsTest, ReplicasHaveOneHash) {
  onRanks("dp=2,tp=2", [](ShardedEngine &engine, Ranks &ranks) {
    auto differs = [&](const std::vector<std::string> &axes) {
      return ranks.compare({{"states", *hashStates(engine, axes), axes}})
          .message();
    };
    EXPECT_EQ(differs({}), "");
    EXPECT_EQ(differs({"tp"}), "");
    EXPECT_EQ(differs({"dp"}), "");
    EXPECT_EQ(differs({"tp", "dp"}), "");
    if (ranks.rank() == 3)
      engine.stateData(0)[1] ^= 1; // "columns", which is divided over tp.
    EXPECT_EQ(differs({}), "");
    EXPECT_EQ(differs({"dp"}), "");
    EXPECT_EQ(differs({"tp"}),
              "the states of rank 3 differ from those of rank 1; both ranks "
              "must have the same states");
  });
}

TEST(TensorShardsTest, RunsOfAllMeshesSaveTheSame) {
  TestDirectory directory;
  std::string expected;
  for (const char *text : meshes) {
    Mesh mesh = *parseMesh(text);
    std::string path = directory / ("mesh" + std::string(text));
    std::vector<std::string> flags = {"--steps=0", "--seed=3",
                                      "--save=" + path};
    auto onRank = [&](Ranks ranks) {
      ShardedEngine engine(describeModel(mesh).description());
      std::vector<std::string> own = flags;
      std::vector<char *> arguments = {const_cast<char *>("train")};
      for (std::string &flag : own)
        arguments.push_back(flag.data());
      Result<ParsedOptions> options = parseOptions(
          int(arguments.size()), arguments.data(), &engine.description());
      ASSERT_TRUE(options.ok()) << options.status().message();
      Status status =
          ranks.finish(Driver(engine, options->options, ranks).drive());
      EXPECT_TRUE(status.ok()) << status.message();
    };
    if (mesh.size() == 1) {
      onRank(Ranks());
    } else {
      ThreadWorlds worlds(int(mesh.size()), /*peerTimeout=*/20);
      worlds.onEach([&](World &world) { onRank(Ranks(world)); });
    }
    std::string saved = readBytes(path + "/checkpoint-0/model.safetensors") +
                        readBytes(path + "/checkpoint-0/optimizer.safetensors");
    if (expected.empty())
      expected = saved;
    EXPECT_TRUE(saved == expected) << text;
  }
}

TEST(TensorShardsTest, DescribesTheMesh) {
  auto describe = [](const char *mesh) {
    return describeText(describeModel(*parseMesh(mesh)).description());
  };
  std::string text = describe("dp=2,tp=2");
  EXPECT_NE(text.find("\nranks: 4 (dp=2, tp=2)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nsharded states: 7, 1/2 of each on each rank; 6, 1/4 "
                      "of each on each rank\n"),
            std::string::npos)
      << text;
  EXPECT_NE(describe("tp=2").find("\nranks: 2 (tp=2)\n"), std::string::npos);
  EXPECT_NE(describe("dp=2").find("\nranks: 2\n"), std::string::npos);
}

} // namespace
