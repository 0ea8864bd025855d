//===- ReportTest.cpp - Tests of the judgement of differences -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

Finding finding(ElementType type, double difference, double sensitivity) {
  Finding finding;
  finding.tensor = {"x", "buffer", type, {4}};
  finding.difference.elements = 4;
  finding.difference.different = 1;
  finding.difference.first = 0;
  finding.difference.norm = difference;
  finding.difference.normA = finding.difference.normB = 1;
  finding.rounding = {infoOf(type).spacingAtOne, 4, 1, sensitivity};
  return finding;
}

TEST(ReportTest, FloatsAreExplainedUpToTheBound) {
  EXPECT_TRUE(finding(ElementType::F32, 0.5, 0.1).explained());
  EXPECT_FALSE(finding(ElementType::F32, 0.5, 0.01).explained());
  EXPECT_TRUE(finding(ElementType::F32, 0, 0).explained());
}

TEST(ReportTest, IntegersAreNeverExplained) {
  // The perturbed step may change an integer, so the sensitivity is not 0.
  StepFindings findings;
  findings.step = 1;
  findings.compared = 1;
  findings.tensors.push_back(finding(ElementType::I32, 1, 1));
  EXPECT_FALSE(findings.tensors.front().explained());
  EXPECT_FALSE(findings.explained());
  EXPECT_NE(reportOf(findings).find("not explained by rounding: initial values "
                                    "and integers are not rounded"),
            std::string::npos);
}

} // namespace
