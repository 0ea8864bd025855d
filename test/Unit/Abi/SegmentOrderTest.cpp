//===- SegmentOrderTest.cpp - Tests of orders of micro-batches ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Abi/SegmentOrder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <tuple>

using namespace kiln::abi;
using namespace kiln::support;

namespace {

SegmentOrder parsed(const std::string &text) {
  Result<SegmentOrder> order = SegmentOrder::parse(text);
  EXPECT_TRUE(order.ok()) << order.status().message();
  return order.ok() ? *order : SegmentOrder();
}

/// Returns the order in which the segments are executed, such as "F0 B0": the
/// forward and the backward segment of micro-batch 0.
std::string executions(const SegmentOrder &order, int64_t count) {
  std::string text;
  for (const SegmentRun &run : order.runs(count))
    text += (text.empty() ? "" : " ") + run.name();
  return text;
}

/// Returns, for each execution of a forward or backward segment, the slot (the
/// index of the buffer instances) that its micro-batch uses.
std::vector<int64_t> ringSlots(const SegmentOrder &order, int64_t count) {
  std::vector<int64_t> slots;
  for (const SegmentRun &run : order.runs(count))
    slots.push_back(run.slot);
  return slots;
}

const char *const namedOrders[] = {"alternate", "all-forward-first",
                                   "one-forward-one-backward:1",
                                   "one-forward-one-backward:3"};

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

TEST(SegmentOrderTest, TextIsParsedToTheSameOrder) {
  EXPECT_EQ(SegmentOrder().text(), "alternate");
  for (const char *text :
       {"alternate", "all-forward-first", "one-forward-one-backward:1",
        "one-forward-one-backward:1048576", "F0 B0", "F1 F0 B1 B0", "B7"}) {
    SegmentOrder order = parsed(text);
    EXPECT_EQ(order.text(), text);
    EXPECT_TRUE(parsed(order.text()) == order);
  }
  EXPECT_TRUE(parsed("\tF0  F1\n B1\r\nB0 ") == parsed("F0 F1 B1 B0"));
  EXPECT_TRUE(parsed("F0 F1 B1 B0") != parsed("F0 F1 B0 B1"));
  EXPECT_TRUE(parsed("one-forward-one-backward:2") !=
              parsed("one-forward-one-backward:3"));
  // An order given as a list differs from a named order, even if both have the
  // same executions.
  EXPECT_TRUE(parsed("F0 B0") != SegmentOrder());
  EXPECT_EQ(parsed("alternate").kind(), SegmentOrder::Kind::Alternate);
  EXPECT_EQ(parsed("F0 B0").kind(), SegmentOrder::Kind::Listed);
}

TEST(SegmentOrderTest, AnInvalidTextIsOneClearError) {
  const std::pair<const char *, const char *> cases[] = {
      {"", "the order is empty, expected a list such as F0 B0"},
      {" \n", "the order is empty"},
      {"alternating",
       "the order has the entry 'alternating', expected only entries such as "
       "F0 and B0, or the name of an order: alternate, all-forward-first or "
       "one-forward-one-backward:K"},
      {"F0 B", "the entry 'B'"},
      {"F0 b0", "the entry 'b0'"},
      {"F-1", "the entry 'F-1'"},
      {"F+1", "the entry 'F+1'"},
      {"F0;B0", "the entry 'F0;B0'"},
      {"F9223372036854775808", "the entry 'F9223372036854775808'"},
      {"alternate F0", "the entry 'alternate'"},
      {"one-forward-one-backward:",
       "the order 'one-forward-one-backward:' has '' micro-batches in flight, "
       "expected a positive number"},
      {"one-forward-one-backward:0", "has '0' micro-batches in flight"},
      {"one-forward-one-backward:-2", "has '-2' micro-batches in flight"},
      {"one-forward-one-backward:2 ", "has '2 ' micro-batches in flight"},
      {"one-forward-one-backward", "the entry 'one-forward-one-backward'"}};
  for (auto [text, message] : cases) {
    Result<SegmentOrder> order = SegmentOrder::parse(text);
    ASSERT_FALSE(order.ok()) << text;
    EXPECT_NE(order.status().message().find(message), std::string::npos)
        << order.status().message();
    EXPECT_EQ(order.status().message().find('\n'), std::string::npos);
  }
}

TEST(SegmentOrderTest, AListHasALimit) {
  std::string text;
  for (int64_t i = 0; i < 2 * maxMicrobatches; ++i)
    text += "F0 ";
  EXPECT_TRUE(SegmentOrder::parse(text).ok());
  EXPECT_EQ(SegmentOrder::parse(text + "F0").status().message(),
            "the order has more than 2097152 entries");
}

//===----------------------------------------------------------------------===//
// Check
//===----------------------------------------------------------------------===//

TEST(SegmentOrderTest, ErrorsNameTheSegmentAndTheMicrobatch) {
  const std::tuple<const char *, int64_t, const char *> cases[] = {
      {"alternate", 0,
       "the order is for 0 micro-batches, expected a number of micro-batches "
       "from 1 to 1048576"},
      {"F0 B0", -1, "the order is for -1 micro-batches"},
      {"all-forward-first", maxMicrobatches + 1,
       "the order is for 1048577 micro-batches, expected a number of "
       "micro-batches from 1 to 1048576"},
      {"one-forward-one-backward:3", 2,
       "the order 'one-forward-one-backward:3' has 3 micro-batches in flight, "
       "but the step has only 2 micro-batches"},
      {"one-forward-one-backward:2", 1, "but the step has only 1 micro-batch"},
      {"F0 B0 F2 B2", 2,
       "the order executes F2, but the step has 2 micro-batches, numbered from "
       "0"},
      {"F0 B1", 1, "the order executes B1, but the step has 1 micro-batch"},
      {"F0 F0 B0", 1, "the order executes F0 twice"},
      {"F0 B0 F1 B1 B0", 2, "the order executes B0 twice"},
      {"F0 B1 F1 B0", 2,
       "the order executes B1 before F1; the backward segment of a micro-batch "
       "needs the residuals of its forward segment"},
      {"F0 B0", 2,
       "the order lacks F1; every micro-batch needs an F and a B entry, and "
       "the step has 2"},
      {"F0 F1 B1", 2,
       "the order lacks B0; every micro-batch needs an F and a B entry, and "
       "the step has 2"}};
  for (auto [text, count, message] : cases) {
    Status status = parsed(text).check(count);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(message), std::string::npos)
        << status.message();
  }
}

TEST(SegmentOrderTest, ValidOrders) {
  for (const char *text : namedOrders)
    for (int64_t count : {int64_t(3), int64_t(8), maxMicrobatches})
      EXPECT_TRUE(parsed(text).check(count).ok()) << text;
  EXPECT_TRUE(parsed("F2 F0 B2 F1 B1 B0").check(3).ok());
}

//===----------------------------------------------------------------------===//
// Executions
//===----------------------------------------------------------------------===//

TEST(SegmentOrderTest, ExecutionsAndSlotsOfNamedOrders) {
  using Slots = std::vector<int64_t>;
  SegmentOrder alternate = parsed("alternate");
  EXPECT_EQ(executions(alternate, 3), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(ringSlots(alternate, 3), (Slots{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(alternate.slots(3), 1);
  SegmentOrder forwardFirst = parsed("all-forward-first");
  EXPECT_EQ(executions(forwardFirst, 3), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(ringSlots(forwardFirst, 3), (Slots{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(forwardFirst.slots(3), 3);
  SegmentOrder two = parsed("one-forward-one-backward:2");
  EXPECT_EQ(executions(two, 4), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(ringSlots(two, 4), (Slots{0, 1, 0, 0, 1, 1, 0, 1}));
  EXPECT_EQ(two.slots(4), 2);
  EXPECT_EQ(executions(parsed("one-forward-one-backward:1"), 3),
            executions(alternate, 3));
  EXPECT_EQ(executions(parsed("one-forward-one-backward:3"), 3),
            executions(forwardFirst, 3));
}

TEST(SegmentOrderTest, AMicrobatchTakesTheLowestFreeSlot) {
  SegmentOrder order = parsed("F0 F1 F2 B1 B0 F4 F3 B2 F5 B3 B4 B5");
  ASSERT_TRUE(order.check(6).ok());
  EXPECT_EQ(ringSlots(order, 6),
            (std::vector<int64_t>{0, 1, 2, 1, 0, 0, 1, 2, 2, 1, 0, 2}));
  EXPECT_EQ(order.slots(6), 3);
}

TEST(SegmentOrderTest, FirstAndLastExecutionOfEachSegment) {
  for (auto [text, count] : {std::pair("alternate", 1),
                             {"alternate", 4},
                             {"all-forward-first", 4},
                             {"one-forward-one-backward:3", 5},
                             {"F2 F0 B2 F1 B1 B0", 3}}) {
    std::vector<SegmentRun> runs = parsed(text).runs(count);
    for (Segment segment : {Segment::Forward, Segment::Backward}) {
      std::vector<SegmentRun> own;
      std::copy_if(
          runs.begin(), runs.end(), std::back_inserter(own),
          [&](const SegmentRun &run) { return run.segment == segment; });
      ASSERT_EQ(own.size(), std::size_t(count));
      for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_EQ(own[i].isFirst, i == 0) << text << " " << own[i].name();
        EXPECT_EQ(own[i].isLast, i + 1 == own.size()) << text;
      }
    }
  }
}

/// Checks the slots of an order: micro-batches between their forward and
/// backward segments have different slots, and the two segments of a
/// micro-batch use the same slot.
void checkSlots(const SegmentOrder &order, int64_t count) {
  ASSERT_TRUE(order.check(count).ok());
  std::map<int64_t, int64_t> inFlight; // Slots by micro-batch.
  std::set<int64_t> taken;
  int64_t most = 0;
  for (const SegmentRun &run : order.runs(count)) {
    if (run.segment == Segment::Forward) {
      EXPECT_TRUE(taken.insert(run.slot).second) << run.name();
      inFlight[run.microbatch] = run.slot;
    } else {
      EXPECT_EQ(inFlight.at(run.microbatch), run.slot) << run.name();
      taken.erase(run.slot);
    }
    most = std::max(most, run.slot + 1);
  }
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(most, order.slots(count));
}

TEST(SegmentOrderTest, MicrobatchesInFlightHaveDifferentSlots) {
  for (const char *text : namedOrders)
    for (int64_t count = 3; count < 9; ++count)
      checkSlots(parsed(text), count);
  checkSlots(parsed("F3 F0 B3 F2 B0 F1 B1 B2"), 4);
}

TEST(SegmentOrderTest, AscendingBackwardSegments) {
  for (const char *text : namedOrders)
    EXPECT_TRUE(parsed(text).hasAscendingBackward(5)) << text;
  EXPECT_TRUE(parsed("F2 F1 F0 B0 B1 B2").hasAscendingBackward(3));
  EXPECT_FALSE(parsed("F0 F1 B1 B0").hasAscendingBackward(2));
}

//===----------------------------------------------------------------------===//
// Shortened orders
//===----------------------------------------------------------------------===//

/// An execution of a segment: whether it is a forward or a backward segment,
/// whether this is its first execution, and whether this is its last execution.
using Execution = std::tuple<Segment, bool, bool>;
/// An execution, the next execution, how the indices of their micro-batches
/// compare (-1, 0 or 1), and whether both executions use the same slot.
using Relation = std::tuple<Execution, Execution, int, bool>;

std::set<Relation> relations(const SegmentOrder &order, int64_t count) {
  std::vector<SegmentRun> runs = order.runs(count);
  std::set<Relation> found;
  for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
    const SegmentRun &run = runs[i], &next = runs[i + 1];
    int microbatches = run.microbatch < next.microbatch   ? -1
                       : run.microbatch > next.microbatch ? 1
                                                          : 0;
    found.emplace(Execution(run.segment, run.isFirst, run.isLast),
                  Execution(next.segment, next.isFirst, next.isLast),
                  microbatches, run.slot == next.slot);
  }
  return found;
}

TEST(SegmentOrderTest, ShortenedOrdersHaveTheSamePairs) {
  for (int64_t count = 1; count < 16; ++count) {
    for (int64_t inFlight = -1; inFlight <= count; ++inFlight) {
      SegmentOrder order =
          inFlight < 0 ? parsed("alternate")
          : inFlight == 0
              ? parsed("all-forward-first")
              : parsed("one-forward-one-backward:" + std::to_string(inFlight));
      auto [shorter, shortCount] = order.shortened(count);
      ASSERT_TRUE(shorter.check(shortCount).ok()) << order.text() << count;
      EXPECT_LE(shortCount, std::min<int64_t>(count, 9));
      EXPECT_EQ(relations(shorter, shortCount), relations(order, count))
          << order.text() << " of " << count << " as " << shorter.text()
          << " of " << shortCount;
    }
  }
  EXPECT_EQ(parsed("alternate").shortened(100),
            std::pair(parsed("alternate"), int64_t(4)));
  EXPECT_EQ(parsed("F0 F1 B1 B0").shortened(2),
            std::pair(parsed("F0 F1 B1 B0"), int64_t(2)));
}

} // namespace
