//===- RingCollectiveTest.cpp - All-reduces on a ring ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingCollective.h"

#include "CollectiveValues.h"
#include "SumElements.h"
#include "ThreadWorlds.h"

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// Returns the sum of the arrays of all ranks. RingCollective.h defines the
/// order of its terms.
Bytes expectedSum(ElementType type, int64_t count,
                  const std::vector<Bytes> &all) {
  int ranks = int(all.size());
  Bytes result;
  for (int part = 0; part < ranks; ++part) {
    RingPart elements = ringPart(count, ranks, part);
    for (int64_t i = elements.begin; i < elements.begin + elements.count; ++i) {
      Bytes sum = sumFrom(part, type, i, all);
      result.insert(result.end(), sum.begin(), sum.end());
    }
  }
  return result;
}

int64_t allReduceBytes(int64_t count, ElementType type, int ranks, int rank) {
  std::vector<CollectiveSpan> spans = {{nullptr, count}};
  return ringSentBytes(jobOf(Collective::AllReduce, spans, type), ranks, rank);
}

TEST(RingCollectiveTest, PartsCoverTheArray) {
  for (int ranks : {1, 2, 3, 7})
    for (int64_t count : {0, 1, 2, 6, 7, 100}) {
      int64_t end = 0;
      for (int part = 0; part < ranks; ++part) {
        RingPart elements = ringPart(count, ranks, part);
        EXPECT_EQ(elements.begin, end);
        end += elements.count;
        EXPECT_LE(elements.count, count / ranks + 1);
      }
      EXPECT_EQ(end, count);
    }
}

TEST(RingCollectiveTest, SendsTwiceTheBytesExceptForTheOwnShare) {
  EXPECT_EQ(allReduceBytes(1000, ElementType::F32, 2, 0), 2 * 4000 / 2);
  EXPECT_EQ(allReduceBytes(1000, ElementType::F32, 4, 3), 2 * 4000 * 3 / 4);
  EXPECT_EQ(allReduceBytes(7, ElementType::F64, 1, 0), 0);
  // The parts have 3, 2 and 2 elements. In each of the two phases, a rank sends
  // all parts except one.
  EXPECT_EQ(allReduceBytes(7, ElementType::I8, 3, 0), 14 - 2 - 2);
  EXPECT_EQ(allReduceBytes(7, ElementType::I8, 3, 1), 14 - 2 - 3);
  EXPECT_EQ(allReduceBytes(7, ElementType::I8, 3, 2), 14 - 3 - 2);
}

class AllReduceOfType : public testing::TestWithParam<ElementType> {};

TEST_P(AllReduceOfType, HasTheBitsOfTheDefinedOrderOnAllRanks) {
  ElementType type = GetParam();
  int64_t fragment = RingCollective::fragmentBytes / bytesOf(type);
  for (int ranks : {1, 2, 3, 4, 8}) {
    ThreadWorlds worlds(ranks);
    for (int rank = 0; rank < ranks; ++rank)
      worlds[rank].reserve(4, bytesOf(type, 40 * fragment + 13));
    std::vector<int64_t> sent(std::size_t(ranks), 0);
    // With two ranks, the last array has more fragments than can be in flight.
    for (int64_t count :
         std::vector<int64_t>{0, 1, 2, 3, 5, 7, 17, 1001, 2 * fragment + 1,
                              (ranks == 2 ? 13 : 3) * fragment + 7}) {
      std::vector<Bytes> all = arrays(type, count, ranks);
      Bytes expected = expectedSum(type, count, all);
      std::vector<uint64_t> jobs;
      std::vector<CollectiveSpan> spans;
      for (int rank = 0; rank < ranks; ++rank)
        spans.push_back(
            {all[std::size_t(rank)].data(), count, nullptr, 0, count});
      for (int rank = 0; rank < ranks; ++rank) {
        CollectiveJob job;
        job.spans = &spans[std::size_t(rank)];
        job.spanCount = 1;
        job.type = type;
        jobs.push_back(worlds[rank].begin(job));
        sent[std::size_t(rank)] += allReduceBytes(count, type, ranks, rank);
      }
      for (int rank = 0; rank < ranks; ++rank) {
        worlds[rank].wait(jobs[std::size_t(rank)]);
        EXPECT_EQ(all[std::size_t(rank)], expected)
            << ranks << " ranks, rank " << rank << ", " << count << " elements";
        EXPECT_EQ(worlds[rank].sent().of(TrafficKind::Sum),
                  sent[std::size_t(rank)]);
        EXPECT_TRUE(worlds[rank].failure().ok());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AllReduceOfType,
                         testing::Values(ElementType::F32, ElementType::F64,
                                         ElementType::BF16, ElementType::F16),
                         [](const auto &info) {
                           return std::string(infoOf(info.param).name);
                         });

TEST(RingCollectiveTest, SeveralSumsCompleteInOrder) {
  constexpr int ranks = 3, sums = 5;
  constexpr int64_t count = 300'001;
  ThreadWorlds worlds(ranks);
  std::vector<std::vector<Bytes>> all;
  for (int sum = 0; sum < sums; ++sum)
    all.push_back(arrays(ElementType::F32, count + sum, ranks));
  std::vector<std::vector<Bytes>> before = all;
  worlds.onEach([&](World &world) {
    world.reserve(sums, 4 * (count + sums));
    uint64_t last = 0;
    TransferTiming timing;
    std::vector<CollectiveSpan> spans;
    for (int sum = 0; sum < sums; ++sum)
      spans.push_back({all[std::size_t(sum)][std::size_t(world.rank())].data(),
                       count + sum, nullptr, 0, count + sum});
    for (int sum = 0; sum < sums; ++sum) {
      CollectiveJob job;
      job.spans = &spans[std::size_t(sum)];
      job.spanCount = 1;
      job.timing = sum == 0 ? &timing : nullptr;
      last = world.begin(job);
    }
    world.wait(last);
    EXPECT_GT(timing.begin, 0);
    EXPECT_GE(timing.end, timing.begin);
  });
  for (int sum = 0; sum < sums; ++sum) {
    Bytes expected =
        expectedSum(ElementType::F32, count + sum, before[std::size_t(sum)]);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(all[std::size_t(sum)][std::size_t(rank)], expected);
  }
}

TEST(RingCollectiveTest, SpansAreSummedLikeTheirConcatenation) {
  int64_t fragment = RingCollective::fragmentBytes / 4;
  for (int ranks : {2, 3, 4}) {
    ThreadWorlds worlds(ranks);
    // The sizes include spans that are empty, smaller than the part of the data
    // that one rank sums, and larger than a fragment.
    for (const std::vector<int64_t> &sizes :
         std::vector<std::vector<int64_t>>{{1, 1, 1},
                                           {0, 5, 0, 0, 9, 3, 0},
                                           {2 * fragment + 3, 7, fragment}}) {
      int64_t count = 0;
      for (int64_t size : sizes)
        count += size;
      std::vector<Bytes> all = arrays(ElementType::F32, count, ranks);
      Bytes expected = expectedSum(ElementType::F32, count, all);
      worlds.onEach([&](World &world) {
        Bytes &mine = all[std::size_t(world.rank())];
        std::vector<Bytes> parts;
        std::vector<CollectiveSpan> spans;
        int64_t end = 0;
        for (int64_t size : sizes) {
          auto begin = mine.begin() + end * 4;
          parts.emplace_back(begin, begin + size * 4);
          end += size;
          spans.push_back({parts.back().data(), size});
        }
        world.reserve(1, count * 4);
        int64_t before = world.sent().of(TrafficKind::Sum);
        CollectiveJob job = jobOf(Collective::AllReduce, spans);
        world.wait(world.begin(job));
        EXPECT_EQ(world.sent().of(TrafficKind::Sum) - before,
                  allReduceBytes(count, ElementType::F32, ranks, world.rank()));
        mine.clear();
        for (const Bytes &part : parts)
          mine.insert(mine.end(), part.begin(), part.end());
      });
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(all[std::size_t(rank)], expected);
    }
  }
}

TEST(RingCollectiveTest, SumsCodesAsIntegers) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    auto rank = static_cast<int8_t>(world.rank());
    std::vector<int8_t> codes = {int8_t(rank - 1), int8_t(40 + rank),
                                 int8_t(-41 - rank), int8_t(-42)};
    std::vector<CollectiveSpan> spans = {
        {reinterpret_cast<char *>(codes.data()), int64_t(codes.size())}};
    world.reserve(1, int64_t(codes.size()));
    CollectiveJob job = jobOf(Collective::AllReduce, spans);
    job.type = ElementType::I8;
    world.wait(world.begin(job));
    EXPECT_EQ(codes, (std::vector<int8_t>{0, 123, -126, -126}));
  });
}

TEST(RingCollectiveTest, ScratchMemoryIsThatOfAFewFragments) {
  EXPECT_EQ(RingCollective::scratchBytes(1 << 30, 1), 0);
  EXPECT_EQ(RingCollective::scratchBytes(0, 2), 0);
  EXPECT_EQ(RingCollective::scratchBytes(8, 2), RingCollective::window * 64);
  EXPECT_EQ(RingCollective::scratchBytes(1 << 30, 2),
            RingCollective::window * RingCollective::fragmentBytes);
}

TEST(RingCollectiveTest, SumsFloatsAndCodesButNotStorageTypes) {
  for (ElementType type :
       {ElementType::F64, ElementType::F32, ElementType::BF16, ElementType::F16,
        ElementType::I8})
    EXPECT_TRUE(isSummable(type));
  for (ElementType type :
       {ElementType::I32, ElementType::F8_E4M3, ElementType::F8_E8M0,
        ElementType::Bool, ElementType::F4})
    EXPECT_FALSE(isSummable(type));
}

} // namespace
