//===- RankProcessors.h - Processors that ranks share -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Several ranks may run on one machine. A launcher may bind each of them to
// processors of its own, or let all of them use the same processors. The ranks
// therefore compare the processors that they may use.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_RANKPROCESSORS_H
#define KILN_LIB_RUNTIME_ENGINE_RANKPROCESSORS_H

#include "kiln/Runtime/Comm/World.h"

#include <cstdint>
#include <optional>
#include <sched.h>
#include <string>
#include <vector>

namespace kiln::runtime {

/// Returns a number that identifies this machine. It is a hash of the machine's
/// boot ID, which is the same in all containers on the machine, or a hash of
/// the host name if the boot ID cannot be read.
uint64_t machineNumber();

/// The processors that a rank may use.
struct ProcessorRecord {
  uint64_t machine = 0; ///< Equal for two ranks on one machine.
  cpu_set_t processors;
};

struct RankProcessors {
  /// Number of ranks on this machine, including this one.
  int ranks = 1;
  /// This rank's share of the processors, at least 1: each processor counts as
  /// 1 / n if n ranks may use it.
  int share = 1;
  /// Number of processors that at least one rank on this machine may use.
  int used = 1;
  /// Number of processors of the machine.
  int online = 1;
  /// True if two ranks on this machine can use different sets of processors.
  bool areBound = false;
};

/// Returns the share that rank `rank` has of the processors of its machine.
/// `records` has the processors that each rank may use, indexed by rank, and
/// `online` is the number of processors of the machine.
RankProcessors shareOf(const std::vector<ProcessorRecord> &records, int rank,
                       int online);

/// Finds out from all ranks which processors they may use, and returns this
/// rank's share of the processors of its machine. All ranks must call this
/// function.
Result<RankProcessors> shareProcessors(World &world);

/// Returns a warning if the ranks, with `threads` threads each, need more
/// processors than there are, or leave processors idle. Otherwise returns
/// nullopt.
std::optional<std::string> processorNotice(const RankProcessors &processors,
                                           int threads);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_RANKPROCESSORS_H
