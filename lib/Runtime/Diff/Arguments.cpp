//===- Arguments.cpp - Command line of kiln-diff --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On the command line, the paths of the two executables precede the flags.
// Flags that do not belong to kiln-diff are passed to both executables, which
// validate their values.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Diff/Diff.h"
#include "kiln/Support/Flags.h"
#include "kiln/Support/Messages.h"

using namespace kiln::support;

namespace kiln::runtime {

std::string diffHelp() {
  return "Runs two executables of one model in lockstep and checks whether "
         "they train alike.\n"
         "\n"
         "usage: kiln-diff EXE_A EXE_B --data=FILE --steps=N [flags]\n"
         "\n"
         "  --tolerance=exact     any difference ends the run with exit code 1 "
         "(default)\n"
         "  --tolerance=rounding  continue while rounding explains the "
         "differences; every step\n"
         "                        starts B from the states of A\n"
         "  --only-a=FLAG         pass FLAG to EXE_A only, as in "
         "--only-a=--threads=1\n"
         "  --only-b=FLAG         pass FLAG to EXE_B only\n"
         "\n"
         "All other flags (--seed, --init, --lr, --threads, ...) are passed to "
         "both. Exit codes:\n"
         "0 alike, 1 not alike or an error, 2 usage, 3 bad input or different "
         "models,\n"
         "5 alike until both diverged.\n";
}

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message + " (see --help)");
}

/// Checks the names of all flags: those of kiln-diff and those that kiln-diff
/// passes to both executables.
static Status checkNames(const std::vector<std::string> &flags) {
  CommandLineRules rules;
  rules.own = executableFlags();
  rules.own.insert(rules.own.end(), {{"tolerance", "exact|rounding"},
                                     {"only-a", "FLAG", /*repeats=*/true},
                                     {"only-b", "FLAG", /*repeats=*/true}});
  rules.other = compilerFlags();
  rules.explainOther = [](const Flag &flag) {
    return flag.dashed() +
           " was fixed when A and B were compiled; to change it, compile both "
           "again with kilnc " +
           flag.spelling();
  };
  Result<std::vector<std::string>> rest = checkCommandLine(flags, rules);
  if (!rest.ok() || rest->empty())
    return rest.status();
  return usage("unexpected argument " + inQuotes(rest->front()) +
               ": two executables come first, then flags");
}

Result<DiffArguments> parseDiffArguments(int argc, const char *const *argv) {
  DiffArguments arguments;
  std::vector<std::string> words(argv + 1, argv + argc);
  for (const std::string &word : words)
    arguments.help |= word == "--help" || word == "-h";
  if (arguments.help)
    return arguments;
  for (size_t i = 0; i < 2; ++i) {
    if (i == words.size())
      return usage("two executables are needed, found " + std::to_string(i));
    if (words[i].empty() || words[i][0] == '-')
      return usage("the first two arguments must be executables, found " +
                   inQuotes(words[i]));
  }
  Status names = checkNames({words.begin() + 2, words.end()});
  if (!names.ok())
    return names;
  DiffOptions &options = arguments.options;
  options.pathA = words[0];
  options.pathB = words[1];
  std::vector<std::string> own[2];
  for (size_t i = 2; i < words.size(); ++i) {
    const std::string &word = words[i];
    auto value = [&](const std::string &flag) {
      return word.rfind(flag, 0) == 0 ? std::optional(word.substr(flag.size()))
                                      : std::nullopt;
    };
    if (auto tolerance = value("--tolerance=")) {
      if (*tolerance != "exact" && *tolerance != "rounding")
        return usage("--tolerance is " + inQuotes(*tolerance) +
                     ", expected exact or rounding");
      options.allowRounding = *tolerance == "rounding";
    } else if (auto flag = value("--only-a=")) {
      own[0].push_back(*flag);
    } else if (auto flag = value("--only-b=")) {
      own[1].push_back(*flag);
    } else if (word == "--tolerance" || word == "--only-a" ||
               word == "--only-b") {
      return usage(word + " needs a value after '='");
    } else {
      options.flagsA.push_back(word);
      options.flagsB.push_back(word);
    }
  }
  options.flagsA.insert(options.flagsA.end(), own[0].begin(), own[0].end());
  options.flagsB.insert(options.flagsB.end(), own[1].begin(), own[1].end());
  return arguments;
}

} // namespace kiln::runtime
