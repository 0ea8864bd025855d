//===- Diff.h - Lockstep comparison of executables --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements kiln-diff: runs two executables of one model step by step on the
// same data and compares the loss, the gradient norm and the bits of every
// state after every step. docs/use/kiln-diff.md describes the report and the
// verdict.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_DIFF_DIFF_H
#define KILN_RUNTIME_DIFF_DIFF_H

#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime {

struct DiffOptions {
  std::string pathA, pathB;
  std::vector<std::string> flagsA, flagsB; ///< Flags of the training runs.
  /// Continues after differences that rounding explains. After the first such
  /// difference, the executable at pathB starts every step from the states of
  /// the executable at pathA.
  bool allowRounding = false;
};

/// The parsed command line of kiln-diff.
struct DiffArguments {
  DiffOptions options;
  bool help = false;
};

/// Parses argv[1..argc). A failure has ExitCode::Usage.
Result<DiffArguments> parseDiffArguments(int argc, const char *const *argv);

/// Returns the text of --help.
std::string diffHelp();

/// Prints a report to stdout. Returns Done if the executables train alike,
/// Error if they do not, and Diverged if they train alike until both losses are
/// not finite. A failure status means that the executables could not be
/// compared.
Result<ExitCode> diffExecutables(const DiffOptions &options);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_DIFF_DIFF_H
