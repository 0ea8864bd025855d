//===- OpDifference.cpp - First op with different results -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpDifference.h"

#include <algorithm>
#include <map>

namespace kiln::runtime {

namespace {

/// The distinct results with one key (a buffer name and a size), in the order
/// in which they were computed.
struct Values {
  std::vector<std::string> hashes;
  /// For each element of `hashes`, the index of the first op that computed the
  /// value.
  std::vector<size_t> ops;

  size_t find(const std::string &hash) const {
    return size_t(std::find(hashes.begin(), hashes.end(), hash) -
                  hashes.begin());
  }
  void add(const std::string &hash, size_t op) {
    if (find(hash) < hashes.size())
      return;
    hashes.push_back(hash);
    ops.push_back(op);
  }
};

using Key = std::pair<std::string, int64_t>;
using Index = std::map<Key, Values>;

} // namespace

/// Returns the keys and hashes of the values that an op wrote.
static std::vector<std::pair<Key, std::string>> valuesOf(const OpRecord &op) {
  std::vector<std::pair<Key, std::string>> values = {
      {{op.buffer, op.bytes * op.executions}, op.all}};
  if (op.executions > 1)
    values.push_back({{op.buffer, op.bytes}, op.last});
  return values;
}

static Index indexOf(const std::vector<OpRecord> &ops) {
  Index index;
  for (size_t i = 0; i < ops.size(); ++i)
    for (auto &[key, hash] : valuesOf(ops[i]))
      index[key].add(hash, i);
  return index;
}

std::optional<OpDifference> firstDifferentOp(const std::vector<OpRecord> &a,
                                             const std::vector<OpRecord> &b) {
  Index valuesA = indexOf(a), valuesB = indexOf(b);
  int64_t equal = 0;
  for (const OpRecord &op : a) {
    bool found = false;
    for (auto &[key, hash] : valuesOf(op)) {
      const Values &ours = valuesA.at(key);
      auto theirs = valuesB.find(key);
      if (theirs == valuesB.end())
        continue;
      const Values &others = theirs->second;
      if (others.find(hash) < others.hashes.size()) {
        found = true;
        continue;
      }
      if (ours.hashes.size() != others.hashes.size())
        continue;
      const OpRecord &other = b[others.ops[ours.find(hash)]];
      if (other.kind == op.kind && other.name == op.name)
        return OpDifference{op, other, equal};
    }
    equal += found;
  }
  return std::nullopt;
}

} // namespace kiln::runtime
