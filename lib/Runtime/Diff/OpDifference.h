//===- OpDifference.h - First op with different results ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each executable reports hashes of the results of every command of one step.
// Two plans of one model have many commands in common, but not all: a plan may
// fuse ops, recompute a value or split the batch into micro-batches. Results
// are therefore matched only where the match is certain:
//
//  - A value is identified by a key: the name of its buffer and its size in
//    bytes. A result that is written in a loop over micro-batches forms two
//    values. The concatenated values of all iterations are comparable if each
//    iteration computes some rows of the batch. The value of the last iteration
//    is comparable if the iterations accumulate a sum.
//  - A key is compared if A and B have the same number of distinct values for
//    it. The n-th value of A then corresponds to the n-th value of B.
//  - A value of A differs if B has no equal value under the same key, and if a
//    command of the same kind and name computed the corresponding value of B.
//
// Unmatched values are skipped. Therefore the reported op is the first matched
// op that differs, and not necessarily the cause of the difference.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_OPDIFFERENCE_H
#define KILN_LIB_RUNTIME_DIFF_OPDIFFERENCE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// The result that one command wrote to one buffer.
struct OpRecord {
  std::string kind; ///< "launch", "gemm", ...
  std::string name;
  std::string buffer;
  int64_t bytes = 0; ///< Bytes per iteration.
  int64_t iterations = 1;
  std::string all;  ///< Hash of the values of all iterations.
  std::string last; ///< Hash of the value of the last iteration.
};

struct OpDifference {
  OpRecord a, b;
  /// Number of earlier results of A that B also has.
  int64_t equalBefore = 0;
};

/// Returns the first op whose results differ, or nullopt if no result is known
/// to differ.
std::optional<OpDifference> firstDifferentOp(const std::vector<OpRecord> &a,
                                             const std::vector<OpRecord> &b);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_OPDIFFERENCE_H
