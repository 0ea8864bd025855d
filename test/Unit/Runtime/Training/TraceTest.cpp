//===- TraceTest.cpp - Tests of Perfetto traces ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trace.h"

#include "kiln/Support/Json.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

TEST(TraceTest, IsJsonWithOneBarPerEvent) {
  TraceEvent event;
  event.name = "h.0 \"ln\"\n";
  event.category = "launch";
  event.startUs = 1.5;
  event.durationUs = 2.0;
  event.flops = 10;
  event.liveBytes = {{"activation", 64}, {"gradient", 32}};
  Result<nlohmann::json> parsed =
      parseJson(traceFile({traceOfRank("toy", 0, {event, event})}), "trace");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  int bars = 0, counters = 0, names = 0;
  for (const nlohmann::json &entry : (*parsed)["traceEvents"]) {
    bars += entry["ph"] == "X";
    counters += entry["ph"] == "C";
    names += entry["ph"] == "M";
  }
  EXPECT_EQ(bars, 2);
  EXPECT_EQ(counters, 2);
  EXPECT_EQ(names, 2);
  EXPECT_EQ((*parsed)["traceEvents"][0]["name"], event.name);
  EXPECT_EQ((*parsed)["traceEvents"][1]["args"]["gradient"], 32);
}

} // namespace
