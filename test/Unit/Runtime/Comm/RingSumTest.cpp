//===- RingSumTest.cpp - Sums over ranks ----------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingSum.h"

#include "SumElements.h"
#include "ThreadWorlds.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>
#include <cstring>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// The arrays of all ranks, which are sums of numbers of very different
/// magnitudes, so that their bits depend on the order of the sums.
std::vector<std::vector<char>> arrays(ElementType type, int64_t count,
                                      int ranks) {
  std::vector<std::vector<char>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(float(std::sin(double(i * 7 + rank * 13 + 1)) *
                             std::pow(10.0, (i + rank) % 5 - 2)));
    std::vector<char> &bytes = all.emplace_back(bytesOf(type, count));
    convertElements(ElementType::F32, values.data(), type, bytes.data(),
                    std::size_t(count));
  }
  return all;
}

double at(ElementType type, const std::vector<char> &bytes, int64_t i) {
  double value = 0;
  convertElements(type, bytes.data() + i * bytesOf(type), ElementType::F64,
                  &value, 1);
  return value;
}

/// Returns the sums in the order that RingSum.h defines, computed one element
/// at a time.
std::vector<char> expectedSum(ElementType type, int64_t count,
                              const std::vector<std::vector<char>> &all) {
  int ranks = int(all.size());
  std::vector<char> result(std::size_t(bytesOf(type, count)));
  for (int part = 0; part < ranks; ++part) {
    RingPart elements = ringPart(count, ranks, part);
    for (int64_t i = elements.begin; i < elements.begin + elements.count; ++i) {
      double sum = at(type, all[std::size_t(part)], i);
      for (int hop = 1; hop < ranks; ++hop) {
        double other = at(type, all[std::size_t((part + hop) % ranks)], i);
        sum = type == ElementType::F64
                  ? sum + other
                  : roundTo(type, double(float(sum) + float(other)));
      }
      convertElements(ElementType::F64, &sum, type,
                      result.data() + i * bytesOf(type), 1);
    }
  }
  return result;
}

TEST(RingSumTest, PartsCoverTheArray) {
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

TEST(RingSumTest, SendsTwiceTheBytesExceptForTheOwnShare) {
  EXPECT_EQ(ringSentBytes(1000, 4, 2, 0), 2 * 4000 / 2);
  EXPECT_EQ(ringSentBytes(1000, 4, 4, 3), 2 * 4000 * 3 / 4);
  EXPECT_EQ(ringSentBytes(7, 8, 1, 0), 0);
  // Parts of 3, 2 and 2 elements. All ranks together send every part 2 (n - 1)
  // times.
  EXPECT_EQ(ringSentBytes(7, 1, 3, 0), 14 - 2 - 2);
  EXPECT_EQ(ringSentBytes(7, 1, 3, 1), 14 - 2 - 3);
  EXPECT_EQ(ringSentBytes(7, 1, 3, 2), 14 - 3 - 2);
}

class RingSumOfType : public testing::TestWithParam<ElementType> {};

TEST_P(RingSumOfType, HasTheBitsOfTheDefinedOrderOnAllRanks) {
  ElementType type = GetParam();
  int64_t fragment = RingSum::fragmentBytes / bytesOf(type);
  for (int ranks : {1, 2, 3, 4, 8}) {
    ThreadWorlds worlds(ranks);
    for (int rank = 0; rank < ranks; ++rank)
      worlds[rank].reserve(4, bytesOf(type, 40 * fragment + 13));
    std::vector<int64_t> sent(std::size_t(ranks), 0);
    // With two ranks, the last array has more fragments than the window.
    for (int64_t count :
         std::vector<int64_t>{0, 1, 2, 3, 5, 7, 17, 1001, 2 * fragment + 1,
                              (ranks == 2 ? 13 : 3) * fragment + 7}) {
      std::vector<std::vector<char>> all = arrays(type, count, ranks);
      std::vector<char> expected = expectedSum(type, count, all);
      std::vector<uint64_t> jobs;
      std::vector<SumSpan> spans;
      for (int rank = 0; rank < ranks; ++rank)
        spans.push_back({all[std::size_t(rank)].data(), count});
      for (int rank = 0; rank < ranks; ++rank) {
        SumJob job;
        job.spans = &spans[std::size_t(rank)];
        job.spanCount = 1;
        job.type = type;
        jobs.push_back(worlds[rank].beginSum(job));
        sent[std::size_t(rank)] +=
            ringSentBytes(count, bytesOf(type), ranks, rank);
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

INSTANTIATE_TEST_SUITE_P(Types, RingSumOfType,
                         testing::Values(ElementType::F32, ElementType::F64,
                                         ElementType::BF16, ElementType::F16),
                         [](const auto &info) {
                           return std::string(infoOf(info.param).name);
                         });

TEST(RingSumTest, SeveralSumsCompleteInOrder) {
  constexpr int ranks = 3, sums = 5;
  constexpr int64_t count = 300'001;
  ThreadWorlds worlds(ranks);
  std::vector<std::vector<std::vector<char>>> all;
  for (int sum = 0; sum < sums; ++sum)
    all.push_back(arrays(ElementType::F32, count + sum, ranks));
  std::vector<std::vector<std::vector<char>>> before = all;
  worlds.onEach([&](World &world) {
    world.reserve(sums, 4 * (count + sums));
    uint64_t last = 0;
    TransferTiming timing;
    std::vector<SumSpan> spans;
    for (int sum = 0; sum < sums; ++sum)
      spans.push_back({all[std::size_t(sum)][std::size_t(world.rank())].data(),
                       count + sum});
    for (int sum = 0; sum < sums; ++sum) {
      SumJob job;
      job.spans = &spans[std::size_t(sum)];
      job.spanCount = 1;
      job.timing = sum == 0 ? &timing : nullptr;
      last = world.beginSum(job);
    }
    world.wait(last);
    EXPECT_GT(timing.begin, 0);
    EXPECT_GE(timing.end, timing.begin);
  });
  for (int sum = 0; sum < sums; ++sum) {
    std::vector<char> expected =
        expectedSum(ElementType::F32, count + sum, before[std::size_t(sum)]);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(all[std::size_t(sum)][std::size_t(rank)], expected);
  }
}

TEST(RingSumTest, SpansAreSummedLikeTheirConcatenation) {
  int64_t fragment = RingSum::fragmentBytes / 4;
  for (int ranks : {2, 3, 4}) {
    ThreadWorlds worlds(ranks);
    // Sizes of spans: smaller than a part, empty, and larger than a fragment.
    for (const std::vector<int64_t> &sizes :
         std::vector<std::vector<int64_t>>{{1, 1, 1},
                                           {0, 5, 0, 0, 9, 3, 0},
                                           {2 * fragment + 3, 7, fragment}}) {
      int64_t count = 0;
      for (int64_t size : sizes)
        count += size;
      std::vector<std::vector<char>> all =
          arrays(ElementType::F32, count, ranks);
      std::vector<char> expected = expectedSum(ElementType::F32, count, all);
      worlds.onEach([&](World &world) {
        std::vector<char> &mine = all[std::size_t(world.rank())];
        std::vector<std::vector<char>> parts;
        std::vector<SumSpan> spans;
        int64_t end = 0;
        for (int64_t size : sizes) {
          auto begin = mine.begin() + end * 4;
          parts.emplace_back(begin, begin + size * 4);
          end += size;
          spans.push_back({parts.back().data(), end});
        }
        world.reserve(1, count * 4);
        int64_t before = world.sent().of(TrafficKind::Sum);
        SumJob job;
        job.spans = spans.data();
        job.spanCount = spans.size();
        world.wait(world.beginSum(job));
        EXPECT_EQ(world.sent().of(TrafficKind::Sum) - before,
                  ringSentBytes(count, 4, ranks, world.rank()));
        mine.clear();
        for (const std::vector<char> &part : parts)
          mine.insert(mine.end(), part.begin(), part.end());
      });
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(all[std::size_t(rank)], expected);
    }
  }
}

TEST(RingSumTest, ScratchMemoryIsThatOfAFewFragments) {
  EXPECT_EQ(RingSum::scratchBytes(1 << 30, 1), 0);
  EXPECT_EQ(RingSum::scratchBytes(0, 2), 0);
  EXPECT_EQ(RingSum::scratchBytes(8, 2), RingSum::window * 64);
  EXPECT_EQ(RingSum::scratchBytes(1 << 30, 2),
            RingSum::window * RingSum::fragmentBytes);
}

TEST(RingSumTest, SumsFloatsButNotStorageTypes) {
  for (ElementType type : {ElementType::F64, ElementType::F32,
                           ElementType::BF16, ElementType::F16})
    EXPECT_TRUE(isSummable(type));
  for (ElementType type :
       {ElementType::I32, ElementType::F8_E4M3, ElementType::F8_E8M0,
        ElementType::Bool, ElementType::F4})
    EXPECT_FALSE(isSummable(type));
}

} // namespace
