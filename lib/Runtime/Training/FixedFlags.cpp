//===- FixedFlags.cpp - Values of compile-time flags ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FixedFlags.h"

#include "TrainingInfo.h"
#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <map>

using namespace kiln::support;

namespace kiln::runtime {

static std::string onOff(bool value) { return value ? "on" : "off"; }

static bool keepsGradients(const Description &description) {
  for (const ProgramInfo &program : description.programs)
    if (std::any_of(program.outputs.begin(), program.outputs.end(), isGradient))
      return true;
  return false;
}

/// Splits the command line of kilnc into words. kilnc recorded the command line
/// with shell quoting.
static std::vector<std::string> splitWords(const std::string &line) {
  std::vector<std::string> words;
  bool isQuoted = false, isEscaped = false, isInside = false;
  for (char c : line) {
    if (c == ' ' && !isQuoted && !isEscaped) {
      isInside = false;
      continue;
    }
    if (!isInside)
      words.emplace_back();
    isInside = true;
    if (c == '\'' && !isEscaped)
      isQuoted = !isQuoted;
    else if (c == '\\' && !isEscaped && !isQuoted)
      isEscaped = true;
    else {
      words.back() += c;
      isEscaped = false;
    }
  }
  return words;
}

/// Returns the value of a flag on the command line of kilnc, or nullopt if the
/// flag is missing there.
static std::optional<std::string> recordedValue(const Flag &flag,
                                                const std::string &line) {
  std::vector<std::string> words = splitWords(line);
  std::string name(flag.name);
  for (size_t i = 0; i < words.size(); ++i) {
    size_t dashes = words[i].find_first_not_of('-');
    if (dashes == 0 || dashes == std::string::npos)
      continue;
    std::string word = words[i].substr(dashes);
    if (word == name)
      return i + 1 < words.size() ? words[i + 1] : std::string();
    if (word.compare(0, name.size() + 1, name + "=") == 0)
      return word.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::optional<std::string> fixedValue(const Flag &flag,
                                      const Description &description) {
  using Value = std::string (*)(const Description &);
  static const std::map<std::string_view, Value> known = {
      {"batch", [](auto &d) { return std::to_string(d.model.batch); }},
      {"seq", [](auto &d) { return std::to_string(d.model.sequenceLength); }},
      {"microbatches",
       [](auto &d) { return std::to_string(d.build.microbatches); }},
      {"optimizer", [](auto &d) { return d.build.optimizer; }},
      {"lora", [](auto &d) { return d.lora ? loraOptions(*d.lora) : "none"; }},
      {"lossy",
       [](auto &d) { return d.build.lossy.empty() ? "none" : d.build.lossy; }},
      {"precision", [](auto &d) { return d.build.precision; }},
      {"dropout", [](auto &d) { return numberText(d.build.dropout); }},
      {"clip", [](auto &d) { return onOff(d.build.clip); }},
      {"eval", [](auto &d) { return onOff(d.build.eval); }},
      {"max-threads",
       [](auto &d) { return std::to_string(d.build.maxThreads); }},
      {"target", [](auto &d) { return d.build.target; }},
      {"mcpu", [](auto &d) { return d.target.cpu; }},
      {"emit-gradients", [](auto &d) { return onOff(keepsGradients(d)); }}};
  std::string value;
  if (auto found = known.find(flag.name); found != known.end())
    value = found->second(description);
  else if (!description.build.commandLine.empty())
    value = recordedValue(flag, description.build.commandLine)
                .value_or("its default");
  return value.empty() ? std::nullopt : std::optional(value);
}

/// Returns true for flags that only control which outputs kilnc writes and do
/// not affect the executable.
static bool isAboutOutputs(const Flag &flag) {
  static const char *const names[] = {"emit", "measure-machine", "o", "remarks",
                                      "report"};
  return std::find(std::begin(names), std::end(names), flag.name) !=
         std::end(names);
}

std::string explainFixedFlag(const Flag &flag, const Description *description) {
  if (isAboutOutputs(flag))
    return flag.dashed() +
           " is a flag of kilnc that controls its outputs; an executable does "
           "not accept it";
  std::optional<std::string> value;
  if (description)
    value = fixedValue(flag, *description);
  return flag.dashed() + " was fixed" +
         (value ? " at " + printable(*value) : "") +
         " when the model was compiled; to change it, compile again with "
         "kilnc " +
         flag.spelling();
}

} // namespace kiln::runtime
