//===- ReferenceTest.cpp - Ops at points with known values ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient checks verify that derivatives agree with values. These tests
// verify the values: they compare them with numbers that were computed by hand
// or published.
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;

using Doubles = std::vector<double>;

static void expectNear(const Doubles &found, const Doubles &expected,
                       double tolerance = 1e-12) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance) << "element " << i;
}

/// Returns the results of one op in f64. They are empty after a test failure.
static std::vector<Doubles> evaluate(const std::string &op,
                                     const std::string &properties,
                                     const std::vector<std::string> &operands,
                                     const std::vector<std::string> &results,
                                     const std::vector<Doubles> &values) {
  std::vector<unsigned> all(results.size());
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = i;
  std::string text = programOf(op, properties, operands, results, all);
  auto found = evaluateOp(text, values);
  EXPECT_EQ(found.size(), results.size()) << text;
  found.resize(results.size());
  return found;
}

TEST(Reference, Activations) {
  // gelu(x) is x * P(X <= x) for a standard normal X, and silu(x) is x / (1 +
  // exp(-x)).
  expectNear(evaluate("kiln.gelu", "", {"3xf32"}, {"3xf32"}, {{-1, 0, 1}})[0],
             {-0.15865525393145707, 0, 0.8413447460685429});
  expectNear(
      evaluate("kiln.gelu", "tanh", {"3xf32"}, {"3xf32"}, {{-1, 0, 1}})[0],
      {0.5 * -1 * (1 + std::tanh(-std::sqrt(2 / M_PI) * 1.044715)), 0,
       0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * 1.044715))});
  expectNear(evaluate("kiln.silu", "", {"2xf32"}, {"2xf32"}, {{-1, 2}})[0],
             {-0.2689414213699951, 1.7615941559557649});
  expectNear(
      evaluate("kiln.swiglu", "", {"1xf32", "1xf32"}, {"1xf32"}, {{2}, {3}})[0],
      {3 * 1.7615941559557649});
  Doubles relu =
      evaluate("kiln.relu", "", {"3xf32"}, {"3xf32"}, {{-1, NAN, 2}})[0];
  EXPECT_EQ(relu[0], 0);
  EXPECT_TRUE(std::isnan(relu[1]));
  EXPECT_EQ(relu[2], 2);
}

TEST(Reference, Softplus) {
  // The first two results are log 2 and log(1 + e). For the other arguments,
  // one term of 1 + exp(x) is negligible.
  expectNear(evaluate("kiln.softplus", "", {"5xf32"}, {"5xf32"},
                      {{0, 1, 40, 1000, -1000}})[0],
             {0.6931471805599453, 1.3132616875182228, 40, 1000, 0});
  double small =
      evaluate("kiln.softplus", "", {"1xf32"}, {"1xf32"}, {{-50}})[0][0];
  EXPECT_NEAR(small / 1.928749847963918e-22, 1, 1e-14);
  EXPECT_TRUE(std::isnan(
      evaluate("kiln.softplus", "", {"1xf32"}, {"1xf32"}, {{NAN}})[0][0]));
}

TEST(Reference, Cumsum) {
  Doubles x = {1, 2, 3, -4, 5, 6};
  expectNear(evaluate("kiln.cumsum", "", {"2x3xf32"}, {"2x3xf32"}, {x})[0],
             {1, 3, 6, -4, 1, 7});
  expectNear(
      evaluate("kiln.cumsum", "reverse", {"2x3xf32"}, {"2x3xf32"}, {x})[0],
      {6, 5, 3, 7, 11, 6});
}

TEST(Reference, DerivativesOfActivationsAreFiniteEverywhere) {
  Doubles far = {-1e30, -1e4, 1e4, 1e30};
  for (const char *op : {"kiln.gelu_grad", "kiln.silu_grad"})
    expectNear(
        evaluate(op, "", {"4xf32", "4xf32"}, {"4xf32"}, {far, {1, 1, 1, 1}})[0],
        {0, 0, 1, 1});
  expectNear(evaluate("kiln.gelu_grad", "tanh", {"4xf32", "4xf32"}, {"4xf32"},
                      {far, {1, 1, 1, 1}})[0],
             {0, 0, 1, 1});
}

TEST(Reference, ScaleRoundsItsFactorToTheElementType) {
  std::string text =
      programOf("kiln.scale", "factor = 0.1", {"1xf32"}, {"1xf32"});
  EXPECT_EQ(evaluateOp(text, {{1e9}}, EvalType::F64)[0][0], 0.1 * 1e9);
  EXPECT_EQ(evaluateOp(text, {{3}}, EvalType::Own)[0][0],
            static_cast<double>(static_cast<float>(0.1f * 3.0)));
}

TEST(Reference, BucketDecodeRoundsItsLevelsToTheElementType) {
  // The byte 1 contains the codes 1 (level 0.1) and 0 (level 1e-60). In f32,
  // 0.1 is rounded and 1e-60 becomes 0.
  std::string text =
      programOf("kiln.bucket_decode", "levels = array<f64: 1.0e-60, 0.1>",
                {"1xi8", "2xf32"}, {"2xf32"});
  EXPECT_EQ(evaluateOp(text, {{1}, {1e9, INFINITY}}, EvalType::F64)[0],
            (Doubles{0.1 * 1e9, INFINITY}));
  EXPECT_EQ(evaluateOp(text, {{1}, {3, INFINITY}}, EvalType::Own)[0],
            (Doubles{static_cast<double>(static_cast<float>(0.1f * 3.0)), 0}));
}

TEST(Reference, CodesOfBlocks) {
  // Blocks have 4 elements. The scale of the first block is 254 / 127 = 2, so
  // -1 and 3 are halfway between two codes. The second block is zero.
  Doubles x = {254, -1, 3, -254, 0, 0, 0, 0};
  Doubles scales =
      evaluate("kiln.block_scales", "bits = 8", {"8xf32"}, {"2xf32"}, {x})[0];
  EXPECT_EQ(scales, (Doubles{2, 0x1p-126}));
  Doubles codes = evaluate("kiln.block_encode", "", {"8xf32", "2xf32"},
                           {"8xi8"}, {x, scales})[0];
  EXPECT_EQ(codes, (Doubles{127, 0, 2, -127, 0, 0, 0, 0}));
  EXPECT_EQ(evaluate("kiln.block_decode", "", {"8xi8", "2xf32"}, {"8xf32"},
                     {codes, scales})[0],
            (Doubles{254, 0, 4, -254, 0, 0, 0, 0}));
  // Two tensors of one block each, with the scales 2 and 1. If two elements at
  // the same position have the codes a and b, their byte is a + 16 * b.
  codes =
      evaluate("kiln.block_encode", "", {"4xf32", "4xf32", "1xf32", "1xf32"},
               {"4xi8"}, {{14, -14, 1, 8}, {-7, 7, 3, -1}, {2}, {1}})[0];
  EXPECT_EQ(codes, (Doubles{7 - 112, -7 + 112, 48, 4 - 16}));
  EXPECT_EQ(evaluate("kiln.block_decode", "", {"4xi8", "2xf32"}, {"8xf32"},
                     {codes, {2, 1}})[0],
            (Doubles{14, -14, 0, 8, -7, 7, 3, -1}));
  // If an element of a block is not finite, every element of the block is
  // decoded to a number that is not finite.
  x = {1, NAN, 0, 2, -INFINITY, 1, 2, 3};
  scales =
      evaluate("kiln.block_scales", "bits = 4", {"8xf32"}, {"2xf32"}, {x})[0];
  EXPECT_EQ(scales, (Doubles{INFINITY, INFINITY}));
  codes = evaluate("kiln.block_encode", "", {"8xf32", "2xf32"}, {"8xi8"},
                   {x, scales})[0];
  Doubles decoded = evaluate("kiln.block_decode", "", {"8xi8", "2xf32"},
                             {"8xf32"}, {codes, scales})[0];
  for (double y : decoded)
    EXPECT_FALSE(std::isfinite(y));
}

TEST(Reference, Norms) {
  // The mean is 2.5 and the variance is 1.25.
  double rstd = 1 / std::sqrt(1.25);
  auto norm =
      evaluate("kiln.layer_norm", "eps = 0.0", {"1x4xf32", "4xf32", "4xf32"},
               {"1x4xf32", "1xf32", "1xf32"},
               {{1, 2, 3, 4}, {1, 1, 2, 1}, {0, 0, 0, 5}});
  expectNear(norm[0],
             {-1.5 * rstd, -0.5 * rstd, 2 * 0.5 * rstd, 1.5 * rstd + 5});
  expectNear(norm[1], {2.5});
  expectNear(norm[2], {rstd});
  auto rms = evaluate("kiln.rms_norm", "eps = 0.5", {"1x2xf32", "2xf32"},
                      {"1x2xf32", "1xf32"}, {{3, 4}, {1, 10}});
  expectNear(rms[1], {1 / std::sqrt(13.0)});
  expectNear(rms[0], {3 / std::sqrt(13.0), 40 / std::sqrt(13.0)});
}

TEST(Reference, SoftmaxOfLargeValues) {
  expectNear(evaluate("kiln.softmax", "", {"2x2xf32"}, {"2x2xf32"},
                      {{1e4, 1e4, -1e4, 1e4}})[0],
             {0.5, 0.5, 0, 1});
}

TEST(Reference, CrossEntropyIgnoresMinusHundred) {
  Doubles logits = {0, std::log(3), 7, 7, 1e4, 0};
  double first = std::log(4.0 / 3);
  auto rows =
      evaluate("kiln.softmax_cross_entropy", "", {"3x2xf32", "3xi32", "f64"},
               {"3xf32", "3x2xf32"}, {logits, {1, -100, 1}, {0.5}});
  expectNear(rows[0], {first, 0, 1e4});
  expectNear(rows[1], {0.125, -0.125, 0, 0, 0.5, -0.5});
  auto both =
      evaluate("kiln.cross_entropy_with_grad", "", {"3x2xf32", "3xi32", "f64"},
               {"f64", "3x2xf32"}, {logits, {1, -100, 1}, {0.5}});
  expectNear(both[0], {0.5 * (first + 1e4)});
  expectNear(both[1], rows[1]);
  // The operand 'hidden' is `logits` and the weight is the identity matrix, so
  // hidden * weight^T equals `logits`.
  auto head = evaluate("kiln.linear_cross_entropy_with_grad",
                       "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>",
                       {"3x2xf32", "2x2xf32", "3xi32", "f64"},
                       {"f64", "3x2xf32", "2x2xf32"},
                       {logits, {1, 0, 0, 1}, {1, -100, 1}, {0.5}});
  expectNear(head[0], both[0]);
  expectNear(head[1], rows[1]);
  // A cotangent scales the gradients, but not the loss.
  auto scaled = evaluate("kiln.cross_entropy_with_grad", "",
                         {"3x2xf32", "3xi32", "f64", "f64"}, {"f64", "3x2xf32"},
                         {logits, {1, -100, 1}, {0.5}, {8}});
  expectNear(scaled[0], both[0]);
  expectNear(scaled[1], {1, -1, 0, 0, 4, -4});
  auto scaledHead = evaluate("kiln.linear_cross_entropy_with_grad",
                             "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, "
                             "0>",
                             {"3x2xf32", "2x2xf32", "3xi32", "f64", "f64"},
                             {"f64", "3x2xf32", "2x2xf32"},
                             {logits, {1, 0, 0, 1}, {1, -100, 1}, {0.5}, {8}});
  expectNear(scaledHead[0], both[0]);
  expectNear(scaledHead[1], scaled[1]);
  for (size_t i = 0; i < head[2].size(); ++i)
    EXPECT_NEAR(scaledHead[2][i], 8 * head[2][i], 1e-8);
}

TEST(Reference, AttentionWeighsVisibleKeys) {
  // Equal scores give the mean of the visible values. Two query heads share a
  // key head.
  auto result = evaluate(
      "kiln.attention",
      "sequences = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, scale = 1.0, "
      "causal",
      {"3x2xf32", "3x1xf32", "3x1xf32"}, {"3x2xf32", "2x3xf32"},
      {{0, 1, 0, 1, 0, 1}, {5, 5, 5}, {3, 6, 12}});
  expectNear(result[0], {3, 3, 4.5, 4.5, 7, 7});
  expectNear(result[1], {0, std::log(2.0), std::log(3.0), 5, 5 + std::log(2.0),
                         5 + std::log(3.0)});
}

TEST(Reference, RopeTurnsPairsOfAHead) {
  // The tables rotate elements 0 and 2 of each row at position 1 by 90 degrees,
  // and leave all other elements unchanged. There are two sequences of two
  // rows, and one head of width 4.
  Doubles cos = {1, 1, 0, 1}, sin = {0, 0, 1, 0};
  Doubles x = {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8};
  auto forward = evaluate("kiln.rope", "heads = 1 : i64, sequences = 2 : i64",
                          {"4x4xf32", "2x2xf32", "2x2xf32"}, {"4x4xf32"},
                          {x, cos, sin})[0];
  expectNear(forward, {1, 2, 3, 4, -3, 2, 1, 4, 5, 6, 7, 8, -7, 6, 5, 8});
  expectNear(evaluate("kiln.rope",
                      "heads = 1 : i64, sequences = 2 : i64, inverse",
                      {"4x4xf32", "2x2xf32", "2x2xf32"}, {"4x4xf32"},
                      {forward, cos, sin})[0],
             x);
}

/// Returns the dropout mask of two sequences of two rows each, as 0 and 1. The
/// first sequence has index `first`.
static Doubles dropout(int64_t seed, int64_t step, int64_t first,
                       int64_t key = 3) {
  return evaluate(
      "kiln.dropout",
      "p = 0.25, key = " + std::to_string(key) + " : i64, sequences = 2 : i64",
      {"4x200xf32", "1x3xi64"}, {"4x200xf32"},
      {Doubles(800, 0.75), {double(seed), double(step), double(first)}})[0];
}

TEST(Reference, DropoutDependsOnWhatItIsKeyedBy) {
  Doubles mask = dropout(1, 1, 0);
  int64_t kept = 0;
  for (double element : mask) {
    EXPECT_TRUE(element == 0 || element == 1);
    kept += element == 1;
  }
  EXPECT_NEAR(kept, 600, 50); // 50 is four standard deviations.
  EXPECT_EQ(mask, dropout(1, 1, 0));
  EXPECT_NE(mask, dropout(2, 1, 0));
  EXPECT_NE(mask, dropout(1, 2, 0));
  EXPECT_NE(mask, dropout(1, 1, 0, 4));
  // The second sequence of `mask` is the first sequence of `later`, so it has
  // the same mask in both.
  Doubles later = dropout(1, 1, 1);
  EXPECT_EQ(Doubles(mask.begin() + 400, mask.end()),
            Doubles(later.begin(), later.begin() + 400));
}

TEST(Reference, EmbeddingGradAddsRepeatedTokens) {
  EXPECT_EQ(evaluate("kiln.embedding_grad", "", {"3xi32", "3x2xf32", "2x2xf32"},
                     {"2x2xf32"},
                     {{1, 0, 1}, {1, 2, 3, 4, 5, 6}, {10, 20, 30, 40}})[0],
            (Doubles{13, 24, 36, 48}));
}

TEST(Reference, EmbeddingGradSkipsThePaddingIndex) {
  EXPECT_EQ(evaluate("kiln.embedding_grad", "padding_index = 1 : i64",
                     {"3xi32", "3x2xf32"}, {"2x2xf32"},
                     {{1, 0, 1}, {1, 2, 3, 4, 5, 6}})[0],
            (Doubles{3, 4, 0, 0}));
  EXPECT_EQ(evaluate("kiln.embedding_grad", "padding_index = 1 : i64",
                     {"3xi32", "3x2xf32", "2x2xf32"}, {"2x2xf32"},
                     {{1, 0, 1}, {1, 2, 3, 4, 5, 6}, {10, 20, 30, 40}})[0],
            (Doubles{13, 24, 30, 40}));
  EXPECT_EQ(evaluate("kiln.embedding", "padding_index = 1 : i64",
                     {"2xi32", "2x2xf32"}, {"2x2xf32"},
                     {{1, 0}, {1, 2, 3, 4}})[0],
            (Doubles{3, 4, 1, 2}));
}

TEST(Reference, ReductionsInParts) {
  Doubles x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  Doubles parts = evaluate("kiln.reduce_partial", "chunk = 2 : i64",
                           {"5x2xf32"}, {"3x2xf32"}, {x})[0];
  EXPECT_EQ(parts, (Doubles{4, 6, 12, 14, 9, 10}));
  EXPECT_EQ(evaluate("kiln.reduce_combine", "", {"3x2xf32", "2xf32"}, {"2xf32"},
                     {parts, {100, 200}})[0],
            (Doubles{125, 230}));
  EXPECT_EQ(evaluate("kiln.sum_squares", "", {"2x2xf32"}, {"2xf64"},
                     {{1, 2, 3, 4}})[0],
            (Doubles{5, 25}));
  EXPECT_EQ(evaluate("kiln.scaled_total", "", {"4xf32", "f64"}, {"f64"},
                     {{1, 2, 3, 4}, {0.5}})[0],
            (Doubles{5}));
}

TEST(Reference, ClipFactorOnlyShrinks) {
  auto clip = [](double threshold) {
    return evaluate("kiln.clip_factor", "", {"2xf64", "f64"}, {"f64", "f64"},
                    {{9, 16}, {threshold}});
  };
  expectNear(clip(1)[0], {1 / (5 + 1e-6)});
  expectNear(clip(1)[1], {5});
  EXPECT_EQ(clip(6)[0], (Doubles{1}));
  EXPECT_EQ(clip(0)[0], (Doubles{1}));
}

TEST(Reference, ClipFactorUnscalesGradients) {
  auto clip = [](double square, double threshold) {
    return evaluate("kiln.clip_factor", "", {"2xf64", "f64", "f64"},
                    {"f64", "f64", "i64"},
                    {{9 * 64, square}, {threshold}, {8}});
  };
  expectNear(clip(16 * 64, 1)[0], {1 / (5 + 1e-6) / 8});
  expectNear(clip(16 * 64, 1)[1], {5});
  EXPECT_EQ(clip(16 * 64, 0)[0], (Doubles{1.0 / 8}));
  EXPECT_EQ(clip(16 * 64, 0)[2], (Doubles{1}));
  EXPECT_EQ(clip(HUGE_VAL, 1)[2], (Doubles{0}));
  EXPECT_EQ(clip(std::nan(""), 1)[2], (Doubles{0}));
}

/// The rules are published (Kingma and Ba, 2015; Loshchilov and Hutter, 2019):
/// after the first step, the moments m and v satisfy m/(1-b1) = g' and v/(1-b2)
/// = g'^2, where g' is the scaled gradient.
TEST(Reference, AdamFirstStepMovesByTheRate) {
  auto step = [](const char *decoupled) {
    return evaluate("kiln.adam",
                    std::string("beta1 = 0.9, beta2 = 0.99, eps = 0.0, "
                                "weight_decay = 0.5") +
                        decoupled,
                    {"1xf32", "1xf32", "1xf32", "1xf32", "f64", "f64", "i64"},
                    {"1xf32", "1xf32", "1xf32"},
                    {{2}, {0}, {0}, {8}, {0.5}, {0.1}, {1}});
  };
  // The scaled gradient g' is 0.5 * 8 = 4, and the decay multiplies the
  // parameter by 1 - 0.1 * 0.5.
  auto adamw = step(", decoupled");
  expectNear(adamw[0], {2 * 0.95 - 0.1});
  expectNear(adamw[1], {0.4});
  expectNear(adamw[2], {0.16});
  // Without `decoupled`, the decay is added to the gradient: g' = 4 + 0.5 * 2.
  auto adam = step("");
  expectNear(adam[0], {2 - 0.1});
  expectNear(adam[1], {0.5});
  expectNear(adam[2], {0.25});
}

TEST(Reference, AdamCorrectsItsBiasByTheStep) {
  auto third = evaluate(
      "kiln.adam",
      "beta1 = 0.5, beta2 = 0.75, eps = 1.0, weight_decay = 0.0, decoupled",
      {"1xf32", "1xf32", "1xf32", "1xf32", "f64", "f64", "i64"},
      {"1xf32", "1xf32", "1xf32"}, {{1}, {2}, {4}, {6}, {1}, {0.1}, {3}});
  double m = 0.5 * 2 + 0.5 * 6, v = 0.75 * 4 + 0.25 * 36;
  double corrected = m / (1 - 0.125), root = std::sqrt(v / (1 - 0.421875));
  expectNear(third[0], {1 - 0.1 * corrected / (root + 1)});
}

TEST(Reference, LionMovesByTheSign) {
  auto step = [](double gradient) {
    return evaluate("kiln.lion",
                    "beta1 = 0.75, beta2 = 0.5, weight_decay = 0.5",
                    {"1xf32", "1xf32", "1xf32", "f64", "f64"},
                    {"1xf32", "1xf32"}, {{2}, {4}, {gradient}, {0.5}, {0.1}});
  };
  // The update has the sign of 0.75 * 4 + 0.25 * g', where g' is half the
  // gradient. For the gradients 16, -32 and -24, this sum is 5, -1 and 0.
  expectNear(step(16)[0], {2 * 0.95 - 0.1});
  expectNear(step(16)[1], {6});
  expectNear(step(-32)[0], {2 * 0.95 + 0.1});
  expectNear(step(-32)[1], {-6});
  expectNear(step(-24)[0], {2 * 0.95});
}

TEST(Reference, ASkippedStepKeepsAll) {
  auto step = [](double apply) {
    return evaluate("kiln.momentum", "mu = 0.5, weight_decay = 0.0",
                    {"1xf32", "1xf32", "1xf32", "f64", "f64", "i64"},
                    {"1xf32", "1xf32"}, {{2}, {4}, {3}, {2}, {0.1}, {apply}});
  };
  expectNear(step(0)[0], {2});
  expectNear(step(0)[1], {4});
  expectNear(step(1)[0], {2 - 0.1 * 8});
}

TEST(Reference, CopiesAreRoundedFromTheStoredParameter) {
  // The updated parameter is 1 + 2^-11 + 2^-26. The op rounds the copy to f32,
  // the type of the parameter, which gives 1 + 2^-11. The caller then rounds it
  // to f16. Because 1 + 2^-11 is halfway between two f16 numbers, rounding the
  // parameter directly to f16 would give another number.
  auto updated = evaluate("kiln.sgd", "weight_decay = 0.0",
                          {"1xf32", "1xf32", "f64", "f64"}, {"1xf32", "1xf16"},
                          {{1}, {0x1p-11 + 0x1p-26}, {1}, {-1}});
  EXPECT_EQ(updated[0], (Doubles{1 + 0x1p-11 + 0x1p-26}));
  EXPECT_EQ(updated[1], (Doubles{1 + 0x1p-11}));
}

TEST(Reference, GradientDescent) {
  expectNear(evaluate("kiln.sgd", "weight_decay = 0.5",
                      {"1xf32", "1xf32", "f64", "f64"}, {"1xf32"},
                      {{2}, {3}, {2}, {0.1}})[0],
             {2 - 0.1 * (6 + 1)});
  auto momentum = [](const char *nesterov) {
    return evaluate("kiln.momentum",
                    std::string("mu = 0.5, weight_decay = 0.0") + nesterov,
                    {"1xf32", "1xf32", "1xf32", "f64", "f64"},
                    {"1xf32", "1xf32"}, {{2}, {4}, {3}, {2}, {0.1}});
  };
  expectNear(momentum("")[0], {2 - 0.1 * 8});
  expectNear(momentum("")[1], {8});
  expectNear(momentum(", nesterov")[0], {2 - 0.1 * (6 + 0.5 * 8)});
}

TEST(Reference, SelectRowAndItsBounds) {
  std::vector<std::string> operands = {"2x2xf32", "i64"}, results = {"1x2xf32"};
  EXPECT_EQ(evaluate("kiln.select_row", "", operands, results,
                     {{1, 2, 3, 4}, {1}})[0],
            (Doubles{3, 4}));
  for (double outside : {-1.0, 2.0})
    EXPECT_TRUE(evaluateOp(programOf("kiln.select_row", "", operands, results),
                           {{1, 2, 3, 4}, {outside}})
                    .empty());
}

TEST(Reference, IndexesFromDataAreChecked) {
  EXPECT_TRUE(evaluateOp(programOf("kiln.embedding", "", {"1xi32", "2x2xf32"},
                                   {"1x2xf32"}),
                         {{2}, {1, 2, 3, 4}})
                  .empty());
  for (double target : {-1.0, 3.0})
    EXPECT_TRUE(evaluateOp(programOf("kiln.cross_entropy", "",
                                     {"1x3xf32", "1xi32", "f64"}, {"f64"}),
                           {{1, 2, 3}, {target}, {1}})
                    .empty());
}
