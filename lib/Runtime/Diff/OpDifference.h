//===- OpDifference.h - The first op that computes other bits ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two executables tell, as hashes, what every command of one step left in its
// buffers. Two plans of one model have many commands in common, but not all:
// one may fuse what the other does not, compute a value twice, or in
// micro-batches. So results are matched only where that is certain:
//
//  - a value belongs to a key: the name of its buffer and its bytes. The values
//    of all iterations of a loop, one after the other, are one value (rows of
//    micro-batches in order), and so is that of the last iteration (a sum);
//  - a key counts where both sides have the same number of different values
//    under it. The n-th of A then belongs to the n-th of B;
//  - a value differs when the other side has it nowhere under its key, although
//    commands of the same kind and name computed both.
//
// What cannot be matched is passed over, so the op that is found is the first
// one that both sides have, not necessarily the cause.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_OPDIFFERENCE_H
#define KILN_LIB_RUNTIME_DIFF_OPDIFFERENCE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// What one command wrote into one buffer.
struct OpRecord {
  std::string kind; ///< "launch", "gemm", ...
  std::string name;
  std::string buffer;
  int64_t bytes = 0; ///< Per iteration.
  int64_t iterations = 1;
  std::string all;  ///< Hash of the values of all iterations.
  std::string last; ///< Hash of the last one.
};

struct OpDifference {
  OpRecord a, b;
  /// Results of A before it, in order, that B has too.
  int64_t equalBefore = 0;
};

/// Nothing when no result is known to differ.
std::optional<OpDifference> firstDifferentOp(const std::vector<OpRecord> &a,
                                             const std::vector<OpRecord> &b);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_OPDIFFERENCE_H
