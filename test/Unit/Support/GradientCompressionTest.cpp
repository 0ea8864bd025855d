//===- GradientCompressionTest.cpp - Value of --compress-gradients --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/GradientCompression.h"

#include <gtest/gtest.h>

using namespace kiln::support;

namespace {

void expectScheme(const char *text, CompressionScheme scheme, int64_t size) {
  auto parsed = parseGradientCompression(text);
  ASSERT_TRUE(parsed.ok()) << text;
  EXPECT_EQ(parsed->scheme, scheme) << text;
  EXPECT_EQ(parsed->size, size) << text;
  EXPECT_EQ(parsed->text(), text);
}

TEST(GradientCompression, ParsesSchemesAndSizes) {
  EXPECT_FALSE(parseGradientCompression("")->any());
  expectScheme("int8", CompressionScheme::Int8, 0);
  expectScheme("powersgd:1", CompressionScheme::PowerSgd, 1);
  expectScheme("powersgd:64", CompressionScheme::PowerSgd, 64);
  expectScheme("gradzip:4", CompressionScheme::GradZip, 4);
  expectScheme("count-sketch:2", CompressionScheme::CountSketch, 2);
  expectScheme("count-sketch:256", CompressionScheme::CountSketch, 256);
}

TEST(GradientCompression, RefusesOtherTexts) {
  for (const char *text :
       {"powersgd", "powersgd:", "powersgd:0", "powersgd:65", "powersgd:-1",
        "powersgd:4x", "powersgd:99999999999999999999", "int8:1", ":4",
        "gradzip", "gradzip:65", "count-sketch", "count-sketch:1",
        "count-sketch:257", "sketch:4"}) {
    auto parsed = parseGradientCompression(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), ExitCode::Usage);
    EXPECT_EQ(parsed.status().message(),
              "is '" + std::string(text) +
                  "', expected one of int8, powersgd:N with N from 1 to 64, "
                  "gradzip:N with N from 1 to 64, count-sketch:N with N from 2 "
                  "to 256");
  }
}

TEST(GradientCompression, KnowsEncodingsOfGradients) {
  EXPECT_TRUE(isOfGradients("powersgd:4"));
  EXPECT_TRUE(isOfGradients("int8"));
  EXPECT_TRUE(isOfGradients("count-sketch:8"));
  EXPECT_FALSE(isOfGradients(""));
  EXPECT_FALSE(isOfGradients("fewbit:3"));
  EXPECT_FALSE(isOfGradients("q8"));
  EXPECT_TRUE(hasCompressionStates("gradzip:2"));
  EXPECT_FALSE(hasCompressionStates("int8"));
}

TEST(GradientCompression, KnowsSlots) {
  EXPECT_TRUE(isCompressionSlot("row_basis"));
  EXPECT_FALSE(isCompressionSlot("m"));
}

} // namespace
