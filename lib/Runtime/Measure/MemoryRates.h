//===- MemoryRates.h - Memory, vector and copy performance ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_MEASURE_MEMORYRATES_H
#define KILN_LIB_RUNTIME_MEASURE_MEMORYRATES_H

#include "../Engine/ThreadTeam.h"
#include "Sampler.h"

#include <memory>
#include <string>

namespace kiln::runtime {

class MemoryRates {
public:
  /// Allocates at most 1/16 of `memoryBytes` bytes for the measured arrays.
  MemoryRates(int64_t memoryBytes, ThreadTeam &team, Sampler &sampler);
  ~MemoryRates();

  /// Returns the members "launch_s", "vector_flop_per_s", "bandwidth" and
  /// "link" of a machine file. Must be called after Sampler::run().
  std::string json() const;

private:
  struct Partner;

  Sampler &sampler_;
  std::vector<float> data_;
  std::unique_ptr<Partner> partner_;
  std::vector<int64_t> sizes_;
  std::vector<std::size_t> bandwidth_;
  std::size_t launch_, vector_, copy_, copyBoth_, handOver_;
  double vectorOperations_;
  int64_t copyBytes_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_MEASURE_MEMORYRATES_H
