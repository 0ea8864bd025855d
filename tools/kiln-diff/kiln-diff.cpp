//===- kiln-diff.cpp - Do two executables train alike? ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Diff/Diff.h"
#include "kiln/Runtime/Files/OutputFile.h"

#include <csignal>
#include <cstdio>

static void onSignal(int) {}

/// A signal ends the wait for an answer, so that the temporary files go away.
static void interruptOnSignals() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int main(int argc, char **argv) {
  kiln::ignoreFileSignals();
  interruptOnSignals();
  kiln::Result<kiln::DiffArguments> arguments =
      kiln::parseDiffArguments(argc, argv);
  if (arguments.ok() && arguments->help) {
    std::fputs(kiln::diffHelp().c_str(), stdout);
    return 0;
  }
  kiln::Result<kiln::ExitCode> outcome =
      arguments.ok() ? kiln::diffExecutables(arguments->options)
                     : kiln::Result<kiln::ExitCode>(arguments.status());
  std::fflush(stdout);
  if (outcome.ok())
    return int(*outcome);
  std::fprintf(stderr, "error: %s\n", outcome.status().message().c_str());
  return int(outcome.status().code());
}
