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
//  - Every value has a key: the name of its buffer and its size in bytes. If a
//    command is executed once for each micro-batch, its result yields two
//    values: the concatenation of the results of all executions, in their
//    order, and the result of the last execution. If each execution computes
//    some rows of the batch, in the order of the rows, the concatenation can be
//    compared with the result of a plan without micro-batches. If the
//    executions accumulate a sum, the result of the last execution can be
//    compared with the result of a plan without micro-batches.
//  - The values under a key are compared only if A and B have the same number
//    of distinct values under that key. In that case the n-th distinct value of
//    A corresponds to the n-th distinct value of B.
//  - A value of A is reported as different if B has no equal value under the
//    same key, and if the two commands that computed the value of A and the
//    corresponding value of B have the same kind and name.
//
// Unmatched values are skipped. Therefore the reported op is the first matched
// op whose results differ, but an earlier unmatched op may have caused the
// difference.
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
  std::string kind; ///< The kind of the command, such as "gemm".
  std::string name;
  std::string buffer;
  int64_t bytes = 0; ///< Bytes that one execution writes.
  int64_t executions = 1;
  std::string all;  ///< Hash of the concatenated values of all executions.
  std::string last; ///< Hash of the value of the last execution.
};

struct OpDifference {
  OpRecord a, b;
  /// The number of results of A, among those before `a`, for which B has an
  /// equal result.
  int64_t equalBefore = 0;
};

/// Returns the first op of A with a result that differs from the corresponding
/// result of B, or nullopt if no such op is found.
std::optional<OpDifference> firstDifferentOp(const std::vector<OpRecord> &a,
                                             const std::vector<OpRecord> &b);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_OPDIFFERENCE_H
