//===- TrainingFactsTest.cpp - Derivation of training facts -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/TrainingFacts.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

using namespace kiln::abi;
using namespace kiln;
using namespace mlir;

namespace {

constexpr const char *matrix = "tensor<4x4xf32>", *vector = "tensor<4xf32>";

/// Returns the text of a momentum update of a parameter of type `type`.
std::string momentum(const char *type, const char *decay,
                     const char *nesterov = "") {
  static int names = 0;
  return llvm::formatv(
      "%p{0}, %b{0} = \"kiln.momentum\"(%{1}, %{1}, %{1}, %scalar, %scalar) "
      "{{mu = 9.0e-01, weight_decay = {2} : f64 {3}} : ({4}, {4}, {4}, "
      "tensor<f64>, tensor<f64>) -> ({4}, {4})\n",
      names++, type == matrix ? "matrix" : "vector", decay, nesterov, type);
}

TrainingInfo infoOf(const std::string &ops,
                    const std::string &attributes = "") {
  MLIRContext context;
  context.loadDialect<KilnDialect>();
  context.allowUnregisteredDialects();
  std::string text =
      "module attributes {" + attributes +
      "} {\n%matrix, %vector, %scalar, %rng = \"test.values\"() : () -> "
      "(tensor<4x4xf32>, tensor<4xf32>, tensor<f64>, tensor<1x3xi64>)\n" +
      ops + "}\n";
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  return module ? deriveTrainingInfo(*module) : TrainingInfo();
}

using Rules = std::vector<UpdateRule>;

UpdateRule momentumRule(double decay, const char *parameters) {
  return {"momentum", {{"momentum", 0.9}, {"weight_decay", decay}}, parameters};
}

TEST(TrainingFactsTest, DecayOfMatricesOrOfAll) {
  EXPECT_EQ(infoOf("").updates, Rules());
  EXPECT_EQ(infoOf(momentum(matrix, "0.5") + momentum(vector, "0.0")).updates,
            Rules{momentumRule(0.5, "matrices")});
  EXPECT_EQ(infoOf(momentum(matrix, "0.5")).updates,
            Rules{momentumRule(0.5, "matrices")});
  EXPECT_EQ(infoOf(momentum(vector, "0.0")).updates,
            Rules{momentumRule(0, "matrices")});
  EXPECT_EQ(infoOf(momentum(matrix, "0.5") + momentum(vector, "0.5")).updates,
            Rules{momentumRule(0.5, "all")});
  EXPECT_EQ(infoOf(momentum(vector, "0.5")).updates,
            Rules{momentumRule(0.5, "all")});
}

TEST(TrainingFactsTest, WhatNoFlagSaysIsListed) {
  EXPECT_EQ(infoOf(momentum(matrix, "0.5") + momentum(matrix, "0.25") +
                   momentum(vector, "0.0"))
                .updates,
            (Rules{momentumRule(0, "vectors"), momentumRule(0.25, "matrices"),
                   momentumRule(0.5, "matrices")}));
  Rules two =
      infoOf(momentum(matrix, "0.5") + momentum(matrix, "0.5", ", nesterov"))
          .updates;
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].optimizer, "momentum");
  EXPECT_EQ(two[1].optimizer, "nesterov");
}

TEST(TrainingFactsTest, DropoutAndLossyEncodings) {
  auto dropout = [](int key, const char *p) {
    return llvm::formatv("%d{0} = \"kiln.dropout\"(%matrix, %rng) {{p = {1} : "
                         "f64, key = {0} : i64, sequences = 1 : i64} : "
                         "(tensor<4x4xf32>, tensor<1x3xi64>) -> "
                         "tensor<4x4xf32>\n",
                         key, p)
        .str();
  };
  auto encoding = [](const char *as, const char *lossy) {
    return llvm::formatv(
               "#kiln.encoded<value = \"x\", as = \"{0}\", lossy = {1}, "
               "bytes = 8, encoded_bytes = 1>",
               as, lossy)
        .str();
  };
  TrainingInfo info =
      infoOf(dropout(1, "0.25") + dropout(2, "0.125") + dropout(3, "0.25"),
             "kiln.encoded = [" + encoding("fewbit:3", "true") + ", " +
                 encoding("mask", "false") + ", " +
                 encoding("fewbit:3", "true") + "]");
  EXPECT_EQ(info.dropout, (std::vector<double>{0.125, 0.25}));
  EXPECT_TRUE(info.attentionDropout.empty());
  EXPECT_EQ(info.lossy, (std::map<std::string, int64_t>{{"fewbit:3", 2}}));
}

} // namespace
