//===- CpuFeatures.cpp - Check of the CPU features of kernels -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuFeatures.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

namespace kiln::runtime {

/// Pairs of the LLVM name and the Linux name of a CPU feature, for features
/// whose names differ in more than punctuation.
static constexpr std::array<std::pair<const char *, const char *>, 11>
    otherNames = {{{"64bit", "lm"},
                   {"bmi", "bmi1"},
                   {"crc32", "sse42"},
                   {"lzcnt", "abm"},
                   {"pclmul", "pclmulqdq"},
                   {"prfchw", "3dnowprefetch"},
                   {"rdrnd", "rdrand"},
                   {"sahf", "lahflm"},
                   {"sha", "shani"},
                   {"sse3", "pni"},
                   {"x87", "fpu"}}};

/// Returns true for the vector, matrix and bit manipulation instructions that
/// /proc/cpuinfo lists for every CPU that has them. Other features cannot be
/// checked: Linux does not list, for example, AMX-FP16, AVX-IFMA and
/// AVX-VNNI-INT8.
static bool isChecked(const std::string &name) {
  static const std::set<std::string> listed = {
      "sse",        "sse2",         "sse3",
      "ssse3",      "sse41",        "sse42",
      "sse4a",      "avx",          "avx2",
      "fma",        "fma4",         "f16c",
      "bmi",        "bmi2",         "lzcnt",
      "popcnt",     "avx512f",      "avx512bw",
      "avx512cd",   "avx512dq",     "avx512vl",
      "avx512ifma", "avx512vbmi",   "avx512vbmi2",
      "avx512vnni", "avx512bitalg", "avx512vpopcntdq",
      "avx512bf16", "avx512fp16",   "avx512vp2intersect",
      "avxvnni",    "amxtile",      "amxint8",
      "amxbf16"};
  return listed.count(name) > 0;
}

static std::string withoutPunctuation(std::string name) {
  name.erase(std::remove_if(name.begin(), name.end(),
                            [](char c) {
                              return c == '_' || c == '.' || c == '-' ||
                                     c == '+';
                            }),
             name.end());
  return name;
}

static std::string linuxName(const std::string &feature) {
  std::string name = withoutPunctuation(feature);
  for (auto &[llvmName, otherName] : otherNames)
    if (name == llvmName)
      return otherName;
  return name;
}

std::string readCpuInfo() {
  std::ifstream file("/proc/cpuinfo");
  std::string text, line;
  while (std::getline(file, line) && !line.empty())
    text += line + "\n";
  return text;
}

Status checkCpuFeatures(const TargetInfo &target, const std::string &cpuinfo) {
  std::istringstream lines(cpuinfo);
  std::string line, model = "unknown";
  std::set<std::string> flags;
  while (std::getline(lines, line)) {
    std::size_t colon = line.find(": ");
    if (colon == std::string::npos)
      continue;
    if (line.rfind("model name", 0) == 0)
      model = line.substr(colon + 2);
    if (line.rfind("flags", 0) != 0)
      continue;
    std::istringstream words(line.substr(colon + 2));
    for (std::string word; words >> word;)
      flags.insert(withoutPunctuation(word));
  }
  if (flags.empty())
    return Status();

  std::string missing;
  for (const std::string &feature : target.features) {
    if (feature.empty() || feature[0] == '-' ||
        !isChecked(withoutPunctuation(feature)))
      continue;
    if (!flags.count(linuxName(feature)))
      missing += (missing.empty() ? "" : ", ") + feature;
  }
  if (missing.empty())
    return Status();
  return Status::error(
      "this CPU (" + model + ") lacks " + missing +
      ", which the kernels use (compiled for " + target.cpu +
      "); compile again on this machine, or for this CPU with --mcpu=NAME");
}

} // namespace kiln::runtime
