//===- Flags.h - Flag tables and flag errors --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model is compiled by one program and trained by another, so a user may pass
// a flag to the wrong program. This file provides a table of flags for each
// program, and checkCommandLine, which every program calls before it parses
// flag values. For an unknown flag, the error message suggests the nearest
// known flag, or explains that the flag belongs to another program.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_FLAGS_H
#define KILN_SUPPORT_FLAGS_H

#include "kiln/Support/Status.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::support {

struct Flag {
  std::string_view name;  ///< Name without dashes.
  std::string_view value; ///< Value placeholder; empty for a switch.
  bool repeats = false;   ///< True if the flag may be given more than once.
  bool internal = false;  ///< True if --help omits the flag.

  /// Returns the flag with its dashes, such as "--steps" or "-o".
  std::string dashed() const;
  /// Returns the usage text: "--steps=N", "-o FILE" or "--describe".
  std::string spelling() const;
};

using FlagTable = std::vector<Flag>;

/// Returns the flags of kilnc, whose values are fixed at compile time.
const FlagTable &compilerFlags();

/// Returns the flags of a training executable.
const FlagTable &executableFlags();

const Flag *findFlag(const FlagTable &table, std::string_view name);

/// Describes the flags that one program accepts.
struct CommandLineRules {
  FlagTable own;
  /// The flags of another program. `explainOther` returns the error message for
  /// one flag of `other`: a sentence that starts with the flag. Both members
  /// may be empty.
  FlagTable other;
  std::function<std::string(const Flag &)> explainOther;
  /// True if the program accepts "-name" for "--name", and "--name value" for
  /// "--name=value", respectively.
  bool acceptsSingleDash = false;
  bool acceptsSeparateValues = true;
};

/// Checks that all flags in `words` (argv without the program name) are known,
/// that each flag with a value has one that is not empty, and that no flag is
/// given twice unless it may repeat. Returns the words that are not flags. If
/// --help is given, nothing is checked. A failure has ExitCode::Usage.
Result<std::vector<std::string>>
checkCommandLine(const std::vector<std::string> &words,
                 const CommandLineRules &rules);

/// Calls checkCommandLine(words, rules) with argv[1..argc) as `words`.
Result<std::vector<std::string>>
checkCommandLine(int argc, const char *const *argv,
                 const CommandLineRules &rules);

/// Returns the flag that `name` probably means, or null if there is none. A
/// flag F is returned if the edit distance between `name` and F is small, if
/// `name` abbreviates F or extends F by a word, or if another trainer uses
/// `name` for the flag that kiln calls F.
const Flag *nearestFlag(const FlagTable &table, std::string_view name);

} // namespace kiln::support

#endif // KILN_SUPPORT_FLAGS_H
