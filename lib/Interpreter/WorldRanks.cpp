//===- WorldRanks.cpp - Interpreted ranks in separate processes -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WorldRanks.h"

using kiln::runtime::SumJob;
using kiln::runtime::SumSpan;

namespace kiln {

/// An upper bound on the bytes of a sum. The scratch memory for larger sums is
/// not larger.
static constexpr int64_t kManyBytes = int64_t(1) << 40;

WorldRanks::WorldRanks(runtime::World &world) : world(world) {
  world.reserve(/*jobs=*/1, kManyBytes);
}

bool WorldRanks::sum(llvm::MutableArrayRef<HostTensor> tensors) {
  std::vector<SumSpan> spans;
  int64_t end = 0;
  for (HostTensor &tensor : tensors) {
    end += static_cast<int64_t>(tensor.reals.size());
    spans.push_back({reinterpret_cast<char *>(tensor.reals.data()), end});
  }
  SumJob job;
  job.spans = spans.data();
  job.spanCount = spans.size();
  job.type = support::ElementType::F64;
  job.name = "interpreted tensors";
  world.wait(world.beginSum(job));
  return world.failure().ok();
}

} // namespace kiln
