//===- Flags.h - Flags of kiln's programs and mistakes in them --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model is compiled by one program and trained by another, so a flag is often
// given to the wrong one. This file has one table of flags for each of the two,
// and checkCommandLine, with which every program looks at its command line
// before it parses any value: it names the nearest flag for an unknown one, and
// explains a flag that belongs to another program.
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
  std::string_view name;  ///< Without dashes.
  std::string_view value; ///< Placeholder of its value; empty: a switch.
  bool repeats = false;   ///< May be given more than once.
  bool internal = false;  ///< For other programs, and not in --help.

  /// "--steps" or "-o".
  std::string dashed() const;
  /// "--steps=N", "-o FILE" or "--describe".
  std::string spelling() const;
};

using FlagTable = std::vector<Flag>;

/// The flags of kilnc, which are fixed once a model is compiled.
const FlagTable &compilerFlags();

/// The flags of a training executable.
const FlagTable &executableFlags();

const Flag *findFlag(const FlagTable &table, std::string_view name);

/// Describes the flags that one program accepts.
struct CommandLineRules {
  FlagTable own;
  /// Flags of another program, and what to answer when one of them is given: a
  /// sentence that starts with the flag. Both may be empty.
  FlagTable other;
  std::function<std::string(const Flag &)> explainOther;
  /// True if "-name" is "--name", if "--name value" is "--name=value", and if
  /// "--name=" is for the parser to judge.
  bool acceptsSingleDash = false;
  bool acceptsSeparateValues = true;
  bool acceptsEmptyValues = false;
};

/// Checks the names of all flags in `words` (argv without the program), that
/// each flag that needs a value has one, and that none is given twice. Returns
/// the words that are no flags. With --help among them, nothing is checked. A
/// failure has ExitCode::Usage.
Result<std::vector<std::string>>
checkCommandLine(const std::vector<std::string> &words,
                 const CommandLineRules &rules);

/// Does the same for argv[1..argc).
Result<std::vector<std::string>>
checkCommandLine(int argc, const char *const *argv,
                 const CommandLineRules &rules);

/// Returns the flag that `name` probably stands for, or null: one whose name is
/// a few edits away, one that `name` abbreviates or extends by another word, or
/// one that other trainers call `name`.
const Flag *nearestFlag(const FlagTable &table, std::string_view name);

} // namespace kiln::support

#endif // KILN_SUPPORT_FLAGS_H
