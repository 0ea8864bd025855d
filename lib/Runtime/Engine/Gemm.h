//===- Gemm.h - Matrix products through CBLAS -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All uses of the BLAS library. Every call computes one tile on one thread: the
// library must never start threads of its own, so that bits depend on the tile
// alone.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_GEMM_H
#define KILN_LIB_RUNTIME_ENGINE_GEMM_H

#include "ThreadTeam.h"
#include "kiln/Support/ElementType.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kiln::runtime {

/// C = op(A) op(B) + beta C, row-major.
struct GemmCall {
  ElementType type;
  bool transA, transB;
  int64_t m, n, k;
  const char *a;
  int64_t lda;
  const char *b;
  int64_t ldb;
  char *c;
  int64_t ldc;
  bool accumulate; ///< beta: 1 or 0.
};

void gemm(const GemmCall &call);

/// Makes the library single-threaded in every thread of the team and lets it
/// take its buffers now, one per thread, so that no step has to.
void prepareBlas(ThreadTeam &team);

/// Such as "OpenBLAS 0.3.21 SkylakeX".
std::string blasName();

/// What is wrong with the library or different from `planned`, if anything.
std::optional<std::string> blasNotice(const std::string &planned);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_GEMM_H
