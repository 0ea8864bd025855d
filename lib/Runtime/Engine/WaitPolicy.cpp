//===- WaitPolicy.cpp - Spin times of waiting threads ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WaitPolicy.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <linux/futex.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace kiln::runtime {

/// The spin count that libgomp uses for OMP_WAIT_POLICY=active: so many polls
/// take minutes.
static constexpr uint64_t activeLooks = 30'000'000'000;
/// Maximum spin counts for teams with more threads than processors, as in
/// libgomp. A spinning thread may occupy the processor that the awaited thread
/// needs. Therefore the counts are small.
static constexpr uint64_t crowdedLooks = 100, crowdedActiveLooks = 1000;
/// The default polling time. It exceeds the few microseconds between
/// consecutive commands of a step, and is about as long as the wakeup of a
/// sleeping thread takes in a virtual machine.
static constexpr int64_t defaultNanoseconds = 50'000;

/// Returns the text in lower case, without surrounding spaces.
static std::string normalized(const char *text) {
  std::string word(text ? text : "");
  auto isSpace = [](char c) { return std::isspace((unsigned char)c) != 0; };
  while (!word.empty() && isSpace(word.back()))
    word.pop_back();
  while (!word.empty() && isSpace(word.front()))
    word.erase(0, 1);
  for (char &c : word)
    c = char(std::tolower((unsigned char)c));
  return word;
}

/// Parses a number with an optional suffix of libgomp (k, m, g, t). Returns
/// nullopt for invalid text. libgomp ignores such text too.
static std::optional<uint64_t> parseCount(const std::string &text) {
  if (text == "infinite" || text == "infinity")
    return UINT64_MAX;
  if (text.empty() || !std::isdigit((unsigned char)text.front()))
    return std::nullopt;
  char *end = nullptr;
  errno = 0;
  uint64_t count = std::strtoull(text.c_str(), &end, 10);
  if (errno != 0)
    return std::nullopt;
  std::string suffix = normalized(end);
  uint64_t factor = suffix.empty()  ? 1
                    : suffix == "k" ? 1'000
                    : suffix == "m" ? 1'000'000
                    : suffix == "g" ? 1'000'000'000
                    : suffix == "t" ? 1'000'000'000'000
                                    : 0;
  if (factor == 0 || count > UINT64_MAX / factor)
    return std::nullopt;
  return count * factor;
}

WaitPolicy chooseWaitPolicy(int threads, int processors, const char *ompPolicy,
                            const char *gompSpinCount) {
  WaitPolicy policy;
  std::string word = normalized(ompPolicy);
  policy.looks = parseCount(normalized(gompSpinCount));
  if (!policy.looks && word == "active")
    policy.looks = activeLooks;
  if (!policy.looks && word == "passive")
    policy.looks = 0;
  if (!policy.looks)
    policy.nanoseconds = defaultNanoseconds;
  if (threads > processors)
    policy.looks =
        std::min(policy.looks.value_or(crowdedLooks),
                 word == "active" ? crowdedActiveLooks : crowdedLooks);
  return policy;
}

void sleepWhileEqual(std::atomic<uint32_t> &word, uint32_t expected) {
  static_assert(sizeof(word) == sizeof(uint32_t), "a futex has 32 bits");
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void wakeSleepers(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace kiln::runtime
