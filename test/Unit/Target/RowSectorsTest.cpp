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

void expectFewSectors(const char *name, const RowCase &rowCase, int64_t rows,
                      int64_t columns, double most = 1.05) {
  RowRunner runner;
  double ratio = runner.sectorRatio(rowCase, rows, columns);
  std::printf("%-28s %6ld x %5ld: %.3f of the least sectors\n", name,
              long(rows), long(columns), ratio);
  EXPECT_LE(ratio, most) << name;
}

TEST(RowSectors, Elementwise) {
  expectFewSectors("gelu",
                   {"%x: tensor<$Rx$Cx$T>",
                    "%y = kiln.gelu %x tanh : tensor<$Rx$Cx$T>",
                    "%y : tensor<$Rx$Cx$T>"},
                   kFewRows, kColumns);
}

TEST(RowSectors, ValuesPerColumn) {
  expectFewSectors("affine",
                   {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, %b: "
                    "tensor<$Cx$T>",
                    "%y = kiln.affine %x, %g, %b : (tensor<$Rx$Cx$T>, "
                    "tensor<$Cx$T>, tensor<$Cx$T>) -> tensor<$Rx$Cx$T>",
                    "%y : tensor<$Rx$Cx$T>"},
                   kRows, kColumns);
}

TEST(RowSectors, LayerNorm) {
  expectFewSectors(
      "layer_norm",
      {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, %b: tensor<$Cx$T>",
       "%y, %mean, %rstd = kiln.layer_norm %x, %g, %b {eps = 1.0e-05} : "
       "(tensor<$Rx$Cx$T>, tensor<$Cx$T>, tensor<$Cx$T>) -> "
       "(tensor<$Rx$Cx$T>, tensor<$Rx$T>, tensor<$Rx$T>)",
       "%y : tensor<$Rx$Cx$T>, %mean : tensor<$Rx$T>, %rstd : tensor<$Rx$T>"},
      kRows, kColumns);
}

TEST(RowSectors, LayerNormBackward) {
  std::string partial = "tensor<" + std::to_string(kFewRows / 64) + "x$Cx$T>";
  expectFewSectors(
      "layer_norm_grad with sums",
      {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, %m: tensor<$Rx$T>, "
       "%s: tensor<$Rx$T>, %dy: tensor<$Rx$Cx$T>, %skip: tensor<$Rx$Cx$T>",
       "%dx = kiln.layer_norm_grad %x, %g, %m, %s, %dy : (tensor<$Rx$Cx$T>, "
       "tensor<$Cx$T>, tensor<$Rx$T>, tensor<$Rx$T>, tensor<$Rx$Cx$T>) -> "
       "tensor<$Rx$Cx$T>\n"
       "%h = kiln.normalize %x, %m, %s : (tensor<$Rx$Cx$T>, "
       "tensor<$Rx$T>, tensor<$Rx$T>) -> tensor<$Rx$Cx$T>\n"
       "%t = kiln.mul %dy, %h : tensor<$Rx$Cx$T>\n"
       "%dg = kiln.reduce_partial %t chunk 64 : tensor<$Rx$Cx$T> to " +
           partial +
           "\n%db = kiln.reduce_partial %dy chunk 64 : tensor<$Rx$Cx$T> to " +
           partial + "\n%sum = kiln.add %skip, %dx : tensor<$Rx$Cx$T>",
       "%sum : tensor<$Rx$Cx$T>, %dg : " + partial + ", %db : " + partial},
      kFewRows, kColumns);
}

TEST(RowSectors, BiasGradient) {
  std::string partial = "tensor<" + std::to_string(kFewRows / 64) + "x$Cx$T>";
  expectFewSectors("reduce_partial",
                   {"%x: tensor<$Rx$Cx$T>",
                    "%y = kiln.reduce_partial %x chunk 64 : "
                    "tensor<$Rx$Cx$T> to " +
                        partial,
                    "%y : " + partial},
                   kFewRows, kColumns);
}

} // namespace
