//===- LocalRank.cpp - Number of a rank on its machine --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"

#include "RankProcessors.h"

#include <set>
#include <vector>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

namespace {

struct RankOnMachine {
  uint64_t machine = 0;
  int64_t told = -1; ///< The local rank that the launcher gave; -1: none.
};

} // namespace

Result<int> kiln::runtime::cuda::findLocalRank(World &world) {
  RankOnMachine own = {machineNumber(),
                       World::launchedLocalRank().value_or(-1)};
  std::vector<RankOnMachine> ranks(std::size_t(world.size()));
  Status status = world.gather("the comparison of machines", &own, sizeof own,
                               ranks.data());
  if (!status.ok())
    return status;
  int64_t before = 0;
  std::set<int64_t> told;
  bool isTold = true;
  for (int rank = 0; rank < world.size(); ++rank) {
    const RankOnMachine &other = ranks[std::size_t(rank)];
    if (other.machine != own.machine)
      continue;
    before += rank < world.rank();
    isTold &= other.told >= 0 && told.insert(other.told).second;
  }
  return int(isTold ? own.told : before);
}
