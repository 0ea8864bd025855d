//===- Launcher.cpp - How a process was started as a rank -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"

#include <charconv>
#include <cstring>

namespace kiln::runtime {

/// Reads a nonnegative integer from an environment variable.
static std::optional<int> readNumber(const Environment &environment,
                                     const char *name) {
  const char *text = environment(name);
  if (!text)
    return std::nullopt;
  int value = 0;
  const char *end = text + std::strlen(text);
  auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < 0)
    return std::nullopt;
  return value;
}

std::optional<Launch> findLaunch(const Environment &environment) {
  auto read = [&](const char *name) { return readNumber(environment, name); };
  // The variables of Open MPI's mpirun.
  if (std::optional<int> rank = read("OMPI_COMM_WORLD_RANK"))
    return Launch{MpiFamily::OpenMpi, *rank, read("OMPI_COMM_WORLD_SIZE")};
  // The variables of PMI, which MPICH's Hydra launcher and srun --mpi=pmi2 set.
  if (std::optional<int> rank = read("PMI_RANK"))
    return Launch{MpiFamily::Mpich, *rank, read("PMI_SIZE")};
  // The variables of PMIx, which srun --mpi=pmix sets.
  if (std::optional<int> rank = read("PMIX_RANK"))
    return Launch{MpiFamily::OpenMpi, *rank, read("SLURM_STEP_NUM_TASKS")};
  return std::nullopt;
}

std::optional<int> findLocalRank(const Environment &environment) {
  // The variables of torchrun, Open MPI, MPICH's Hydra launcher, and srun.
  // The variable of torchrun, LOCAL_RANK, comes first, because srun may have
  // started torchrun.
  for (const char *name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (std::optional<int> rank = readNumber(environment, name))
      return rank;
  return std::nullopt;
}

bool isLaunchedByTorchrun(const Environment &environment) {
  return environment("TORCHELASTIC_RUN_ID") &&
         launchedWithoutMpi(environment) > 1;
}

int rankWithoutMpi(const Environment &environment) {
  return readNumber(environment, "RANK").value_or(0);
}

int launchedWithoutMpi(const Environment &environment) {
  if (!readNumber(environment, "RANK"))
    return 1;
  return readNumber(environment, "WORLD_SIZE").value_or(1);
}

} // namespace kiln::runtime
