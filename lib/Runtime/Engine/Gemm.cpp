//===- Gemm.cpp - GEMMs through CBLAS -------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include <algorithm>
#include <cblas.h>
#include <cctype>
#include <vector>

extern "C" {
// Functions of OpenBLAS's buffer pool. They are declared weak because other
// BLAS libraries lack them. With such a library, the first step allocates the
// buffers.
__attribute__((weak)) void *blas_memory_alloc(int position);
__attribute__((weak)) void blas_memory_free(void *buffer);
void omp_set_num_threads(int threads);
}

namespace kiln::runtime {

/// The largest product m * n * k for which OpenBLAS uses its small-matrix
/// kernels, which allocate memory.
static constexpr double smallGemm = 100.0 * 100.0 * 100.0;

/// Computes c row by row with matrix-vector multiplications. Row i of c is
/// op(b)^T times row i of op(a), plus row i of the previous c if `accumulate`.
static void smallGemmByRows(const GemmCall &call) {
  auto ldb = blasint(call.ldb);
  // If a is transposed, a row of op(a) is a column of a.
  auto increment = blasint(call.transA ? call.lda : 1);
  int64_t rowStride = call.transA ? 1 : call.lda;
  CBLAS_TRANSPOSE trans = call.transB ? CblasNoTrans : CblasTrans;
  auto rows = blasint(call.transB ? call.n : call.k);
  auto cols = blasint(call.transB ? call.k : call.n);
  for (int64_t row = 0; row < call.m; ++row) {
    if (call.type == ElementType::F64)
      cblas_dgemv(CblasRowMajor, trans, rows, cols, 1.0,
                  reinterpret_cast<const double *>(call.b), ldb,
                  reinterpret_cast<const double *>(call.a) + row * rowStride,
                  increment, call.accumulate ? 1.0 : 0.0,
                  reinterpret_cast<double *>(call.c) + row * call.ldc, 1);
    else
      cblas_sgemv(CblasRowMajor, trans, rows, cols, 1.0f,
                  reinterpret_cast<const float *>(call.b), ldb,
                  reinterpret_cast<const float *>(call.a) + row * rowStride,
                  increment, call.accumulate ? 1.0f : 0.0f,
                  reinterpret_cast<float *>(call.c) + row * call.ldc, 1);
  }
}

void gemm(const GemmCall &call) {
  if (double(call.m) * double(call.n) * double(call.k) <= smallGemm)
    return smallGemmByRows(call);
  CBLAS_TRANSPOSE transA = call.transA ? CblasTrans : CblasNoTrans;
  CBLAS_TRANSPOSE transB = call.transB ? CblasTrans : CblasNoTrans;
  auto m = blasint(call.m), n = blasint(call.n), k = blasint(call.k);
  auto lda = blasint(call.lda), ldb = blasint(call.ldb),
       ldc = blasint(call.ldc);
  if (call.type == ElementType::F64)
    cblas_dgemm(CblasRowMajor, transA, transB, m, n, k, 1.0,
                reinterpret_cast<const double *>(call.a), lda,
                reinterpret_cast<const double *>(call.b), ldb,
                call.accumulate ? 1.0 : 0.0, reinterpret_cast<double *>(call.c),
                ldc);
  else
    cblas_sgemm(CblasRowMajor, transA, transB, m, n, k, 1.0f,
                reinterpret_cast<const float *>(call.a), lda,
                reinterpret_cast<const float *>(call.b), ldb,
                call.accumulate ? 1.0f : 0.0f,
                reinterpret_cast<float *>(call.c), ldc);
}

void prepareBlas(ThreadTeam &team) {
  openblas_set_num_threads(1);
  // OpenBLAS built with OpenMP uses the thread count of libgomp. libgomp stores
  // the count per thread. Therefore set the count in every thread.
  team.forEachThread([](int) { omp_set_num_threads(1); });
  if (!blas_memory_alloc || !blas_memory_free)
    return;
  std::vector<void *> buffers;
  for (int i = 0; i < team.size(); ++i)
    buffers.push_back(blas_memory_alloc(0));
  for (void *buffer : buffers)
    blas_memory_free(buffer);
}

static std::string firstWords(const std::string &text, int count) {
  std::size_t end = 0;
  for (int i = 0; i < count && end != std::string::npos; ++i)
    end = text.find(' ', end == 0 ? 0 : end + 1);
  return text.substr(0, end);
}

std::string blasName() {
  return firstWords(openblas_get_config(), 2) + " " + openblas_get_corename();
}

static std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

std::optional<std::string> blasNotice(const std::string &planned) {
  std::string config = openblas_get_config();
  if (config.find("USE_OPENMP") == std::string::npos)
    return "the BLAS library (" + firstWords(config, 2) +
           ") is not an OpenMP build: two thread pools compete for the cores "
           "and "
           "steps may take twice as long; install libopenblas0-openmp";
  std::string found = blasName();
  // `planned` is the name of the library, such as "OpenBLAS 0.3.21 SkylakeX".
  // The CPU type, or the version and the CPU type, may be missing.
  if (lowered(found).rfind(lowered(planned), 0) != 0)
    return "planned for BLAS '" + planned + "' but running with '" + found +
           "': results may differ in the last bits";
  return std::nullopt;
}

} // namespace kiln::runtime
