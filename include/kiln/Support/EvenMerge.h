//===- EvenMerge.h - Merge of two lists with equal progress -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_EVENMERGE_H
#define KILN_SUPPORT_EVENMERGE_H

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace kiln::support {

/// Merges two lists of items so that both progress evenly. The position of an
/// item is the weight of its list up to the middle of the item, divided by the
/// weight of the whole list. The items are merged by ascending position; if two
/// positions are equal, the item of the first list comes first. If a list has
/// no weight, the first list comes first. Items of the same list keep their
/// order. `first` and `second` have the weights of the items, which must not be
/// negative. Returns one element per item of the merged list: false for the
/// next item of the first list, true for the next item of the second list.
inline std::vector<bool> mergeEvenly(const std::vector<int64_t> &first,
                                     const std::vector<int64_t> &second) {
  auto sum = [](const std::vector<int64_t> &weights) {
    return std::accumulate(weights.begin(), weights.end(), 0.0);
  };
  double sums[2] = {sum(first), sum(second)}, done[2] = {0, 0};
  std::vector<bool> merged;
  for (size_t i = 0, j = 0; i < first.size() || j < second.size();) {
    bool takesSecond = i == first.size();
    if (i < first.size() && j < second.size())
      takesSecond = (done[0] + double(first[i]) / 2) * sums[1] >
                    (done[1] + double(second[j]) / 2) * sums[0];
    merged.push_back(takesSecond);
    done[takesSecond] += double(takesSecond ? second[j++] : first[i++]);
  }
  return merged;
}

} // namespace kiln::support

#endif // KILN_SUPPORT_EVENMERGE_H
