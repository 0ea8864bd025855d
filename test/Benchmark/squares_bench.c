//===- squares_bench.c - Fused squares of a weight gradient ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures whether gradient clipping is faster if the squares of each tile of a
// weight gradient are summed directly after the tile's GEMM, while the tile is
// in the thread's cache. Each of two threads computes half of the rows of c =
// a^T b, in 1 to 8 tiles of whole rows, and sums the squares of every row after
// each tile. The variant "apart" does what kiln does: one tile per thread,
// followed by a second parallel loop that sums the squares. The samples of the
// variants are interleaved. Every GEMM writes to memory that has not been
// written recently, as in training, where all gradients must remain in memory
// until their norm is known.
//
//   cc -O3 -march=native -fopenmp squares_bench.c -lopenblas && ./a.out
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { Threads = 2, Inner = 256, Columns = 768, Samples = 60, Places = 80 };
static const int Tiles[] = {0, 1, 2, 3, 4, 6, 8}; // 0: "apart".
enum { Variants = sizeof(Tiles) / sizeof(Tiles[0]), Lanes = 64 };

static double milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/// Sums the squares in doubles with Lanes partial sums per row, as in kiln.
static void squareRows(const float *c, double *sums, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    double parts[Lanes] = {0};
    for (int i = 0; i < Columns; i += Lanes)
      for (int lane = 0; lane < Lanes; ++lane) {
        double value = c[(size_t)row * Columns + i + lane];
        parts[lane] += value * value;
      }
    for (int half = Lanes / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane)
        parts[lane] += parts[lane + half];
    sums[row] = parts[0];
  }
}

static void product(const float *a, const float *b, float *c, int rows,
                    int begin, int end) {
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, end - begin, Columns,
              Inner, 1, a + begin, rows, b, Columns, 0,
              c + (size_t)begin * Columns, Columns);
}

static double timeOne(int tiles, const float *a, const float *b, float *c,
                      double *sums, int rows) {
  double start = milliseconds();
#pragma omp parallel for num_threads(Threads) schedule(static, 1)
  for (int thread = 0; thread < Threads; ++thread) {
    int first = rows / Threads * thread, count = tiles ? tiles : 1;
    for (int tile = 0; tile < count; ++tile) {
      int begin = first + rows / Threads * tile / count;
      int end = first + rows / Threads * (tile + 1) / count;
      product(a, b, c, rows, begin, end);
      if (tiles)
        squareRows(c, sums, begin, end);
    }
  }
  if (!tiles) {
#pragma omp parallel for num_threads(Threads) schedule(static, 1)
    for (int thread = 0; thread < Threads; ++thread)
      squareRows(c, sums, rows / Threads * thread,
                 rows / Threads * (thread + 1));
  }
  return milliseconds() - start;
}

static void bench(int rows) {
  size_t cSize = (size_t)rows * Columns;
  size_t bytes = (cSize * Places + (size_t)Inner * (rows + Columns)) * 4;
  float *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  double *sums = calloc((size_t)rows, sizeof(double));
  if (memory == MAP_FAILED || !sums)
    exit(fprintf(stderr, "squares_bench: no memory\n"));
  madvise(memory, bytes, MADV_HUGEPAGE);
  memset(memory, 1, bytes);
  const float *a = memory, *b = a + (size_t)Inner * rows;
  float *places = memory + (size_t)Inner * (rows + Columns);
  double times[Variants][Samples];
  int place = 0;
  for (int sample = 0; sample < Samples; ++sample)
    for (int v = 0; v < Variants; ++v, place = (place + 1) % Places)
      times[v][sample] =
          timeOne(Tiles[v], a, b, places + place * cSize, sums, rows);
  printf("%d x %d, ms:", rows, Columns);
  for (int v = 0; v < Variants; ++v) {
    qsort(times[v], Samples, sizeof(double), compare);
    char name[16] = "apart";
    if (Tiles[v])
      snprintf(name, sizeof(name), "%d", Tiles[v]);
    printf("  %s %.3f", name, times[v][Samples / 2]);
  }
  printf("\n");
  free(sums);
  munmap(memory, bytes);
}

int main(void) {
  openblas_set_num_threads(1);
  bench(3072);
  bench(768);
}
