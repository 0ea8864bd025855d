//===- RowSectorsTest.cpp - What gpu kernels move -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that are bound by memory should move every byte once, in whole
// sectors. The emulated device has no caches: what is read twice counts twice.
//
//===----------------------------------------------------------------------===//

#include "RowRunner.h"

#include <gtest/gtest.h>

#include <cstdio>

using namespace kiln;
using namespace kiln::test;

namespace {

/// A GPT-2 of 768 columns, sixteen sequences of 1,024 tokens, or four where
/// more change nothing.
constexpr int64_t kRows = 16384, kFewRows = 4096, kColumns = 768;

/// The most that a kernel of `type` may move, by the least.
struct Limit {
  const char *type;
  int64_t rows = kFewRows;
  double most = 1.05;
};

void expectFewSectors(const char *name, const RowCase &rowCase,
                      const std::vector<Limit> &limits = {{"f32"}, {"bf16"}},
                      int64_t columns = kColumns) {
  for (auto [type, rows, most] : limits) {
    RowRunner runner;
    double ratio = runner.sectorRatio(rowCase, rows, columns, type);
    std::printf("%-28s %-4s %6ld x %5ld: %.3f of the least sectors\n", name,
                type, long(rows), long(columns), ratio);
    EXPECT_LE(ratio, most) << name << " " << type;
  }
}

TEST(RowSectors, Elementwise) {
  expectFewSectors("gelu", {"%x: tensor<$Rx$Cx$T>",
                            "%y = kiln.gelu %x tanh : tensor<$Rx$Cx$T>",
                            "%y : tensor<$Rx$Cx$T>"});
}

TEST(RowSectors, ValuesPerColumn) {
  expectFewSectors("affine",
                   {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: "
                    "tensor<$Cx$F>",
                    "%y = kiln.affine %x, %g, %b : (tensor<$Rx$Cx$T>, "
                    "tensor<$Cx$F>, tensor<$Cx$F>) -> tensor<$Rx$Cx$T>",
                    "%y : tensor<$Rx$Cx$T>"},
                   {{"f32", kRows}, {"bf16"}});
}

TEST(RowSectors, LayerNorm) {
  expectFewSectors(
      "layer_norm",
      {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: tensor<$Cx$F>",
       "%y, %mean, %rstd = kiln.layer_norm %x, %g, %b {eps = 1.0e-05} : "
       "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Cx$F>) -> "
       "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<$Rx$F>)",
       "%y : tensor<$Rx$Cx$T>, %mean : tensor<$Rx$F>, %rstd : tensor<$Rx$F>"},
      {{"f32", kRows}, {"bf16", kRows}});
}

TEST(RowSectors, LayerNormBackward) {
  std::string partial = "tensor<" + std::to_string(kFewRows / 64) + "x$Cx$F>";
  expectFewSectors(
      "layer_norm_grad with sums",
      {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %m: tensor<$Rx$F>, "
       "%s: tensor<$Rx$F>, %dy: tensor<$Rx$Cx$T>, %skip: tensor<$Rx$Cx$T>",
       "%dx = kiln.layer_norm_grad %x, %g, %m, %s, %dy : (tensor<$Rx$Cx$T>, "
       "tensor<$Cx$F>, tensor<$Rx$F>, tensor<$Rx$F>, tensor<$Rx$Cx$T>) -> "
       "tensor<$Rx$Cx$T>\n"
       "%h = kiln.normalize %x, %m, %s : (tensor<$Rx$Cx$T>, "
       "tensor<$Rx$F>, tensor<$Rx$F>) -> tensor<$Rx$Cx$F>\n"
       "%w = kiln.cast %dy : tensor<$Rx$Cx$T> to tensor<$Rx$Cx$F>\n"
       "%t = kiln.mul %w, %h : tensor<$Rx$Cx$F>\n"
       "%dg = kiln.reduce_partial %t chunk 64 : tensor<$Rx$Cx$F> to " +
           partial +
           "\n%db = kiln.reduce_partial %dy chunk 64 : tensor<$Rx$Cx$T> to " +
           partial + "\n%sum = kiln.add %skip, %dx : tensor<$Rx$Cx$T>",
       "%sum : tensor<$Rx$Cx$T>, %dg : " + partial + ", %db : " + partial});
}

TEST(RowSectors, BiasGradient) {
  std::string partial = "tensor<" + std::to_string(kFewRows / 64) + "x$Cx$F>";
  expectFewSectors("reduce_partial", {"%x: tensor<$Rx$Cx$T>",
                                      "%y = kiln.reduce_partial %x chunk 64 : "
                                      "tensor<$Rx$Cx$T> to " +
                                          partial,
                                      "%y : " + partial});
}

TEST(RowSectors, AddAndDropout) {
  expectFewSectors(
      "dropout and add",
      {"%x: tensor<$Rx$Cx$T>, %y: tensor<$Rx$Cx$T>, %r: tensor<1x3xi64>",
       "%d = kiln.dropout %x, %r {p = 1.0e-01, key = 3, sequences = 4} : "
       "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>\n"
       "%z = kiln.add %d, %y : tensor<$Rx$Cx$T>",
       "%z : tensor<$Rx$Cx$T>"},
      {{"f32", kFewRows, 1.07}, {"bf16"}});
}

} // namespace
