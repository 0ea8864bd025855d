//===- Gemm.h - GEMMs through CBLAS -----------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All calls of the BLAS library. Each call computes one tile on one thread.
// BLAS must not start threads of its own, because the result would then depend
// on the number of threads.
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

/// A GEMM C = op(A) op(B) + beta C with row-major matrices.
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
  bool accumulate; ///< If true, beta is 1; otherwise beta is 0.
};

void gemm(const GemmCall &call);

/// Makes BLAS single-threaded in every thread of the team. Allocates one BLAS
/// buffer per thread in advance, so that steps allocate none.
void prepareBlas(ThreadTeam &team);

/// Returns the name of the BLAS library, such as "OpenBLAS 0.3.21 SkylakeX".
std::string blasName();

/// Returns a message for the user if the BLAS library is not an OpenMP build,
/// or if it differs from `planned`; otherwise nullopt.
std::optional<std::string> blasNotice(const std::string &planned);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_GEMM_H
