//===- ShardsTest.cpp - Filling sharded states ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardedEngine.h"

#include "Describe.h"
#include "States.h"
#include "TestFiles.h"
#include "ThreadWorlds.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/SafeTensors.h"

#include <numeric>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// The number of elements of a tensor that is too large for one message, so
/// that it is sent in several chunks.
constexpr int64_t manyElements = 2'100'001;

/// Returns states of all kinds. With many ranks, some shards are only padding.
StateList describeStates(int64_t ranks) {
  StateList list(ranks);
  list.addSharded("w", ElementType::F32, {7, 3});
  list.addSharded("e", ElementType::BF16, {6, 5}).init.zeroRow = 2;
  list.add("b", ElementType::F32, {5});
  StateInfo &two = list.addSharded("two", ElementType::F64, {2});
  two.init.kind = InitialValue::Kind::Uniform;
  list.addSharded("scalar", ElementType::F32, {});
  StateInfo &mask = list.addSharded("mask", ElementType::F32, {4, 4});
  mask.role = StateRole::Buffer;
  mask.init.kind = InitialValue::Kind::Constant;
  mask.init.value = 2;
  StateInfo &rope = list.addSharded("rope", ElementType::F32, {9, 2});
  rope.role = StateRole::Constant;
  rope.init.kind = InitialValue::Kind::RopeCos;
  rope.init.inverseFrequencies = {1, 0.25};
  list.addMoment("w", "m", {7, 3}).init.kind = InitialValue::Kind::Constant;
  list.addSharded("many", ElementType::F32, {manyElements}).init.kind =
      InitialValue::Kind::Uniform;
  return list;
}

/// Expects that the states of a rank are the slices of whole states, followed
/// by zeros.
void expectSlices(const ShardedEngine &whole, const ShardedEngine &part,
                  int64_t rank) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    const StateInfo &state = part.description().states[i];
    EXPECT_TRUE(part.bytes(i) ==
                partOf(whole.bytes(i), state, part.description().mesh, rank))
        << state.name << " of rank " << rank << " of "
        << part.description().ranks();
  }
}

TEST(ShardsTest, InitialValuesAreSlicesOfTheWhole) {
  ShardedEngine whole(describeStates(1).description());
  ASSERT_TRUE(initialiseStates(whole, 0, 7).ok());
  for (int ranks : {2, 3, 5, 40})
    for (int rank = 0; rank < ranks; ++rank) {
      ShardedEngine part(describeStates(ranks).description());
      Status status = initialiseStates(part, rank, 7);
      ASSERT_TRUE(status.ok()) << status.message();
      expectSlices(whole, part, rank);
    }
}

// A shard may have several dimensions, and more elements than needed.
TEST(ShardsTest, ShardsMayHaveAnyShape) {
  ShardedEngine whole(describeStates(1).description());
  ASSERT_TRUE(initialiseStates(whole, 0, 7).ok());
  StateList list = describeStates(3);
  std::vector<StateInfo> &states = list.description().states;
  states[0].shape = {3, 3};
  states[0].divisions[0].elements = 9;
  states[1].shape = {2, 2, 5};
  states[1].divisions[0].elements = 20;
  for (int rank = 0; rank < 3; ++rank) {
    ShardedEngine part(list.description());
    ASSERT_TRUE(initialiseStates(part, rank, 7).ok());
    StateLayout layout(states[1], list.description().mesh, rank);
    EXPECT_EQ(layout.elementsIn(layout.whole()), rank == 0   ? 20
                                                 : rank == 1 ? 10
                                                             : 0);
    expectSlices(whole, part, rank);
  }
}

/// Writes weights for describeStates(), in the type of their states or in f64.
std::string writeWeights(const TestDirectory &directory, bool isWide) {
  StateList list = describeStates(1);
  std::vector<TensorDeclaration> tensors;
  for (const StateInfo &state : list.description().states)
    if (isWeight(state))
      tensors.push_back({state.sourceName,
                         isWide ? ElementType::F64 : state.type, state.shape});
  std::string path = directory / "model.safetensors";
  Result<SafeTensorsWriter> writer = SafeTensorsWriter::create(path, tensors);
  EXPECT_TRUE(writer.ok());
  for (const TensorDeclaration &tensor : tensors) {
    std::vector<double> values(std::size_t(elementsOf(tensor.shape)));
    std::iota(values.begin(), values.end(), 1 / 3.0);
    std::string bytes(std::size_t(bytesOf(tensor.type, values.size())), '\0');
    convertElements(ElementType::F64, values.data(), tensor.type, bytes.data(),
                    values.size());
    EXPECT_TRUE(writer->write(bytes.data(), bytes.size()).ok());
  }
  EXPECT_TRUE(writer->finish().ok());
  return path;
}

TEST(ShardsTest, WeightsAreSlicesOfTheFile) {
  for (bool isWide : {false, true}) {
    TestDirectory directory;
    std::string path = writeWeights(directory, isWide);
    std::vector<std::string> notes;
    std::string wholeHash, hash;
    ShardedEngine whole(describeStates(1).description());
    ASSERT_TRUE(initialiseStates(whole, 0, 7).ok());
    ASSERT_TRUE(loadWeights(whole, 0, path, {}, notes, &wholeHash).ok());
    for (int ranks : {2, 3, 5})
      for (int rank = 0; rank < ranks; ++rank)
        for (std::string *wanted :
             {&hash, static_cast<std::string *>(nullptr)}) {
          ShardedEngine part(describeStates(ranks).description());
          ASSERT_TRUE(initialiseStates(part, rank, 7).ok());
          Status status = loadWeights(part, rank, path, {}, notes, wanted);
          ASSERT_TRUE(status.ok()) << status.message();
          expectSlices(whole, part, rank);
          // The hash covers the whole file on every rank.
          EXPECT_EQ(hash, wholeHash);
        }
  }
}

TEST(ShardsTest, WeightFilesHaveTheWholeShape) {
  TestDirectory directory;
  std::string path = writeWeights(directory, false);
  StateList list = describeStates(2);
  StateInfo &state = list.description().states[0];
  state.globalShape = {21};
  ShardedEngine part(list.description());
  std::vector<std::string> notes;
  Status status = loadWeights(part, 1, path, {}, notes);
  EXPECT_EQ(status.code(), ExitCode::BadInput);
  EXPECT_NE(status.message().find("model.w"), std::string::npos)
      << status.message();
}

TEST(ShardsTest, HashesOmitShards) {
  StateList list = describeStates(2);
  ShardedEngine first(list.description()), second(list.description());
  ASSERT_TRUE(initialiseStates(first, 0, 7).ok());
  ASSERT_TRUE(initialiseStates(second, 1, 7).ok());
  EXPECT_EQ(*hashStates(first), *hashStates(second));
  second.stateData(0)[0] ^= 1;
  EXPECT_EQ(*hashStates(first), *hashStates(second));
  second.stateData(2)[0] ^= 1; // "b", which is not sharded.
  EXPECT_NE(*hashStates(first), *hashStates(second));
}

/// Adds mirrors (copies of parameters), most of which are not sharded, to the
/// states of describeStates().
StateList describeMirrors(int64_t ranks) {
  StateList list = describeStates(ranks);
  list.makeMirror(list.add("w.bf16", ElementType::BF16, {7, 3}), "w");
  list.makeMirror(list.add("e.f32", ElementType::F32, {6, 5}), "e");
  list.makeMirror(list.add("e.copy", ElementType::BF16, {6, 5}), "e");
  list.makeMirror(list.addSharded("w.shard", ElementType::F16, {7, 3}), "w");
  list.makeMirror(list.add("b.bf16", ElementType::BF16, {5}), "b");
  list.makeMirror(list.add("two.f32", ElementType::F32, {2}), "two");
  list.makeMirror(list.add("many.bf16", ElementType::BF16, {manyElements}),
                  "many");
  return list;
}

TEST(ShardsTest, MirrorsHaveTheElementsOfAllRanks) {
  ShardedEngine whole(describeMirrors(1).description());
  ASSERT_TRUE(initialiseStates(whole, 0, 7).ok());
  ASSERT_TRUE(copyMirrors(whole).ok());
  for (int ranks : {2, 3, 5}) {
    ThreadWorlds worlds(ranks);
    worlds.onEach([&](World &world) {
      ShardedEngine part(describeMirrors(ranks).description());
      ASSERT_TRUE(initialiseStates(part, world.rank(), 7).ok());
      Status status = copyMirrors(part, &world);
      ASSERT_TRUE(status.ok()) << status.message();
      expectSlices(whole, part, world.rank());
    });
  }
}

TEST(ShardsTest, ARankThatCannotFillMirrorsDoesNotDelayOthers) {
  StateList list = describeMirrors(3);
  // The indexes of the states "w" and "many", and of a mirror (a copy) of each.
  for (std::size_t failing : {0u, 8u, 9u, 15u}) {
    ThreadWorlds worlds(3);
    worlds.onEach([&](World &world) {
      ShardedEngine part(list.description());
      ASSERT_TRUE(initialiseStates(part, world.rank(), 7).ok());
      if (world.rank() == 1)
        part.failAt(failing);
      Status status = copyMirrors(part, &world);
      EXPECT_EQ(status.message(),
                world.rank() == 1 ? "the device is gone" : "");
      EXPECT_TRUE(world.failure().ok());
    });
  }
}

// --check-memory runs only one rank of a program for several ranks. This rank
// must fill its part of each mirror (copy of a parameter) without the others.
TEST(ShardsTest, OneRankFillsItsPartOfMirrors) {
  ShardedEngine part(describeMirrors(2).description());
  ASSERT_TRUE(initialiseStates(part, 0, 7).ok());
  ASSERT_TRUE(copyMirrors(part).ok());
  std::string copy = part.bytes(11), shard = part.bytes(1); // "e.copy", "e"
  EXPECT_EQ(copy.substr(0, shard.size()), shard);
  EXPECT_EQ(copy.substr(shard.size()),
            std::string(copy.size() - shard.size(), '\0'));
}

TEST(ShardsTest, CountsAreThoseOfWholeTensors) {
  for (int64_t ranks : {1, 2, 5}) {
    StateList list = describeMirrors(ranks);
    int64_t count = 21 + 30 + 5 + 2 + 1 + manyElements;
    EXPECT_EQ(parameterCount(list.description()), count);
    EXPECT_EQ(trainableCount(list.description()), count);
    std::string text = describeText(list.description());
    std::string line = "\nsharded states: 9, 1/" + std::to_string(ranks) +
                       " of each on each rank\n";
    EXPECT_EQ(text.find(line) != std::string::npos, ranks > 1) << text;
  }
}

} // namespace
