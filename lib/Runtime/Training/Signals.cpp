//===- Signals.cpp - Stopping at the end of a step ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Signals.h"

#include <csignal>
#include <unistd.h>

namespace kiln {

static volatile std::sig_atomic_t stopped = 0;
static volatile std::sig_atomic_t interrupted = 0;

static void onSignal(int signal) {
  if (signal == SIGINT) {
    if (interrupted)
      _exit(128 + SIGINT);
    interrupted = 1;
  }
  stopped = 1;
}

void installStopSignals() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool stopRequested() { return stopped != 0; }

} // namespace kiln
