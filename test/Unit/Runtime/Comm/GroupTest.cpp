//===- GroupTest.cpp - Collectives over the axes of a mesh ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs collectives over the groups of a mesh, alternating between its axes. The
// groups of an axis have different tensors.
//
//===----------------------------------------------------------------------===//

#include "CollectiveValues.h"
#include "RingCollective.h"
#include "ThreadWorlds.h"

#include <algorithm>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// The number of elements of a tensor: so large that a ring sends the tensor in
/// several fragments, and not a multiple of the size of any group of ranks.
constexpr int64_t count = RingCollective::fragmentBytes / 4 * 3 + 5;

int64_t shardCountOf(const MeshGroup &group) {
  return (count + group.size - 1) / group.size;
}

/// Returns the arrays of the ranks of a group, which differ between groups.
std::vector<Bytes> inputsOf(const MeshGroup &group, int64_t seed) {
  return arrays(ElementType::F32, count, int(group.size),
                seed + 100 * group.first + 10'000 * group.stride);
}

/// Returns the sum of the arrays of a group. The order of the additions is that
/// of `collective`, a reduce-scatter or an all-reduce.
Bytes sumOf(const std::vector<Bytes> &all, Collective collective) {
  int ranks = int(all.size());
  Bytes result;
  for (int part = 0; part < ranks; ++part) {
    int64_t shard = (count + ranks - 1) / ranks;
    RingPart range =
        collective == Collective::AllReduce
            ? ringPart(count, ranks, part)
            : RingPart{part * shard, std::min(shard, count - part * shard)};
    int first = part + (collective == Collective::AllReduce ? 0 : 1);
    for (int64_t i = range.begin; i < range.begin + range.count; ++i) {
      Bytes sum = sumFrom(first, ElementType::F32, i, all);
      result.insert(result.end(), sum.begin(), sum.end());
    }
  }
  return result;
}

/// The tensors of one rank for a reduce-scatter, an all-reduce and an
/// all-gather.
struct AxisTensors {
  MeshGroup group;
  Bytes scattered, shard, reduced, gathered;
  std::vector<CollectiveSpan> scatterSpans, reduceSpans, gatherSpans;

  AxisTensors(const MeshGroup &group, int rank) : group(group) {
    auto index = std::size_t(group.indexOf(rank));
    scattered = inputsOf(group, 1)[index];
    reduced = inputsOf(group, 2)[index];
    shard.assign(std::size_t(4 * shardCountOf(group)), 77);
    gathered.assign(std::size_t(4 * count), 55);
    scatterSpans = {
        {scattered.data(), count, shard.data(), shardCountOf(group)}};
    reduceSpans = {{reduced.data(), count}};
    gatherSpans = {{gathered.data(), count, shard.data(), shardCountOf(group)}};
  }
  CollectiveJob job(Collective collective) {
    CollectiveJob job = jobOf(
        collective, collective == Collective::AllReduce       ? reduceSpans
                    : collective == Collective::ReduceScatter ? scatterSpans
                                                              : gatherSpans);
    job.group = group;
    return job;
  }
};

class GroupTest : public testing::TestWithParam<const char *> {};

TEST_P(GroupTest, AxesTakeTurns) {
  Mesh mesh = *parseMesh(GetParam());
  ThreadWorlds worlds{int(mesh.size())};
  worlds.onEach([&](World &world) {
    int rank = world.rank();
    std::vector<AxisTensors> axes;
    for (const MeshAxis &axis : mesh.axes) {
      axes.emplace_back(mesh.groupOf(axis.name, rank), rank);
      world.reserve(6, 4 * shardCountOf(axes.back().group) * axis.size,
                    axis.size);
    }
    std::vector<uint64_t> jobs;
    for (Collective collective : {Collective::ReduceScatter,
                                  Collective::AllReduce, Collective::AllGather})
      for (AxisTensors &axis : axes)
        jobs.push_back(world.begin(axis.job(collective)));
    for (uint64_t job : jobs)
      world.wait(job);
    ASSERT_TRUE(world.failure().ok()) << world.failure().message();
    int64_t sums = 0, gathers = 0;
    for (AxisTensors &axis : axes) {
      Bytes sum = sumOf(inputsOf(axis.group, 1), Collective::ReduceScatter);
      EXPECT_TRUE(axis.gathered == sum) << rank;
      EXPECT_TRUE(axis.reduced ==
                  sumOf(inputsOf(axis.group, 2), Collective::AllReduce))
          << rank;
      int64_t index = axis.group.indexOf(rank);
      Bytes shard(axis.shard.size(), 0);
      std::size_t begin = std::min(shard.size() * index, sum.size());
      std::copy_n(sum.begin() + std::ptrdiff_t(begin),
                  std::min(shard.size(), sum.size() - begin), shard.begin());
      EXPECT_TRUE(axis.shard == shard) << rank;
      for (Collective collective :
           {Collective::AllReduce, Collective::ReduceScatter})
        sums += ringSentBytes(axis.job(collective), int(axis.group.size),
                              int(index));
      gathers += ringSentBytes(axis.job(Collective::AllGather),
                               int(axis.group.size), int(index));
    }
    EXPECT_EQ(world.sent().of(TrafficKind::Sum), sums);
    EXPECT_EQ(world.sent().of(TrafficKind::Gather), gathers);
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, GroupTest,
                         testing::Values("dp=2,tp=2", "dp=3,tp=2", "dp=2,tp=3",
                                         "tp=3"),
                         [](const auto &info) {
                           std::string name;
                           for (char c : std::string(info.param))
                             if (std::isalnum(c))
                               name += c;
                           return name;
                         });

// A World, which connects all ranks, reserves enough scratch memory for its
// smallest group of ranks, because a smaller group needs more scratch memory.
TEST(GroupsTest, SmallGroupsNeedMoreScratchMemory) {
  ThreadWorlds worlds(4);
  worlds[0].reserve(1, 4000);
  int64_t least = worlds[0].scratchBytes();
  worlds[0].reserve(1, 4000, 2);
  int64_t most = worlds[0].scratchBytes();
  EXPECT_GT(most, least);
  worlds[0].reserve(1, 4000, 4);
  EXPECT_EQ(worlds[0].scratchBytes(), most);
}

TEST(GroupsTest, AGroupOfOneRankOnlyCopies) {
  ThreadWorlds worlds(2);
  std::vector<float> values = {1, 2};
  std::vector<CollectiveSpan> spans = {
      {reinterpret_cast<char *>(values.data()), 2}};
  CollectiveJob job = jobOf(Collective::AllReduce, spans);
  job.group = MeshGroup{1, 1, 1};
  worlds[1].wait(worlds[1].begin(job));
  EXPECT_TRUE(worlds[1].failure().ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

TEST(GroupsTest, MessagesNameThePeersOfTheGroup) {
  Mesh mesh = *parseMesh("dp=3,tp=2");
  for (auto [axis, peers] :
       {std::pair("dp", "with rank 1 and rank 5"), std::pair("tp", "rank 2")}) {
    ThreadWorlds worlds(6, /*peerTimeout=*/1);
    World &world = worlds[3];
    world.reserve(1, 64, 2);
    std::vector<float> values(16);
    std::vector<CollectiveSpan> spans = {
        {reinterpret_cast<char *>(values.data()), 16}};
    CollectiveJob job = jobOf(Collective::AllReduce, spans);
    job.group = mesh.groupOf(axis, 3);
    world.wait(world.begin(job));
    std::string message = world.failure().message();
    EXPECT_EQ(message.substr(message.size() - std::string(peers).size()), peers)
        << message;
  }
}

} // namespace
