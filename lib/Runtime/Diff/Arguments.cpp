//===- Arguments.cpp - The command line of kiln-diff ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two executables come first. Every flag that is not one of kiln-diff's own
// is passed to both, which know best what they accept.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Diff/Diff.h"
#include "kiln/Runtime/Files/Messages.h"

namespace kiln {

std::string diffHelp() {
  return "Runs two executables of one model in lockstep and says whether they "
         "train alike.\n"
         "\n"
         "usage: kiln-diff EXE_A EXE_B --data=FILE --steps=N [flags]\n"
         "\n"
         "  --tolerance=exact     any difference ends the run with exit code 1 "
         "(default)\n"
         "  --tolerance=rounding  go on while rounding explains the "
         "differences; every step\n"
         "                        starts B from the states of A\n"
         "  --only-a=FLAG         pass FLAG to EXE_A alone, as in "
         "--only-a=--threads=1\n"
         "  --only-b=FLAG         the same for EXE_B\n"
         "\n"
         "All other flags (--seed, --init, --lr, --threads, ...) go to both. "
         "Exit codes:\n"
         "0 alike, 1 not alike or an error, 2 usage, 3 bad input or different "
         "models,\n"
         "5 alike until both diverged.\n";
}

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message + " (see --help)");
}

Result<DiffArguments> parseDiffArguments(int argc, const char *const *argv) {
  DiffArguments arguments;
  std::vector<std::string> words(argv + 1, argv + argc);
  for (const std::string &word : words)
    arguments.help |= word == "--help" || word == "-h";
  if (arguments.help)
    return arguments;
  DiffOptions &options = arguments.options;
  std::vector<std::string> own[2];
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    auto value = [&](const std::string &flag) {
      return word.rfind(flag, 0) == 0 ? std::optional(word.substr(flag.size()))
                                      : std::nullopt;
    };
    if (i < 2) {
      if (word.empty() || word[0] == '-')
        return usage("the first two arguments must be executables, found " +
                     inQuotes(word));
      (i == 0 ? options.pathA : options.pathB) = word;
    } else if (auto tolerance = value("--tolerance=")) {
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
  if (words.size() < 2)
    return usage("two executables are needed, found " +
                 std::to_string(words.size()));
  options.flagsA.insert(options.flagsA.end(), own[0].begin(), own[0].end());
  options.flagsB.insert(options.flagsB.end(), own[1].begin(), own[1].end());
  return arguments;
}

} // namespace kiln
