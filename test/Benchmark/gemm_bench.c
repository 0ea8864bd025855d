//===- gemm_bench.c - Interleaved sgemm benchmark of libraries ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures single-precision GEMMs of libraries that are loaded at run time. The
// samples of the libraries are interleaved, so that a drift of the machine's
// speed affects all of them equally. Samples during which other processes used
// the machine are dropped.
//
//   gemm_bench [-r samples] [-q CPUs] SPEC... < gemms
//
// -q sets the number of CPUs that other processes may use during a valid sample
// (default: 0.08).
//
// SPEC is KIND[/TILES]:LIBRARY. KIND selects the entry point:
//   cblas    cblas_sgemm          (OpenBLAS, BLIS, MKL)
//   fortran  sgemm_               (libtorch_cpu.so exports MKL's)
//   dnnl     dnnl_sgemm           (oneDNN)
// Without TILES, each GEMM is one call on the library's own threads. TILES is
// nT, which splits the columns of the result into T tiles, or mT, which splits
// the rows. Each tile is one call in an OpenMP parallel region, in which the
// libraries run each call on the calling thread.
//
// Each input line is "name transA transB m n k" for a row-major GEMM, with 0/1
// for the transposes. The output is CSV. OMP_NUM_THREADS sets the number of
// threads.
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MaxLibraries = 8, MaxSamples = 64 };

typedef void (*CblasFn)(int order, int ta, int tb, int m, int n, int k,
                        float alpha, const float *a, int lda, const float *b,
                        int ldb, float beta, float *c, int ldc);
typedef void (*FortranFn)(const char *ta, const char *tb, const int *m,
                          const int *n, const int *k, const float *alpha,
                          const float *a, const int *lda, const float *b,
                          const int *ldb, const float *beta, float *c,
                          const int *ldc);
typedef int (*DnnlFn)(char ta, char tb, int64_t m, int64_t n, int64_t k,
                      float alpha, const float *a, int64_t lda, const float *b,
                      int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct {
  const char *Spec;
  CblasFn Cblas;
  FortranFn Fortran;
  DnnlFn Dnnl;
  char Split; // 'm', 'n' or 0.
  int Tiles;
} Library;

typedef struct {
  char Name[64];
  int TransA, TransB, M, N, K;
} Product;

static double now(void) {
  struct timespec T;
  clock_gettime(CLOCK_MONOTONIC, &T);
  return T.tv_sec + 1e-9 * T.tv_nsec;
}

// Returns the CPU seconds used by other processes since boot.
static double usedByOthers(void) {
  long V[8] = {0};
  FILE *F = fopen("/proc/stat", "r");
  if (F) {
    if (fscanf(F, "cpu %ld %ld %ld %ld %ld %ld %ld %ld", V, V + 1, V + 2, V + 3,
               V + 4, V + 5, V + 6, V + 7) != 8)
      memset(V, 0, sizeof V);
    fclose(F);
  }
  struct timespec T;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &T);
  long Busy = V[0] + V[1] + V[2] + V[5] + V[6] + V[7];
  return (double)Busy / sysconf(_SC_CLK_TCK) - (T.tv_sec + 1e-9 * T.tv_nsec);
}

// Computes the row-major GEMM c[m,n] = op(a) op(b).
static void callOnce(const Library *L, int TA, int TB, int M, int N, int K,
                     const float *A, int LdA, const float *B, int LdB, float *C,
                     int LdC) {
  if (L->Cblas) {
    L->Cblas(101, TA ? 112 : 111, TB ? 112 : 111, M, N, K, 1.f, A, LdA, B, LdB,
             0.f, C, LdC);
  } else if (L->Dnnl) {
    L->Dnnl(TA ? 'T' : 'N', TB ? 'T' : 'N', M, N, K, 1.f, A, LdA, B, LdB, 0.f,
            C, LdC);
  } else {
    // The library is column-major, so compute the transposed result with
    // exchanged operands.
    const float One = 1.f, Zero = 0.f;
    L->Fortran(TB ? "T" : "N", TA ? "T" : "N", &N, &M, &K, &One, B, &LdB, A,
               &LdA, &Zero, C, &LdC);
  }
}

// Returns the index of the first row or column of tile I. The index is a
// multiple of 16, so that all tiles except the last consist of whole vectors.
static int tileBegin(int Extent, int I, int Tiles) {
  return I == Tiles ? Extent : (int)((long)Extent * I / Tiles / 16 * 16);
}

static void multiply(const Library *L, const Product *P, const float *A,
                     const float *B, float *C) {
  int LdA = P->TransA ? P->M : P->K, LdB = P->TransB ? P->K : P->N;
  if (!L->Split) {
    callOnce(L, P->TransA, P->TransB, P->M, P->N, P->K, A, LdA, B, LdB, C,
             P->N);
    return;
  }
#pragma omp parallel for schedule(static, 1)
  for (int I = 0; I < L->Tiles; ++I) {
    int Extent = L->Split == 'm' ? P->M : P->N;
    int Begin = tileBegin(Extent, I, L->Tiles);
    int Size = tileBegin(Extent, I + 1, L->Tiles) - Begin;
    if (L->Split == 'm')
      callOnce(L, P->TransA, P->TransB, Size, P->N, P->K,
               A + (size_t)Begin * (P->TransA ? 1 : LdA), LdA, B, LdB,
               C + (size_t)Begin * P->N, P->N);
    else
      callOnce(L, P->TransA, P->TransB, P->M, Size, P->K, A, LdA,
               B + (size_t)Begin * (P->TransB ? LdB : 1), LdB, C + Begin, P->N);
  }
}

static float *filled(size_t Size) {
  float *P = NULL;
  if (posix_memalign((void **)&P, 64, Size * sizeof(float)))
    abort();
  uint32_t S = 12345;
  for (size_t I = 0; I < Size; ++I) {
    S = S * 1664525u + 1013904223u;
    P[I] = ((S >> 8) / 16777216.f - 0.5f) * 0.1f;
  }
  return P;
}

static int byValue(const void *X, const void *Y) {
  double A = *(const double *)X, B = *(const double *)Y;
  return (A > B) - (A < B);
}

static void timeGemm(const Library *Libs, int NumLibs, const Product *P,
                        int Samples, double Quiet) {
  float *A = filled((size_t)P->M * P->K), *B = filled((size_t)P->K * P->N);
  float *C = filled((size_t)P->M * P->N);
  double Flops = 2.0 * P->M * P->N * (double)P->K;
  double T[MaxLibraries][MaxSamples];
  for (int L = 0; L < NumLibs; ++L)
    multiply(&Libs[L], P, A, B, C);
  int Inner = (int)(1e10 / Flops) + 1, Got = 0, Dropped = 0;
  double End = now() + 6 * NumLibs;
  while (Got < Samples && (now() < End || !Got)) {
    double Others = usedByOthers(), Start = now();
    for (int L = 0; L < NumLibs; ++L) {
      double S = now();
      for (int I = 0; I < Inner; ++I)
        multiply(&Libs[L], P, A, B, C);
      T[L][Got] = (now() - S) / Inner;
    }
    // /proc/stat may count CPU time up to two ticks (0.02 s) late, so tolerate
    // 0.02 s of other processes.
    bool Disturbed = usedByOthers() - Others > Quiet * (now() - Start) + 0.021;
    if (Disturbed && now() < End)
      ++Dropped;
    else
      ++Got;
  }
  for (int L = 0; L < NumLibs; ++L) {
    qsort(T[L], Got, sizeof **T, byValue);
    double Median = T[L][Got / 2];
    printf("%s,%s,%d,%d,%d,%.4f,%.1f,%.1f,%.1f,%d,%d\n", Libs[L].Spec, P->Name,
           P->M, P->N, P->K, Median * 1e3, Flops / Median * 1e-9,
           Flops / T[L][0] * 1e-9, Flops / T[L][Got - 1] * 1e-9, Got, Dropped);
  }
  fflush(stdout);
  free(A), free(B), free(C);
}

static int openLibrary(const char *Spec, Library *L) {
  const char *Path = strchr(Spec, ':');
  if (!Path)
    return fprintf(stderr, "gemm_bench: '%s' is not KIND[/TILES]:LIBRARY\n",
                   Spec),
           1;
  void *Handle = dlopen(Path + 1, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!Handle)
    return fprintf(stderr, "gemm_bench: %s\n", dlerror()), 1;
  L->Spec = Spec;
  if (!strncmp(Spec, "cblas", 5))
    L->Cblas = (CblasFn)dlsym(Handle, "cblas_sgemm");
  else if (!strncmp(Spec, "fortran", 7))
    L->Fortran = (FortranFn)dlsym(Handle, "sgemm_");
  else if (!strncmp(Spec, "dnnl", 4))
    L->Dnnl = (DnnlFn)dlsym(Handle, "dnnl_sgemm");
  if (!L->Cblas && !L->Fortran && !L->Dnnl)
    return fprintf(stderr, "gemm_bench: '%s' has no such product\n", Spec), 1;
  const char *Slash = strchr(Spec, '/');
  if (Slash && Slash < Path) {
    L->Split = Slash[1];
    L->Tiles = atoi(Slash + 2);
    if ((L->Split != 'm' && L->Split != 'n') || L->Tiles < 1)
      return fprintf(stderr, "gemm_bench: '%s': tiles are mN or nN\n", Spec), 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  Library Libs[MaxLibraries] = {0};
  int NumLibs = 0, Samples = 7, Option;
  double Quiet = 0.08;
  while ((Option = getopt(argc, argv, "r:q:")) == 'r' || Option == 'q')
    if (Option == 'r')
      Samples = atoi(optarg);
    else
      Quiet = atof(optarg);
  for (; optind < argc && NumLibs < MaxLibraries; ++optind)
    if (openLibrary(argv[optind], &Libs[NumLibs++]))
      return 1;
  if (!NumLibs || Option != -1 || Samples < 1 || Samples > MaxSamples)
    return fprintf(stderr, "usage: gemm_bench [-r samples (1..64)] [-q CPUs] "
                           "KIND[/TILES]:LIBRARY... < products\n"),
           2;
  printf("library,product,m,n,k,median_ms,gflops,best_gflops,worst_gflops,"
         "samples,dropped\n");
  Product P;
  while (scanf("%63s %d %d %d %d %d", P.Name, &P.TransA, &P.TransB, &P.M, &P.N,
               &P.K) == 6) {
    if (P.M < 1 || P.N < 1 || P.K < 1)
      return fprintf(stderr, "gemm_bench: '%s': sizes start at 1\n", P.Name), 2;
    timeGemm(Libs, NumLibs, &P, Samples, Quiet);
  }
  return 0;
}
