//===- Flags.cpp - Flag tables and flag errors ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Flags.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace kiln::support {

std::string Flag::dashed() const {
  return (name.size() == 1 ? "-" : "--") + std::string(name);
}

std::string Flag::spelling() const {
  if (value.empty())
    return dashed();
  return dashed() + (name.size() == 1 ? " " : "=") + std::string(value);
}

const Flag *findFlag(const FlagTable &table, std::string_view name) {
  for (const Flag &flag : table)
    if (flag.name == name)
      return &flag;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Nearest flag name
//===----------------------------------------------------------------------===//

/// Returns the minimum number of insertions, deletions, substitutions and
/// transpositions of adjacent characters that turn `a` into `b`.
static std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> table(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      std::size_t least =
          std::min({table[i - 1][j] + 1, table[i][j - 1] + 1,
                    table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least = std::min(least, table[i - 2][j - 2] + 1);
      table[i][j] = least;
    }
  return table[a.size()][b.size()];
}

/// Returns the kiln flag that corresponds to the flag `name` of llm.c, nanoGPT,
/// PyTorch scripts or the Hugging Face Trainer, or "" if no kiln flag
/// corresponds to `name`.
static std::string_view foreignName(std::string_view name) {
  static const std::map<std::string_view, std::string_view> names = {
      {"block-size", "seq"},
      {"checkpoint-dir", "save"},
      {"context-length", "seq"},
      {"dtype", "precision"},
      {"epochs", "steps"},
      {"gradient-accumulation-steps", "microbatches"},
      {"learning-rate", "lr"},
      {"max-iters", "steps"},
      {"max-seq-length", "seq"},
      {"max-steps", "steps"},
      {"num-epochs", "steps"},
      {"num-threads", "threads"},
      {"num-train-epochs", "steps"},
      {"output", "o"},
      {"output-dir", "save"},
      {"sequence-length", "seq"},
      {"train-data", "data"},
      {"weight-decay", "optimizer"},
  };
  auto found = names.find(name);
  return found == names.end() ? std::string_view() : found->second;
}

static bool startsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

const Flag *nearestFlag(const FlagTable &table, std::string_view given) {
  // Ignore names of more than `longest` characters: they are not misspellings,
  // and computing their edit distances takes quadratic time.
  constexpr std::size_t longest = 64;
  if (given.empty() || given.size() > longest)
    return nullptr;
  std::string name(given);
  for (char &c : name)
    c = c == '_' ? '-' : char(std::tolower(static_cast<unsigned char>(c)));
  if (const Flag *flag = findFlag(table, name))
    return flag;
  if (const Flag *flag = findFlag(table, foreignName(name)))
    return flag;

  const Flag *nearest = nullptr;
  std::size_t least = 0;
  for (const Flag &flag : table) {
    std::size_t size = flag.name.size();
    std::size_t distance = editDistance(name, flag.name);
    std::size_t limit = size < 2 ? 0 : std::max<std::size_t>(1, size / 3);
    if (!flag.internal && distance <= limit && (!nearest || distance < least)) {
      nearest = &flag;
      least = distance;
    }
  }
  if (nearest)
    return nearest;

  // If no flag has a similar name, find a flag that `name` extends, as
  // "--batch-size" extends "batch", or abbreviates, as "--micro" abbreviates
  // "microbatches".
  for (const Flag &flag : table)
    if (flag.name.size() > 1 && startsWith(name, std::string(flag.name) + "-"))
      return &flag;
  for (const Flag &flag : table)
    if (!flag.internal && name.size() > 2 && startsWith(flag.name, name)) {
      if (nearest)
        return nullptr; // Ambiguous abbreviation.
      nearest = &flag;
    }
  return nearest;
}

//===----------------------------------------------------------------------===//
// Command line checks
//===----------------------------------------------------------------------===//

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message + " (see --help)");
}

/// Returns the error for `word`, whose name is not in `rules.own` or whose
/// dashes are wrong.
static Status explainUnknown(const std::string &word, std::string_view name,
                             const CommandLineRules &rules) {
  if (const Flag *flag = findFlag(rules.own, name))
    return usage(inQuotes(word) + " has one dash: write " + flag->spelling());
  if (const Flag *flag = findFlag(rules.other, name))
    return usage(rules.explainOther(*flag));
  std::string message = "unknown flag " + inQuotes(word);
  const Flag *own = nearestFlag(rules.own, name);
  const Flag *other = nearestFlag(rules.other, name);
  if (own && other &&
      editDistance(name, other->name) < editDistance(name, own->name))
    own = nullptr;
  if (own)
    return usage(message + ": did you mean " + own->spelling() + "?");
  if (other)
    return usage(message + ": did you mean " + other->dashed() + "? " +
                 rules.explainOther(*other));
  return usage(message);
}

/// Returns true if `word` is a flag and thus not the value of the preceding
/// flag. Returns false for "-", which means standard output, and for negative
/// numbers such as "-3".
static bool isFlag(const std::string &word) {
  return word.size() > 1 && word[0] == '-' &&
         !std::isdigit(static_cast<unsigned char>(word[1])) && word[1] != '.';
}

Result<std::vector<std::string>>
checkCommandLine(const std::vector<std::string> &words,
                 const CommandLineRules &rules) {
  std::vector<std::string> positionals;
  if (std::find(words.begin(), words.end(), "--help") != words.end())
    return positionals;
  std::map<std::string_view, const std::string *> seen;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    if (!isFlag(word)) {
      positionals.push_back(word);
      continue;
    }
    std::size_t dashes = word[1] == '-' ? 2 : 1;
    std::size_t equals = std::min(word.find('='), word.size());
    std::string_view name =
        std::string_view(word).substr(dashes, equals - dashes);
    const Flag *flag = findFlag(rules.own, name);
    bool isShort = name.size() == 1;
    if (!flag || (dashes == 1 && !isShort && !rules.acceptsSingleDash))
      return explainUnknown(word, name, rules);
    if (!flag->repeats && !seen.emplace(flag->name, &word).second)
      return usage(flag->dashed() + " is given twice: " +
                   inQuotes(*seen[flag->name]) + " and " + inQuotes(word));
    if (flag->value.empty()) {
      if (equals < word.size())
        return usage(flag->dashed() + " does not take a value, found " +
                     inQuotes(word));
      continue;
    }
    bool hasValue = equals + 1 < word.size();
    bool isNext = equals == word.size() && i + 1 < words.size() &&
                  (rules.acceptsSeparateValues || isShort) &&
                  !words[i + 1].empty() && !isFlag(words[i + 1]);
    if (!hasValue && !isNext)
      return usage(flag->dashed() + " needs a value: " + flag->spelling());
    i += isNext;
  }
  return positionals;
}

Result<std::vector<std::string>>
checkCommandLine(int argc, const char *const *argv,
                 const CommandLineRules &rules) {
  return checkCommandLine(std::vector<std::string>(argv + 1, argv + argc),
                          rules);
}

} // namespace kiln::support
