//===- Collective.cpp - Collectives over tensors --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Comm/Collective.h"

#include <algorithm>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

const char *nameOf(Collective collective) {
  switch (collective) {
  case Collective::AllReduce:
    return "all_reduce";
  case Collective::ReduceScatter:
    return "reduce_scatter";
  case Collective::AllGather:
    return "all_gather";
  }
  return "";
}

void setEnds(Collective collective, CollectiveSpan *spans, std::size_t count) {
  int64_t end = 0;
  for (CollectiveSpan *span = spans; span != spans + count; ++span) {
    end += collective == Collective::AllReduce ? span->count : span->shardCount;
    span->end = end;
  }
}

int64_t shardBegin(const CollectiveSpan &span, int rank) {
  return span.owner < 0 ? rank * span.shardCount : 0;
}

int64_t shardElements(const CollectiveSpan &span, int rank) {
  if (span.owner >= 0)
    return span.owner == rank ? span.count : 0;
  return std::clamp<int64_t>(span.count - rank * span.shardCount, 0,
                             span.shardCount);
}

void clearPadding(const CollectiveJob &job, int rank) {
  auto elementBytes = std::size_t(bytesOf(job.type));
  for (std::size_t i = 0; i < job.spanCount; ++i) {
    const CollectiveSpan &span = job.spans[i];
    if (span.owner >= 0)
      continue;
    std::size_t bytes = std::size_t(shardElements(span, rank)) * elementBytes;
    std::size_t shardBytes = std::size_t(span.shardCount) * elementBytes;
    if (bytes < shardBytes)
      std::memset(span.shard + bytes, 0, shardBytes - bytes);
  }
}

void carryOutAlone(const CollectiveJob &job) {
  if (job.collective == Collective::AllReduce)
    return;
  bool isScatter = job.collective == Collective::ReduceScatter;
  for (std::size_t i = 0; i < job.spanCount; ++i) {
    const CollectiveSpan &span = job.spans[i];
    auto bytes =
        std::size_t(shardElements(span, /*rank=*/0) * bytesOf(job.type));
    if (bytes > 0)
      std::memcpy(isScatter ? span.shard : span.whole,
                  isScatter ? span.whole : span.shard, bytes);
    if (!isScatter)
      std::memset(span.whole + bytes, 0,
                  std::size_t(span.count * bytesOf(job.type)) - bytes);
  }
  if (isScatter)
    clearPadding(job, /*rank=*/0);
}

} // namespace kiln::runtime
