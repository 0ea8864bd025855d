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

TEST(GradientCompression, ParsesRanks) {
  EXPECT_FALSE(parseGradientCompression("")->any());
  EXPECT_TRUE(parseGradientCompression("int8")->isInt8);
  EXPECT_EQ(parseGradientCompression("powersgd:1")->rank, 1);
  EXPECT_EQ(parseGradientCompression("powersgd:64")->rank, 64);
}

TEST(GradientCompression, RefusesOtherTexts) {
  for (const char *text :
       {"powersgd", "powersgd:", "powersgd:0", "powersgd:65", "powersgd:-1",
        "powersgd:4x", "powersgd:99999999999999999999", "int8:1", ":4"}) {
    auto parsed = parseGradientCompression(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), ExitCode::Usage);
    EXPECT_EQ(parsed.status().message(),
              "is '" + std::string(text) +
                  "', expected int8, or powersgd:R with a rank R from 1 to 64, "
                  "such as "
                  "powersgd:4");
  }
}

TEST(GradientCompression, KnowsEncodingsOfGradients) {
  EXPECT_TRUE(isOfGradients("powersgd:4"));
  EXPECT_TRUE(isOfGradients("int8"));
  EXPECT_FALSE(isOfGradients("fewbit:3"));
  EXPECT_FALSE(isOfGradients("q8"));
}

} // namespace
