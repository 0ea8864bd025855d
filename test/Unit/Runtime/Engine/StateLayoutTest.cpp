//===- StateLayoutTest.cpp - The elements of a state on a rank ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/StateLayout.h"

#include <gtest/gtest.h>
#include <map>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

constexpr int64_t padding = -1;

/// For each element of the part that a rank holds, returns the index of the
/// element in the whole tensor, or `padding`. Divides the elements over one
/// mesh axis after the other, element by element, so that this function shares
/// no code with StateLayout.
std::vector<int64_t> partOf(const StateInfo &state, const Mesh &mesh,
                            int64_t rank) {
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < state.globalElements(); ++i)
    elements.push_back(i);
  for (const Division &division : state.divisions) {
    int64_t length = int64_t(elements.size()) / division.blocks;
    int64_t size = division.elements / division.blocks;
    int64_t index = mesh.indexOn(division.axis, rank);
    std::vector<int64_t> part;
    for (int64_t block = 0; block < division.blocks; ++block)
      for (int64_t i = index * size; i < (index + 1) * size; ++i)
        part.push_back(i < length ? elements[size_t(block * length + i)]
                                  : padding);
    elements = part;
  }
  return elements;
}

/// Checks, for all ranks, the runs (of consecutive elements) that
/// StateLayout::forEachRun() finds in ranges of the whole tensor.
void check(const StateInfo &state, const Mesh &mesh) {
  int64_t count = state.globalElements();
  // The number of ranks that hold an element.
  std::map<int64_t, int64_t> holders;
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    std::vector<int64_t> expected = partOf(state, mesh, rank);
    ASSERT_EQ(int64_t(expected.size()), state.elements());
    StateLayout layout(state, mesh, rank);
    EXPECT_EQ(layout.whole().end, count);
    int64_t held = 0;
    ElementRange span = {count, 0};
    for (int64_t whole : expected)
      if (whole != padding) {
        ++holders[whole], ++held;
        span = {std::min(span.begin, whole), std::max(span.end, whole + 1)};
      }
    EXPECT_EQ(layout.elementsIn(layout.whole()), held);
    EXPECT_EQ(layout.span().size(), held == 0 ? 0 : span.size());
    if (held > 0)
      EXPECT_EQ(layout.span().begin, span.begin);
    for (int64_t step : {int64_t(1), int64_t(3), int64_t(7), count + 1}) {
      std::vector<int64_t> found(expected.size(), padding);
      int64_t nextWhole = 0, nextLocal = 0;
      for (int64_t first = 0; first < count; first += step) {
        ElementRange range = {first, std::min(first + step, count)};
        layout.forEachRun(range, [&](const ElementRun &run) {
          ASSERT_GT(run.count, 0);
          ASSERT_GE(run.whole, std::max(nextWhole, range.begin));
          ASSERT_LE(run.whole + run.count, range.end);
          ASSERT_GE(run.local, nextLocal);
          ASSERT_LE(run.local + run.count, state.elements());
          for (int64_t i = 0; i < run.count; ++i)
            found[size_t(run.local + i)] = run.whole + i;
          nextWhole = run.whole + run.count;
          nextLocal = run.local + run.count;
        });
      }
      ASSERT_EQ(found, expected) << "rank " << rank << ", step " << step;
    }
  }
  int64_t copies = mesh.size();
  for (const Division &division : state.divisions)
    copies /= mesh.sizeOf(division.axis);
  EXPECT_EQ(int64_t(holders.size()), count);
  for (auto [element, ranks] : holders)
    EXPECT_EQ(ranks, copies) << element;
}

/// Calls body(division) for all divisions of `count` elements over an axis. A
/// division forms up to `maxBlocks` blocks of equal size, and divides each
/// block into one part per rank. Tries all sizes of the parts, from the
/// smallest that suffices to the size of the block.
template <typename Body>
void forEachDivision(const Mesh &mesh, const char *axis, int64_t count,
                     int64_t maxBlocks, Body body) {
  int64_t ranks = mesh.sizeOf(axis);
  for (int64_t blocks = 1; blocks <= maxBlocks; ++blocks) {
    if (count % blocks != 0)
      continue;
    int64_t length = count / blocks;
    for (int64_t part = (length + ranks - 1) / ranks; part <= length; ++part)
      body(Division{axis, blocks, blocks * part});
  }
}

StateInfo stateOf(int64_t count, std::vector<Division> divisions) {
  StateInfo state;
  state.globalShape = {count};
  state.shape = {divisions.empty() ? count : divisions.back().elements};
  state.divisions = std::move(divisions);
  return state;
}

TEST(StateLayoutTest, UndividedStatesHaveOneRun) {
  Mesh mesh = *parseMesh("dp=2,tp=2");
  check(stateOf(5, {}), mesh);
  check(stateOf(0, {}), mesh);
  StateLayout whole(5);
  EXPECT_EQ(whole.span().end, 5);
  EXPECT_EQ(whole.elementsIn({2, 4}), 2);
}

TEST(StateLayoutTest, OneDivision) {
  for (const char *axes : {"tp=2", "tp=3", "dp=2,tp=3", "tp=7"})
    for (int64_t count : {0, 1, 2, 5, 12, 18, 20}) {
      Mesh mesh = *parseMesh(axes);
      forEachDivision(mesh, "tp", count, 20, [&](const Division &division) {
        check(stateOf(count, {division}), mesh);
      });
    }
}

TEST(StateLayoutTest, TwoDivisions) {
  for (const char *axes : {"dp=2,tp=2", "dp=3,tp=2", "dp=2,tp=3"})
    for (int64_t count : {0, 1, 4, 10, 12}) {
      Mesh mesh = *parseMesh(axes);
      forEachDivision(mesh, "tp", count, 12, [&](const Division &outer) {
        forEachDivision(mesh, "dp", outer.elements, 6,
                        [&](const Division &inner) {
                          check(stateOf(count, {outer, inner}), mesh);
                        });
      });
    }
}

// A matrix has two rows and three heads of four columns. Rank 0 has two heads,
// and rank 1 has one.
TEST(StateLayoutTest, PartsMayBeLargerThanNeeded) {
  Mesh mesh = *parseMesh("tp=2");
  StateInfo state = stateOf(24, {{"tp", 2, 16}});
  check(state, mesh);
  std::vector<int64_t> wholes;
  StateLayout(state, mesh, 1).forEachRun({0, 24}, [&](const ElementRun &run) {
    EXPECT_EQ(run.count, 4);
    wholes.push_back(run.whole);
  });
  EXPECT_EQ(wholes, (std::vector<int64_t>{8, 20}));
}

// The product of a rank and the size of its part would overflow.
TEST(StateLayoutTest, LargeSizes) {
  Mesh mesh = *parseMesh("tp=65536");
  int64_t count = int64_t(1) << 56;
  StateInfo state = stateOf(count, {{"tp", 1, count - 1}});
  EXPECT_EQ(StateLayout(state, mesh, 0).span().end, count - 1);
  EXPECT_EQ(StateLayout(state, mesh, 1).span().begin, count - 1);
  EXPECT_EQ(StateLayout(state, mesh, 1).span().size(), 1);
  EXPECT_EQ(StateLayout(state, mesh, 65535).span().size(), 0);
}

} // namespace
