//===- WeightEncodingTest.cpp - Encodings of frozen weights ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/WeightEncoding.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::support;

namespace {

std::string errorOf(std::string_view text) {
  Result<WeightEncodingChoice> choice = parseWeightEncoding(text);
  if (choice.ok())
    return "";
  EXPECT_EQ(choice.status().code(), ExitCode::Usage);
  return choice.status().message();
}

void expectChoice(std::string_view text, bool isInt8, int64_t outliers,
                  bool rowScales) {
  SCOPED_TRACE(text);
  Result<WeightEncodingChoice> choice = parseWeightEncoding(text);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->isInt8, isInt8);
  EXPECT_EQ(choice->outliers, outliers);
  EXPECT_EQ(choice->rowScales, rowScales);
}

TEST(WeightEncoding, Choices) {
  expectChoice("nf4", false, 0, false);
  expectChoice("int8", true, 0, false);
  expectChoice("int8:outliers=4", true, 4, false);
  expectChoice("int8:scales=row,outliers=16", true, 16, true);
  expectChoice("int8:outliers=0,scales=block", true, 0, false);
}

TEST(WeightEncoding, Errors) {
  EXPECT_EQ(errorOf("int3"), "is 'int3', expected nf4 or int8");
  EXPECT_EQ(errorOf(""), "is '', expected nf4 or int8");
  EXPECT_EQ(errorOf("nf4:outliers=1"),
            "is 'nf4:outliers=1', but nf4 has no options; int8 has outliers=N "
            "and scales=block|row");
  EXPECT_EQ(errorOf("int8:columns=1"), "has 'columns=1', expected outliers=N, "
                                       "scales=block or scales=row");
  EXPECT_EQ(errorOf("int8:"),
            "has '', expected outliers=N, scales=block or scales=row");
  for (const char *value : {"", "-1", "4x", "99999999999999999999"})
    EXPECT_EQ(errorOf("int8:outliers=" + std::string(value)),
              "has 'outliers=" + std::string(value) +
                  "', expected outliers=N with an integer N of at least 0");
  EXPECT_EQ(errorOf("int8:scales=column"),
            "has 'scales=column', expected scales=block or scales=row");
  EXPECT_EQ(errorOf("int8:outliers=1,outliers=2"),
            "has 'outliers' twice, expected it once");
}

TEST(WeightEncoding, Layouts) {
  WeightLayout nf4 = Nf4Layout(64), int8 = Int8Layout(8, 8, {});
  EXPECT_EQ(bytesOf(nf4), 44);
  EXPECT_EQ(bytesOf(int8), 68);
}

} // namespace
