//===- Processors.cpp - Processor affinity of threads ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Processors.h"

#include <algorithm>
#include <cstdint>
#include <vector>

extern "C" {
int omp_get_proc_bind(void);
int omp_get_num_places(void);
int omp_get_place_num_procs(int place);
void omp_get_place_proc_ids(int place, int *ids);
}

namespace kiln::runtime {

/// Results of omp_get_proc_bind().
static constexpr int bindToPrimary = 2, bindClose = 3;

static void addPlace(int place, cpu_set_t &processors) {
  std::vector<int> ids(std::size_t(omp_get_place_num_procs(place)));
  omp_get_place_proc_ids(place, ids.data());
  for (int id : ids)
    if (id < CPU_SETSIZE)
      CPU_SET(id, &processors);
}

std::optional<cpu_set_t> processorsOfPlaces() {
  int places = omp_get_num_places();
  if (places <= 0)
    return std::nullopt;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  for (int place = 0; place < places; ++place)
    addPlace(place, processors);
  return processors;
}

std::optional<cpu_set_t> processorsOfThread(int thread, int threads) {
  int places = omp_get_num_places();
  if (places <= 0)
    return std::nullopt;
  int policy = omp_get_proc_bind();
  int place = int(int64_t(thread) * places / threads);
  if (policy == bindToPrimary)
    place = 0;
  else if (policy <= bindClose && threads <= places)
    place = thread;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  addPlace(place, processors);
  return processors;
}

int availableProcessors() {
  if (std::optional<cpu_set_t> processors = processorsOfPlaces())
    return std::max(CPU_COUNT(&*processors), 1);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return std::max(CPU_COUNT(&set), 1);
}

void leaveProcessor(int processor) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0)
    return;
  cpu_set_t others = all;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) == 0 || CPU_EQUAL(&others, &all))
    return;
  if (sched_setaffinity(0, sizeof(others), &others) == 0)
    sched_setaffinity(0, sizeof(all), &all);
}

} // namespace kiln::runtime
