//===- WorldRanks.cpp - Interpreted ranks in separate processes -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WorldRanks.h"

using kiln::runtime::CollectiveJob;
using kiln::runtime::CollectiveSpan;

namespace kiln {

/// The size of a sum, in bytes, for which scratch memory is reserved. Sums of
/// this size need the most scratch memory; larger sums do not need more.
static constexpr int64_t kManyBytes = int64_t(1) << 40;

WorldRanks::WorldRanks(runtime::World &world, const support::Mesh &mesh)
    : world(world), mesh(mesh) {
  for (const support::MeshAxis &axis : mesh.axes)
    world.reserve(/*jobs=*/1, kManyBytes, axis.size);
}

int64_t WorldRanks::rank(llvm::StringRef axis) const {
  return mesh.indexOn({axis.data(), axis.size()}, world.rank());
}

bool WorldRanks::sum(llvm::StringRef axis,
                     llvm::MutableArrayRef<HostTensor> tensors) {
  std::vector<CollectiveSpan> spans;
  for (HostTensor &tensor : tensors)
    spans.push_back({reinterpret_cast<char *>(tensor.reals.data()),
                     static_cast<int64_t>(tensor.reals.size())});
  setEnds(runtime::Collective::AllReduce, spans.data(), spans.size());
  CollectiveJob job;
  job.spans = spans.data();
  job.spanCount = spans.size();
  job.type = support::ElementType::F64;
  job.name = "interpreted tensors";
  job.group = mesh.groupOf({axis.data(), axis.size()}, world.rank());
  world.wait(world.begin(job));
  return world.failure().ok();
}

} // namespace kiln
