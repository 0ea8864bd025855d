//===- kiln-diff.cpp - Lockstep comparison of executables -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Diff/Diff.h"
#include "kiln/Support/Process.h"

#include <cstdio>

int main(int argc, char **argv) {
  kiln::support::prepareProcess();
  // Let a signal interrupt the read of a reply, so that the process removes its
  // temporary files before it ends.
  kiln::support::installStopSignals(/*restart=*/false);
  kiln::Result<kiln::runtime::DiffArguments> arguments =
      kiln::runtime::parseDiffArguments(argc, argv);
  kiln::Result<kiln::ExitCode> outcome =
      !arguments.ok()   ? kiln::Result<kiln::ExitCode>(arguments.status())
      : arguments->help ? kiln::ExitCode::Done
                        : kiln::runtime::diffExecutables(arguments->options);
  kiln::Status printed = kiln::support::printResult(
      arguments.ok() && arguments->help ? kiln::runtime::diffHelp()
                                        : std::string());
  if (outcome.ok() && !printed.ok())
    outcome = printed;
  if (outcome.ok())
    return int(*outcome);
  bool stopped = outcome.status().code() == kiln::ExitCode::Stopped;
  std::fprintf(stderr, "%s: %s\n", stopped ? "note" : "error",
               outcome.status().message().c_str());
  return int(outcome.status().code());
}
