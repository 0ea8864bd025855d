//===- ArenaBenchmarkTest.cpp - Published arena instances -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Solves the benchmark instances of MiniMalloc; data/minimalloc/SOURCE.md gives
// their source. Each file name ends in a capacity that suffices for the buffers
// of the file. Plans that place the buffers greedily in a simple order exceed
// this capacity by 20 to 40 %.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Arena.h"

#include "gtest/gtest.h"

#include <fstream>
#include <iostream>
#include <sstream>

using namespace kiln;

static std::vector<ArenaBuffer> readInstance(const std::string &name) {
  std::ifstream file(std::string(KILN_PLANNER_TEST_DATA) + "/minimalloc/" +
                     name + ".csv");
  std::vector<ArenaBuffer> buffers;
  std::string line, field;
  std::getline(file, line); // Skip the header: id,lower,upper,size.
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    ArenaBuffer buffer;
    std::getline(fields, field, ',');
    std::getline(fields, field, ',');
    buffer.lower = std::stoi(field);
    std::getline(fields, field, ',');
    buffer.upper = std::stoi(field);
    std::getline(fields, field, ',');
    buffer.size = std::stoll(field);
    buffers.push_back(buffer);
  }
  return buffers;
}

namespace {
class MiniMalloc : public testing::TestWithParam<const char *> {};
} // namespace

TEST_P(MiniMalloc, FitsItsCapacity) {
  std::string name = GetParam();
  std::vector<ArenaBuffer> buffers = readInstance(name);
  ASSERT_FALSE(buffers.empty()) << "cannot read " << name;

  ArenaOptions options;
  options.capacity = std::stoll(name.substr(name.find('.') + 1));
  options.effort = 20'000'000'000;
  ArenaPlan plan = assignOffsets(buffers, options);
  EXPECT_LE(plan.height, options.capacity);
  EXPECT_EQ(verifyArena(buffers, plan), std::nullopt);
  std::cout << name << ": " << buffers.size() << " buffers, height "
            << plan.height << ", load " << plan.maxLive << ", " << plan.nodes
            << " nodes, " << plan.steps << " steps, " << plan.method << "\n";
}

INSTANTIATE_TEST_SUITE_P(Published, MiniMalloc,
                         testing::Values("A.1048576", "B.1048576", "C.1048576",
                                         "D.1048576", "E.1048576", "F.1048576",
                                         "G.1048576", "H.1048576", "I.1048576",
                                         "J.1048576", "K.1048576", "input.12"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });
