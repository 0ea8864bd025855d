//===- Launcher.h - How a process was started as a rank ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A launcher such as mpirun or srun starts the ranks of a run, and tells each
// process its rank in environment variables. These variables also determine
// which MPI library the process must use.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_LAUNCHER_H
#define KILN_LIB_RUNTIME_COMM_LAUNCHER_H

#include <functional>
#include <optional>

namespace kiln::runtime {

/// The MPI implementations whose binary interfaces MpiTransport.cpp knows.
enum class MpiFamily {
  OpenMpi, ///< Open MPI 4 and 5.
  Mpich    ///< MPICH 3 and 4, and libraries with the ABI of MPICH.
};

struct Launch {
  MpiFamily family = MpiFamily::OpenMpi;
  int rank = 0;
  /// The number of ranks, or nullopt if the launcher tells it only to its MPI
  /// library.
  std::optional<int> size;
};

/// Returns the value of an environment variable, or null.
using Environment = std::function<const char *(const char *name)>;

/// Returns how an MPI launcher started this process, or nullopt if none did.
std::optional<Launch> findLaunch(const Environment &environment);

/// Returns the index of this process among the processes that the launcher has
/// started on the same machine, or nullopt if the launcher does not tell it.
std::optional<int> findLocalRank(const Environment &environment);

/// Returns true if torchrun has started this process, even if another launcher,
/// such as srun, has started torchrun.
bool isLaunchedByTorchrun(const Environment &environment);

/// Returns the number of processes that a launcher without MPI, such as
/// torchrun, has started; 1 if there is no such launcher.
int launchedWithoutMpi(const Environment &environment);
/// Returns the rank that a launcher without MPI gave this process; 0 if there
/// is no such launcher.
int rankWithoutMpi(const Environment &environment);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_LAUNCHER_H
