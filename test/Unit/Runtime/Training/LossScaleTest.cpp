//===- LossScaleTest.cpp - Dynamic loss scaling ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Training/LossScale.h"

#include <gtest/gtest.h>
#include <limits>

using namespace kiln::runtime;
using namespace kiln::support;

namespace {

TEST(LossScaleTest, ParsesAndPrintsOptions) {
  auto options = LossScaleOptions::parse("1024");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->print(), "1024,window=2000,skips=20");
  options = LossScaleOptions::parse("4294967296,skips=3,window=7");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->print(), "4294967296,window=7,skips=3");
}

TEST(LossScaleTest, RejectsOtherText) {
  for (const char *text :
       {"", "3", "0.5", "0", "-2", "8589934592", "nan", "inf", "x", "1024,",
        "window=3", "1024,window", "1024,window=0", "1024,window=x",
        "1024,skips=-1", "1024,growth=2", "1024,window=2,window=3",
        "1024,window=99999999999999999999"})
    EXPECT_FALSE(LossScaleOptions::parse(text).ok()) << text;
  EXPECT_EQ(LossScaleOptions::parse("1000").status().message(),
            "contains '1000', expected the scale first, a power of two from 1 "
            "to 4294967296; an example is 65536,window=2000,skips=20");
  EXPECT_EQ(LossScaleOptions::parse("1024,wide=2").status().message(),
            "contains 'wide=2', expected window=N or skips=N with N of at "
            "least 1");
}

TEST(LossScaleTest, HalvesAfterAnOverflowAndDoublesAfterAWindow) {
  LossScaleOptions options;
  options.window = 3;
  LossScale scale{1024};
  scale.advance(true, options);
  scale.advance(true, options);
  EXPECT_EQ(scale.scale, 1024);
  scale.advance(false, options);
  EXPECT_EQ(scale, (LossScale{512, 0, 1, 1}));
  for (int i = 0; i < 2; ++i)
    scale.advance(true, options);
  EXPECT_EQ(scale, (LossScale{512, 2, 1, 0}));
  scale.advance(true, options);
  EXPECT_EQ(scale, (LossScale{1024, 0, 1, 0}));
}

TEST(LossScaleTest, StaysWithinItsLimits) {
  LossScaleOptions options;
  options.window = 1;
  LossScale scale{LossScale::largest};
  scale.advance(true, options);
  EXPECT_EQ(scale.scale, LossScale::largest);
  scale.scale = LossScale::smallest;
  scale.advance(false, options);
  EXPECT_EQ(scale.scale, LossScale::smallest);
  EXPECT_TRUE(isLossScale(1));
  EXPECT_FALSE(isLossScale(1.5));
  EXPECT_FALSE(isLossScale(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(isLossScale(std::numeric_limits<double>::quiet_NaN()));
}

} // namespace
