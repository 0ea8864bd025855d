//===- FastestCompilation.h - Choice between sets of options ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a model with the options that give the fastest step. If the options
// leave the number of micro-batches, the bucket size, the offload list or the
// lossy technique open, each combination is a trial. PlanEstimate.h estimates
// trials of large models first, so that trials that cannot be the fastest need
// not be planned.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_FASTESTCOMPILATION_H
#define KILN_LIB_COMPILER_FASTESTCOMPILATION_H

#include "Compilation.h"
#include "PlanEstimate.h"
#include "PlanRemarks.h"

#include <list>
#include <memory>

namespace kiln {

class FastestCompilation {
public:
  explicit FastestCompilation(const CompileOptions &request)
      : request(request) {}
  Status run();

private:
  /// A combination of options to try, and its estimate if the model is large.
  struct Candidate {
    PlanTrial trial;
    std::optional<PlanEstimate> estimate;
    /// True if `trial` has the first of the offload lists that are tried for
    /// its number of micro-batches, bucket size and lossy technique.
    bool isFirst = true;
  };

  Status checkBatch() const;
  std::vector<int64_t> counts() const;
  std::vector<int64_t> bucketSizes() const;
  std::vector<std::string> offloads(int64_t count) const;
  std::vector<std::string> lossies() const;
  std::vector<Candidate> candidates() const;
  CompileOptions optionsOf(const PlanTrial &trial, bool compares) const;
  void estimate(std::vector<Candidate> &candidates) const;
  bool mayBeFastest(const Candidate &candidate) const;
  Status tryPlan(PlanTrial trial, bool compares);
  Status compileChosen();

  const CompileOptions &request;
  /// Options of each compilation. A compilation keeps a reference to its
  /// options, so the elements must not move.
  std::list<CompileOptions> trials;
  std::unique_ptr<Compilation> best;
  std::vector<PlanTrial> tried;
  PlanTrial chosen;
  Status refusal;
  int64_t least = std::numeric_limits<int64_t>::max();
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_FASTESTCOMPILATION_H
