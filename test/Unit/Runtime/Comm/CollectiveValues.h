//===- CollectiveValues.h - Tensors of all ranks in a test ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Provides the arrays that tests sum over ranks, and reference sums that are
// computed one element at a time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_COMM_COLLECTIVEVALUES_H
#define KILN_TEST_UNIT_RUNTIME_COMM_COLLECTIVEVALUES_H

#include "kiln/Runtime/Comm/Collective.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>
#include <vector>

namespace kiln::runtime {

using Bytes = std::vector<char>;

/// Returns the arrays of all ranks. Their numbers have very different
/// magnitudes, so that the bits of a sum depend on the order of its terms.
/// Different seeds give different numbers.
inline std::vector<Bytes> arrays(ElementType type, int64_t count, int ranks,
                                 int64_t seed = 0) {
  std::vector<Bytes> all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(float(std::sin(double(i * 7 + rank * 13 + seed + 1)) *
                             std::pow(10.0, (i + rank) % 5 - 2)));
    Bytes &bytes = all.emplace_back(support::bytesOf(type, count));
    support::convertElements(ElementType::F32, values.data(), type,
                             bytes.data(), std::size_t(count));
  }
  return all;
}

/// Returns element `i` of the sum of the arrays of all ranks, as bytes. The sum
/// begins with the array of rank `first` and continues with the following
/// ranks.
inline Bytes sumFrom(int first, ElementType type, int64_t i,
                     const std::vector<Bytes> &all) {
  auto at = [&](int rank) {
    double value = 0;
    support::convertElements(type,
                             all[std::size_t(rank) % all.size()].data() +
                                 i * support::bytesOf(type),
                             ElementType::F64, &value, 1);
    return value;
  };
  double sum = at(first);
  for (int hop = 1; hop < int(all.size()); ++hop)
    sum = type == ElementType::F64
              ? sum + at(first + hop)
              : support::roundTo(type,
                                 double(float(sum) + float(at(first + hop))));
  Bytes bytes(std::size_t(support::bytesOf(type)));
  support::convertElements(ElementType::F64, &sum, type, bytes.data(), 1);
  return bytes;
}

/// Sets CollectiveSpan::end of all spans, and returns a job for a collective
/// over the spans, which must outlive the job.
inline CollectiveJob jobOf(Collective collective,
                           std::vector<CollectiveSpan> &spans,
                           ElementType type = ElementType::F32) {
  setEnds(collective, spans.data(), spans.size());
  CollectiveJob job;
  job.collective = collective;
  job.spans = spans.data();
  job.spanCount = spans.size();
  job.type = type;
  job.name = "values";
  return job;
}

} // namespace kiln::runtime

#endif // KILN_TEST_UNIT_RUNTIME_COMM_COLLECTIVEVALUES_H
