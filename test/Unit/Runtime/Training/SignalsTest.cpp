//===- SignalsTest.cpp - Tests of stop signals ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Process.h"

#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace kiln::support;
using namespace kiln;

namespace {

TEST(SignalsDeathTest, FirstSignalAsksTheSecondInterruptEnds) {
  EXPECT_EXIT(
      {
        // Restore the default action: if a shell without job control runs this
        // test in the background, SIGINT is ignored.
        std::signal(SIGINT, SIG_DFL);
        installStopSignals();
        if (stopRequested())
          std::exit(1);
        std::raise(SIGTERM);
        std::raise(SIGTERM);
        std::raise(SIGINT);
        if (!stopRequested())
          std::exit(2);
        std::raise(SIGINT);
        std::exit(3);
      },
      testing::ExitedWithCode(130), "");
}

} // namespace
