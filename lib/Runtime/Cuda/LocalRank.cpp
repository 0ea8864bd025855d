//===- LocalRank.cpp - Number of a rank on its machine --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"

#include "RankProcessors.h"

#include <algorithm>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

Result<int> kiln::runtime::cuda::findLocalRank(World &world) {
  uint64_t own = machineNumber();
  std::vector<uint64_t> machines(std::size_t(world.size()));
  Status status = world.gather("the comparison of machines", &own, sizeof own,
                               machines.data());
  if (!status.ok())
    return status;
  if (std::optional<int> told = World::launchedLocalRank())
    return *told;
  return int(
      std::count(machines.begin(), machines.begin() + world.rank(), own));
}
