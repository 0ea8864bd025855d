//===- ImagesTest.cpp - Tests of the selection of machine code ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Images.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::cuda;

namespace {

/// Returns the selected images, such as "90 80p" for machine code for 9.0, then
/// PTX for 8.0.
std::string chosen(const std::vector<GpuImage> &images, int64_t architecture) {
  std::string text;
  for (const GpuImage *image :
       suitableImages({images.data(), int64_t(images.size())}, architecture))
    text += (text.empty() ? "" : " ") + std::to_string(image->architecture) +
            (image->isPtx ? "p" : "");
  return text;
}

TEST(ImagesTest, MachineCodeIsForItsMajorVersion) {
  std::vector<GpuImage> images = {
      {80, 1, "", 0}, {80, 0, "", 0}, {86, 0, "", 0}, {90, 0, "", 0}};
  EXPECT_EQ(chosen(images, 75), "");
  EXPECT_EQ(chosen(images, 80), "80 80p");
  EXPECT_EQ(chosen(images, 86), "86 80 80p");
  EXPECT_EQ(chosen(images, 89), "86 80 80p");
  EXPECT_EQ(chosen(images, 90), "90 80p");
  EXPECT_EQ(chosen(images, 100), "80p");
  EXPECT_EQ(chosen(images, 120), "80p");
}

TEST(ImagesTest, NewestPtxFirst) {
  EXPECT_EQ(chosen({{80, 1, "", 0}, {90, 1, "", 0}}, 100), "90p 80p");
  EXPECT_EQ(chosen({}, 90), "");
}

} // namespace
