//===- RankProcessors.cpp - Processors that ranks share -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankProcessors.h"

#include "Processors.h"
#include "kiln/Support/Hash.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

using namespace kiln::support;

namespace kiln::runtime {

uint64_t machineNumber() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  if (text.empty()) {
    char name[256] = "";
    ::gethostname(name, sizeof(name) - 1);
    text = name;
  }
  return keyedHash(text, 0);
}

static cpu_set_t usableProcessors() {
  if (std::optional<cpu_set_t> places = processorsOfPlaces())
    return *places;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof(processors), &processors) != 0)
    CPU_SET(0, &processors);
  return processors;
}

RankProcessors shareOf(const std::vector<ProcessorRecord> &records, int rank,
                       int online) {
  const ProcessorRecord &own = records[std::size_t(rank)];
  RankProcessors result;
  result.ranks = 0;
  result.online = online;
  std::vector<int> users(CPU_SETSIZE, 0);
  for (const ProcessorRecord &record : records) {
    if (record.machine != own.machine)
      continue;
    ++result.ranks;
    result.areBound |= !CPU_EQUAL(&record.processors, &own.processors);
    for (int i = 0; i < CPU_SETSIZE; ++i)
      users[std::size_t(i)] += CPU_ISSET(i, &record.processors) ? 1 : 0;
  }
  result.used = int(
      std::count_if(users.begin(), users.end(), [](int n) { return n > 0; }));
  double share = 1e-9; // Compensates rounding, as in 1/3 + 1/3 + 1/3.
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &own.processors))
      share += 1.0 / users[std::size_t(i)];
  result.share = std::max(int(share), 1);
  return result;
}

Result<RankProcessors> shareProcessors(World &world) {
  ProcessorRecord mine = {machineNumber(), usableProcessors()};
  std::vector<ProcessorRecord> records(std::size_t(world.size()));
  Status status = world.gather("the comparison of processors", &mine,
                               sizeof(mine), records.data());
  if (!status.ok())
    return status;
  return shareOf(records, world.rank(), int(::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::optional<std::string> processorNotice(const RankProcessors &processors,
                                           int threads) {
  if (processors.ranks == 1)
    return std::nullopt;
  std::string ranks =
      "the " + std::to_string(processors.ranks) + " ranks on this machine ";
  if (int64_t(threads) * processors.ranks > processors.used)
    return ranks + "have " + std::to_string(threads) +
           (threads == 1 ? " thread" : " threads") + " each, but " +
           std::to_string(processors.used) +
           (processors.used == 1 ? " processor" : " processors") +
           " together: steps take longer than with fewer ranks or --threads";
  if (processors.areBound && processors.used < processors.online)
    return ranks + "are bound to " + std::to_string(processors.used) + " of " +
           std::to_string(processors.online) +
           " processors: with Open MPI, mpirun --bind-to none lets them use "
           "all";
  return std::nullopt;
}

} // namespace kiln::runtime
