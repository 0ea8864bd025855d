//===- CpuFeaturesTest.cpp - Tests of CPU feature checks ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuFeatures.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

const char *cpuinfo = "processor\t: 0\n"
                      "model name\t: Test CPU\n"
                      "flags\t\t: fpu sse2 pni sse4_2 avx2 avx512_vnni abm\n";

TargetInfo target(std::vector<std::string> features) {
  TargetInfo target;
  target.cpu = "sapphirerapids";
  target.features = std::move(features);
  return target;
}

TEST(CpuFeaturesTest, AcceptsWhatIsThereUnderEitherName) {
  EXPECT_TRUE(checkCpuFeatures(target({"sse2", "sse3", "sse4.2", "+avx2",
                                       "avx512vnni", "lzcnt"}),
                               cpuinfo)
                  .ok());
}

TEST(CpuFeaturesTest, NamesWhatIsMissing) {
  Status status =
      checkCpuFeatures(target({"avx2", "avx512f", "amx-tile"}), cpuinfo);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message(),
            "this CPU (Test CPU) lacks avx512f, amx-tile, which the kernels "
            "use (compiled for sapphirerapids); compile again on this machine, "
            "or for this CPU with --mcpu=NAME");
}

TEST(CpuFeaturesTest, SkipsFeaturesThatAreOffOrNotListedByLinux) {
  EXPECT_TRUE(
      checkCpuFeatures(target({"-avx512f", "64bit", "kl"}), cpuinfo).ok());
  // LLVM lists these for Granite Rapids and Sierra Forest.
  EXPECT_TRUE(checkCpuFeatures(target({"amx-fp16", "avxifma", "avxvnniint8",
                                       "avxneconvert", "avx10.1-512"}),
                               cpuinfo)
                  .ok());
}

TEST(CpuFeaturesTest, RefusesNothingItCannotCheck) {
  EXPECT_TRUE(checkCpuFeatures(target({"avx512f"}), "").ok());
  EXPECT_TRUE(checkCpuFeatures(target({"sse2"}), readCpuInfo()).ok());
}

} // namespace
