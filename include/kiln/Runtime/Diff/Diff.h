//===- Diff.h - Do two executables train alike? -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-diff as a function: runs two executables of one model step by step on
// the same data, and compares loss, gradient norm and the bits of every state
// after every step. What it prints and how it judges: docs/use/kiln-diff.md.
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
  std::vector<std::string> flagsA, flagsB; ///< Of a training run.
  /// Go on behind differences that rounding explains, B from the states of A.
  bool allowRounding = false;
};

/// The command line of kiln-diff.
struct DiffArguments {
  DiffOptions options;
  bool help = false;
};

/// Parses argv[1..argc). A failure has ExitCode::Usage.
Result<DiffArguments> parseDiffArguments(int argc, const char *const *argv);

/// The text of --help.
std::string diffHelp();

/// Prints a report to stdout. Done: alike; Error: not alike; Diverged: alike
/// until the loss of both was no longer finite. A failure: not compared.
Result<ExitCode> diffExecutables(const DiffOptions &options);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_DIFF_DIFF_H
