//===- ShardTest.cpp - Collectives over shards ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests the reduce-scatter and the all-gather of tensors whose sizes are not
// multiples of the number of ranks.
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

/// The number of elements of a tensor, and the number of elements of each
/// shard.
struct Sizes {
  int64_t count, shardCount;
};
using Bucket = std::vector<Sizes>;

/// The number of f32 elements of the largest fragment, the unit in which shards
/// are sent.
constexpr int64_t fragment = RingCollective::fragmentBytes / 4;

/// Buckets with fewer elements than ranks, with incomplete and empty shards,
/// with more padding than needed, and with shards that are sent in several
/// fragments.
std::vector<Bucket> buckets(int ranks) {
  auto tight = [=](int64_t count) {
    return Sizes{count, (count + ranks - 1) / ranks};
  };
  return {{tight(1)},
          {tight(ranks)},
          {tight(ranks + 1), tight(7), tight(1), tight(1001)},
          {tight(3), {5, 16}, {0, 4}, tight(12), {70, 64}},
          {{0, 1}},
          {tight(17), tight(fragment * ranks * 5 / 2 + 1), {33, 128}}};
}

/// The tensors of one rank, each surrounded by bytes that must not change.
class Tensors {
public:
  static constexpr int64_t border = 64;
  static constexpr char borderByte = 85, freshByte = 119;

  Tensors(const Bucket &bucket, ElementType type) : bucket_(bucket) {
    for (const Sizes &sizes : bucket) {
      wholes_.push_back(allocate(bytesOf(type, sizes.count)));
      shards_.push_back(allocate(bytesOf(type, sizes.shardCount)));
    }
    for (std::size_t i = 0; i < bucket.size(); ++i)
      spans.push_back({wholes_[i].data() + border, bucket[i].count,
                       shards_[i].data() + border, bucket[i].shardCount});
  }

  Bytes whole(std::size_t i) const { return inner(wholes_[i]); }
  Bytes shard(std::size_t i) const { return inner(shards_[i]); }
  void setWhole(std::size_t i, const Bytes &bytes) {
    std::copy(bytes.begin(), bytes.end(), wholes_[i].begin() + border);
  }
  void setShard(std::size_t i, const Bytes &bytes) {
    std::copy(bytes.begin(), bytes.end(), shards_[i].begin() + border);
  }
  bool hasBorders() const {
    for (const std::vector<Bytes> *all : {&wholes_, &shards_})
      for (const Bytes &bytes : *all)
        if (std::count(bytes.begin(), bytes.begin() + border, borderByte) !=
                border ||
            std::count(bytes.end() - border, bytes.end(), borderByte) != border)
          return false;
    return true;
  }

  std::vector<CollectiveSpan> spans;

private:
  static Bytes allocate(int64_t bytes) {
    Bytes all(std::size_t(bytes + 2 * border), borderByte);
    std::fill(all.begin() + border, all.end() - border, freshByte);
    return all;
  }
  static Bytes inner(const Bytes &bytes) {
    return Bytes(bytes.begin() + border, bytes.end() - border);
  }

  Bucket bucket_;
  std::vector<Bytes> wholes_, shards_;
};

/// Returns the number of bytes of the shards of all ranks, including padding.
/// World::reserve() needs this number as the size of a sum.
int64_t paddedBytes(const Bucket &bucket, ElementType type, int ranks) {
  int64_t elements = 0;
  for (const Sizes &sizes : bucket)
    elements += sizes.shardCount;
  return bytesOf(type, elements * ranks);
}

/// Returns the shard of `whole` that belongs to a rank, with padding.
Bytes shardOf(const Bytes &whole, const Sizes &sizes, ElementType type,
              int rank) {
  Bytes shard(std::size_t(bytesOf(type, sizes.shardCount)), 0);
  int64_t begin = std::min(sizes.count, rank * sizes.shardCount);
  int64_t end = std::min(sizes.count, (rank + 1) * sizes.shardCount);
  std::copy(whole.begin() + bytesOf(type, begin),
            whole.begin() + bytesOf(type, end), shard.begin());
  return shard;
}

/// Returns the whole tensor that a reduce-scatter and an all-gather compute. If
/// an element is in the shard of rank r, its sum begins with the term of rank
/// r + 1 (modulo the number of ranks).
Bytes expectedSum(const Sizes &sizes, ElementType type,
                  const std::vector<Bytes> &all) {
  Bytes result;
  for (int64_t i = 0; i < sizes.count; ++i) {
    Bytes sum = sumFrom(int(i / sizes.shardCount) + 1, type, i, all);
    result.insert(result.end(), sum.begin(), sum.end());
  }
  return result;
}

TEST(ShardTest, EveryElementIsInOneShard) {
  for (int ranks : {2, 3, 4, 5})
    for (const Bucket &bucket : buckets(ranks))
      for (const Sizes &sizes : bucket) {
        CollectiveSpan span = {nullptr, sizes.count, nullptr, sizes.shardCount};
        int64_t elements = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_GE(shardElements(span, rank), 0);
          EXPECT_LE(shardElements(span, rank), sizes.shardCount);
          elements += shardElements(span, rank);
        }
        EXPECT_EQ(elements, sizes.count);
      }
}

TEST(ShardTest, SendsElementsButNoPadding) {
  // The shards of rank 0 have 3 + 1 elements, those of rank 1 have 3, and those
  // of rank 2 have 1.
  std::vector<CollectiveSpan> spans = {{nullptr, 7, nullptr, 3},
                                       {nullptr, 1, nullptr, 1}};
  CollectiveJob scatter =
      jobOf(Collective::ReduceScatter, spans, ElementType::F32);
  EXPECT_EQ(ringSentBytes(scatter, 3, 0), 4 * (8 - 4));
  EXPECT_EQ(ringSentBytes(scatter, 3, 1), 4 * (8 - 3));
  EXPECT_EQ(ringSentBytes(scatter, 3, 2), 4 * (8 - 1));
  CollectiveJob gather = jobOf(Collective::AllGather, spans, ElementType::I8);
  EXPECT_EQ(ringSentBytes(gather, 3, 0), 8 - 3);
  EXPECT_EQ(ringSentBytes(gather, 3, 1), 8 - 1);
  EXPECT_EQ(ringSentBytes(gather, 3, 2), 8 - 4);
  EXPECT_EQ(ringSentBytes(gather, 1, 0), 0);
}

class ShardsOfType : public testing::TestWithParam<ElementType> {};

/// Sums buckets by a reduce-scatter, and gathers the sums by an all-gather.
TEST_P(ShardsOfType, HaveTheBitsOfTheDefinedOrder) {
  ElementType type = GetParam();
  for (int ranks : {2, 3, 4, 5}) {
    ThreadWorlds worlds(ranks);
    for (const Bucket &bucket : buckets(ranks)) {
      std::vector<std::vector<Bytes>> inputs;
      std::vector<Bytes> expected;
      for (const Sizes &sizes : bucket) {
        inputs.push_back(
            arrays(type, sizes.count, ranks, int64_t(inputs.size())));
        expected.push_back(expectedSum(sizes, type, inputs.back()));
      }
      worlds.onEach([&](World &world) {
        world.reserve(2, paddedBytes(bucket, type, ranks));
        auto rank = std::size_t(world.rank());
        // In the second run, the padding and the scratch memory contain other
        // bytes.
        for (int run = 0; run < 2; ++run) {
          Tensors tensors(bucket, type), gathered(bucket, type);
          for (std::size_t i = 0; i < bucket.size(); ++i) {
            tensors.setWhole(i, inputs[i][rank]);
            gathered.spans[i].shard = tensors.spans[i].shard;
          }
          Traffic before = world.sent();
          CollectiveJob scatter =
              jobOf(Collective::ReduceScatter, tensors.spans, type);
          CollectiveJob gather =
              jobOf(Collective::AllGather, gathered.spans, type);
          world.begin(scatter);
          world.wait(world.begin(gather));
          EXPECT_TRUE(world.failure().ok());
          for (std::size_t i = 0; i < bucket.size(); ++i) {
            EXPECT_TRUE(tensors.shard(i) ==
                        shardOf(expected[i], bucket[i], type, world.rank()))
                << ranks << " ranks, rank " << rank << ", tensor " << i;
            EXPECT_TRUE(gathered.whole(i) == expected[i])
                << ranks << " ranks, rank " << rank << ", tensor " << i;
          }
          EXPECT_TRUE(tensors.hasBorders());
          EXPECT_TRUE(gathered.hasBorders());
          EXPECT_EQ(world.sent().of(TrafficKind::Sum) -
                        before.of(TrafficKind::Sum),
                    ringSentBytes(scatter, ranks, world.rank()));
          EXPECT_EQ(world.sent().of(TrafficKind::Gather) -
                        before.of(TrafficKind::Gather),
                    ringSentBytes(gather, ranks, world.rank()));
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ShardsOfType,
                         testing::Values(ElementType::F32, ElementType::F64,
                                         ElementType::BF16, ElementType::F16),
                         [](const auto &info) {
                           return std::string(infoOf(info.param).name);
                         });

TEST(ShardTest, GathersIntegers) {
  for (ElementType type : {ElementType::I8, ElementType::I64})
    for (int ranks : {2, 3, 4, 5}) {
      ThreadWorlds worlds(ranks);
      for (const Bucket &bucket : buckets(ranks)) {
        std::vector<Bytes> wholes;
        for (const Sizes &sizes : bucket) {
          Bytes &whole =
              wholes.emplace_back(std::size_t(bytesOf(type, sizes.count)));
          for (std::size_t i = 0; i < whole.size(); ++i)
            whole[i] = char(i * 31 + i / 251 + wholes.size());
        }
        worlds.onEach([&](World &world) {
          Tensors tensors(bucket, type);
          std::vector<Bytes> shards;
          for (std::size_t i = 0; i < bucket.size(); ++i) {
            shards.push_back(shardOf(wholes[i], bucket[i], type, world.rank()));
            tensors.setShard(i, shards.back());
          }
          world.wait(
              world.begin(jobOf(Collective::AllGather, tensors.spans, type)));
          EXPECT_TRUE(world.failure().ok());
          for (std::size_t i = 0; i < bucket.size(); ++i) {
            EXPECT_TRUE(tensors.whole(i) == wholes[i])
                << ranks << " ranks, tensor " << i;
            EXPECT_TRUE(tensors.shard(i) == shards[i]);
          }
          EXPECT_TRUE(tensors.hasBorders());
        });
      }
    }
}

TEST(ShardTest, AllKindsOfCollectivesCompleteInOrder) {
  constexpr int ranks = 3;
  constexpr int64_t count = 300'001, shardCount = (count + 2) / 3;
  std::vector<Bytes> all = arrays(ElementType::F32, count, ranks);
  Bytes once = expectedSum({count, shardCount}, ElementType::F32, all);
  ThreadWorlds worlds(ranks);
  worlds.onEach([&](World &world) {
    world.reserve(3, 4 * ranks * shardCount);
    Bytes &whole = all[std::size_t(world.rank())];
    Bytes shard(4 * shardCount);
    std::vector<CollectiveSpan> shards = {
        {whole.data(), count, shard.data(), shardCount}};
    std::vector<CollectiveSpan> wholes = {{whole.data(), count}};
    TransferTiming timing;
    CollectiveJob last = jobOf(Collective::AllReduce, wholes);
    last.timing = &timing;
    CollectiveJob scatter = jobOf(Collective::ReduceScatter, shards);
    CollectiveJob gather = jobOf(Collective::AllGather, shards);
    world.begin(scatter);
    world.begin(gather);
    world.wait(world.begin(last));
    EXPECT_GT(timing.begin, 0);
    EXPECT_GE(timing.end, timing.begin);
  });
  // The all-reduce sums the gathered tensors. They are equal on all ranks, so
  // the order of the terms does not matter.
  std::vector<Bytes> equal(ranks, once);
  for (const Bytes &whole : all)
    EXPECT_TRUE(whole ==
                expectedSum({count, shardCount}, ElementType::F32, equal));
}

/// Checks collectives of a single rank, which `carryOut` executes.
template <typename CarryOut> void checkAlone(CarryOut carryOut) {
  Bucket bucket = {{5, 5}, {5, 2}, {2, 4}};
  Tensors tensors(bucket, ElementType::U8);
  tensors.setWhole(0, Bytes({'a', 'b', 'c', 'd', 'e'}));
  tensors.setWhole(1, Bytes({'a', 'b', 'c', 'd', 'e'}));
  tensors.setWhole(2, Bytes({'a', 'b'}));
  carryOut(jobOf(Collective::ReduceScatter, tensors.spans, ElementType::U8));
  EXPECT_EQ(tensors.shard(0), Bytes({'a', 'b', 'c', 'd', 'e'}));
  EXPECT_EQ(tensors.shard(1), Bytes({'a', 'b'}));
  EXPECT_EQ(tensors.shard(2), Bytes({'a', 'b', 0, 0}));
  tensors.setShard(0, Bytes({'v', 'w', 'x', 'y', 'z'}));
  tensors.setShard(1, Bytes({'y', 'z'}));
  tensors.setShard(2, Bytes({'y', 'z'}));
  carryOut(jobOf(Collective::AllGather, tensors.spans, ElementType::U8));
  EXPECT_EQ(tensors.whole(0), Bytes({'v', 'w', 'x', 'y', 'z'}));
  EXPECT_EQ(tensors.whole(1), Bytes({'y', 'z', 0, 0, 0}));
  EXPECT_EQ(tensors.whole(2), Bytes({'y', 'z'}));
  EXPECT_TRUE(tensors.hasBorders());
}

TEST(ShardTest, WithoutOtherRanksCopiesTheShardsOfRank0) {
  checkAlone([](const CollectiveJob &job) { carryOutAlone(job); });
  Result<std::unique_ptr<World>> world = World::alone();
  ASSERT_TRUE(world.ok());
  (*world)->reserve(1, 15);
  checkAlone(
      [&](const CollectiveJob &job) { (*world)->wait((*world)->begin(job)); });
}

TEST(ShardTest, MessagesNameTheCollective) {
  for (auto [collective, title] :
       {std::pair(Collective::ReduceScatter,
                  "reduce_scatter 'values' of step 4 failed: "),
        std::pair(Collective::AllGather,
                  "all_gather 'values' of step 4 failed: ")}) {
    ThreadWorlds worlds(2, /*peerTimeout=*/1);
    World &world = worlds[0];
    world.reserve(1, 64);
    world.setStep(4);
    Tensors tensors({{16, 8}}, ElementType::F32);
    world.wait(world.begin(jobOf(collective, tensors.spans)));
    EXPECT_EQ(world.failure().message().find(title), 0u)
        << world.failure().message();
  }
}

} // namespace
