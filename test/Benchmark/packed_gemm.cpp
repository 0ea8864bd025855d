//===- packed_gemm.cpp - kiln's GEMM kernels beside those of libraries ----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures GEMMs of f32 and bf16 with f32 results, on one thread. For f32,
// measures kiln's AVX-512 kernel, OpenBLAS and oneDNN. For bf16, measures
// kiln's AVX-512 and AMX kernels and oneDNN. oneDNN is loaded at run time. If
// the processor does not support a kernel, the rate of the kernel is 0. The
// samples are interleaved, so that a drift of the machine's speed affects all
// implementations equally. The README of this directory has the command that
// builds this program.
//
//   packed_gemm [--samples=N] [libdnnl.so] < gemms
//
// Each input line is "name transA transB m n k" for a row-major GEMM, as for
// gemm_bench. Prints the median rates in GFLOP/s, and the ratios of kiln's
// rates to those of oneDNN. The ratio for bf16 uses kiln's AMX kernel or, if
// the processor lacks AMX, the AVX-512 kernel. No ratios are printed if the
// processor lacks AVX512-BF16 or oneDNN is not given.
//
//===----------------------------------------------------------------------===//

#include "AmxGemm.h"
#include "Avx512Gemm.h"

#include "kiln/Abi/GemmWorkspace.h"
#include "kiln/Support/ElementConversion.h"

#include <algorithm>
#include <cblas.h>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <vector>

using namespace kiln;
using namespace kiln::runtime;
using namespace kiln::support;

namespace {

using Sgemm = int (*)(char, char, int64_t, int64_t, int64_t, float,
                      const float *, int64_t, const float *, int64_t, float,
                      float *, int64_t);
using Bgemm = int (*)(char, char, int64_t, int64_t, int64_t, float,
                      const uint16_t *, int64_t, const uint16_t *, int64_t,
                      float, float *, int64_t);

struct Gemm {
  char name[64];
  int transA, transB;
  int64_t m, n, k;

  double flops() const { return 2. * double(m) * double(n) * double(k); }
};

/// Returns an aligned buffer of `size` numbers between -0.5 and 0.5, which the
/// caller frees.
template <typename T> T *filled(int64_t size) {
  auto *data = static_cast<T *>(
      std::aligned_alloc(64, (size * sizeof(T) + 63) / 64 * 64));
  uint32_t state = 1;
  for (int64_t i = 0; i < size; ++i) {
    state = state * 1664525u + 1013904223u;
    double value = double(state >> 8) / double(1 << 24) - 0.5;
    convertElements(ElementType::F64, &value,
                    sizeof(T) == 2 ? ElementType::BF16 : ElementType::F32,
                    data + i, 1);
  }
  return data;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds(const std::function<void()> &run) {
  auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

} // namespace

int main(int argc, char **argv) {
  int samples = 9;
  const char *path = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (!std::strncmp(argv[i], "--samples=", 10))
      samples = std::max(1, std::atoi(argv[i] + 10));
    else
      path = argv[i];
  }
  Sgemm sgemm = nullptr;
  Bgemm bgemm = nullptr;
  if (path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
      std::fprintf(stderr, "packed_gemm: %s\n", dlerror());
      return 1;
    }
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "dnnl_sgemm"));
    bgemm = reinterpret_cast<Bgemm>(dlsym(library, "dnnl_gemm_bf16bf16f32"));
  }
  openblas_set_num_threads(1);
  std::printf("%-24s %8s %8s %8s %9s %8s %8s  %s\n", "GEMM", "kiln f32",
              "OpenBLAS", "oneDNN", "kiln bf16", "kiln AMX", "oneDNN",
              "kiln / oneDNN f32, bf16");
  double logs[2] = {0, 0};
  int count = 0;
  Gemm gemm;
  while (std::scanf("%63s %d %d %ld %ld %ld", gemm.name, &gemm.transA,
                    &gemm.transB, &gemm.m, &gemm.n, &gemm.k) == 6) {
    auto *a = filled<float>(gemm.m * gemm.k),
         *b = filled<float>(gemm.k * gemm.n);
    auto *narrowA = filled<uint16_t>(gemm.m * gemm.k),
         *narrowB = filled<uint16_t>(gemm.k * gemm.n);
    auto *c = filled<float>(gemm.m * gemm.n);
    int64_t lda = gemm.transA ? gemm.m : gemm.k;
    int64_t ldb = gemm.transB ? gemm.k : gemm.n;
    int64_t bytes = 0;
    for (abi::GemmKernel kernel :
         {abi::GemmKernel::Avx512, abi::GemmKernel::Amx}) {
      abi::GemmShape shape = {gemm.m, gemm.n, gemm.k, 1, 1, 1, kernel};
      bytes =
          std::max(bytes, abi::packedGemmBytes(shape, ElementType::F32, false));
    }
    auto *scratch = filled<float>(bytes / 4 + 16);
    auto ours = [&](auto *compute, ElementType type, const void *left,
                    const void *right) {
      GemmCall call;
      call.type = type;
      call.transA = gemm.transA;
      call.transB = gemm.transB;
      call.m = gemm.m;
      call.n = gemm.n;
      call.k = gemm.k;
      call.a = static_cast<const char *>(left);
      call.lda = lda;
      call.b = static_cast<const char *>(right);
      call.ldb = ldb;
      call.c = reinterpret_cast<char *>(c);
      call.ldc = gemm.n;
      call.accumulate = false;
      compute(call, ElementType::F32, reinterpret_cast<char *>(scratch));
    };
    char ta = gemm.transA ? 'T' : 'N', tb = gemm.transB ? 'T' : 'N';
    std::vector<std::function<void()>> subjects = {
        [&] {
          if (hasAvx512Gemm(ElementType::F32))
            ours(avx512Gemm, ElementType::F32, a, b);
        },
        [&] {
          cblas_sgemm(CblasRowMajor, gemm.transA ? CblasTrans : CblasNoTrans,
                      gemm.transB ? CblasTrans : CblasNoTrans, gemm.m, gemm.n,
                      gemm.k, 1, a, lda, b, ldb, 0, c, gemm.n);
        },
        [&] {
          if (sgemm)
            sgemm(ta, tb, gemm.m, gemm.n, gemm.k, 1, a, lda, b, ldb, 0, c,
                  gemm.n);
        },
        [&] {
          if (hasAvx512Gemm(ElementType::BF16))
            ours(avx512Gemm, ElementType::BF16, narrowA, narrowB);
        },
        [&] {
          if (hasAmxGemm(ElementType::BF16))
            ours(amxGemm, ElementType::BF16, narrowA, narrowB);
        },
        [&] {
          if (bgemm)
            bgemm(ta, tb, gemm.m, gemm.n, gemm.k, 1, narrowA, lda, narrowB, ldb,
                  0, c, gemm.n);
        }};
    std::vector<std::vector<double>> times(subjects.size());
    for (auto &subject : subjects)
      subject();
    for (int sample = 0; sample < samples; ++sample)
      for (std::size_t i = 0; i < subjects.size(); ++i)
        times[i].push_back(seconds(subjects[i]));
    double rate[6];
    for (std::size_t i = 0; i < subjects.size(); ++i)
      rate[i] = gemm.flops() / median(times[i]) * 1e-9;
    bool hasBf16 = hasAvx512Gemm(ElementType::BF16);
    bool hasAmx = hasAmxGemm(ElementType::BF16);
    std::printf("%-24s %8.1f %8.1f %8.1f %9.1f %8.1f %8.1f", gemm.name,
                hasAvx512Gemm(ElementType::F32) ? rate[0] : 0, rate[1],
                sgemm ? rate[2] : 0, hasBf16 ? rate[3] : 0,
                hasAmx ? rate[4] : 0, bgemm ? rate[5] : 0);
    if (sgemm && bgemm && hasBf16) {
      double f32 = rate[0] / rate[2], bf16 = rate[hasAmx ? 4 : 3] / rate[5];
      std::printf("  %.3f %.3f", f32, bf16);
      logs[0] += std::log(f32);
      logs[1] += std::log(bf16);
      ++count;
    }
    std::printf("\n");
    std::fflush(stdout);
    for (void *data :
         {static_cast<void *>(a), static_cast<void *>(b),
          static_cast<void *>(narrowA), static_cast<void *>(narrowB),
          static_cast<void *>(c), static_cast<void *>(scratch)})
      std::free(data);
  }
  if (count > 0)
    std::printf("geometric mean of kiln / oneDNN: f32 %.3f, bf16 %.3f\n",
                std::exp(logs[0] / count), std::exp(logs[1] / count));
  return 0;
}
