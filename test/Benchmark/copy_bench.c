//===- copy_bench.c - Memory copy and update rates ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints, as CSV, the rate of copying an array and the rate of an update with
// the memory traffic of AdamW: per parameter, the update reads the weight, the
// gradient and two moments, and writes the weight and the moments (28 bytes).
// Bytes are counted as in STREAM: a cache line that is written without being
// read counts once.
//
//   copy_bench [MiB per array] [samples]
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { MaxSamples = 256 };

typedef struct {
  float *Weight, *Gradient, *First, *Second;
} Arrays;

static void copy(size_t Size, const Arrays *A) {
  float *restrict To = A->Weight;
  const float *restrict From = A->Gradient;
#pragma omp parallel for simd
  for (size_t I = 0; I < Size; ++I)
    To[I] = From[I] * 1.0001f; // The multiplication prevents a conversion to
                               // memcpy.
}

static void update(size_t Size, const Arrays *A) {
  const float Beta1 = 0.9f, Beta2 = 0.999f, Rate = 1e-4f;
  float *restrict W = A->Weight, *restrict M = A->First,
                  *restrict V = A->Second;
  const float *restrict G = A->Gradient;
#pragma omp parallel for simd
  for (size_t I = 0; I < Size; ++I) {
    float First = Beta1 * M[I] + (1 - Beta1) * G[I];
    float Second = Beta2 * V[I] + (1 - Beta2) * G[I] * G[I];
    M[I] = First;
    V[I] = Second;
    W[I] -= Rate * (First / (sqrtf(Second) + 1e-8f) + 0.1f * W[I]);
  }
}

static int byValue(const void *X, const void *Y) {
  double A = *(const double *)X, B = *(const double *)Y;
  return (A > B) - (A < B);
}

static void measure(const char *Name, double BytesPerElement,
                    void (*Kernel)(size_t, const Arrays *), size_t Size,
                    const Arrays *A, int Samples) {
  double Seconds[MaxSamples];
  for (int I = 0; I < Samples; ++I) {
    double Start = omp_get_wtime();
    Kernel(Size, A);
    Seconds[I] = omp_get_wtime() - Start;
  }
  qsort(Seconds, Samples, sizeof *Seconds, byValue);
  double Bytes = BytesPerElement * Size * 1e-9;
  printf("%s,%d,%.2f,%.2f,%.2f\n", Name, omp_get_max_threads(),
         Bytes / Seconds[Samples / 2], Bytes / Seconds[0],
         Bytes / Seconds[Samples - 1]);
}

int main(int argc, char **argv) {
  int MiB = argc > 1 ? atoi(argv[1]) : 512;
  int Samples = argc > 2 ? atoi(argv[2]) : 11;
  if (MiB < 1 || Samples < 1 || Samples > MaxSamples)
    return fprintf(stderr, "usage: copy_bench [MiB] [samples (1..256)]\n"), 2;
  size_t Size = ((size_t)MiB << 20) / sizeof(float);
  Arrays A;
  float **All[] = {&A.Weight, &A.Gradient, &A.First, &A.Second};
  for (int I = 0; I < 4; ++I) {
    if (posix_memalign((void **)All[I], 64, Size * sizeof(float)))
      return fprintf(stderr, "copy_bench: no memory for %d MiB\n", 4 * MiB), 1;
    float *P = *All[I];
    // Initialise in parallel, so that each page is in the memory of the
    // processor whose thread will use it. Avoid subnormal numbers, because
    // arithmetic on them is slow.
#pragma omp parallel for simd
    for (size_t J = 0; J < Size; ++J)
      P[J] = 1e-3f * (float)((J & 1023) + 1);
  }
  printf("kernel,threads,median_gbs,best_gbs,worst_gbs\n");
  measure("copy", 8, copy, Size, &A, Samples);
  measure("update", 28, update, Size, &A, Samples);
  return 0;
}
