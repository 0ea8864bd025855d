//===- Generate.cpp - Text generation -------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generate.h"

#include "kiln/Support/Process.h"
#include "kiln/Support/Rng.h"

#include <algorithm>
#include <cmath>

using namespace kiln::support;

namespace kiln::runtime {

/// A constant that is combined with the seed, so that sampling uses another
/// random stream than all other uses of the seed.
static constexpr uint64_t generationKey = 0x67656e6572617465;

int64_t sampleToken(std::vector<std::pair<double, int64_t>> &logits,
                    double temperature, int64_t topK, double uniform) {
  auto before = [](const auto &a, const auto &b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  if (temperature == 0)
    return std::min_element(logits.begin(), logits.end(), before)->second;
  size_t count =
      topK > 0 ? std::min(size_t(topK), logits.size()) : logits.size();
  std::partial_sort(logits.begin(), logits.begin() + ptrdiff_t(count),
                    logits.end(), before);
  double largest = logits.front().first, sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += std::exp((logits[i].first - largest) / temperature);
  double threshold = uniform * sum;
  for (size_t i = 0; i < count; ++i) {
    threshold -= std::exp((logits[i].first - largest) / temperature);
    if (threshold < 0)
      return logits[i].second;
  }
  return logits[count - 1].second;
}

static std::string tokenText(int32_t token) {
  return token < 256 ? std::string(1, char(token))
                     : "<|" + std::to_string(token) + "|>";
}

Status generateText(const std::function<Status()> &run, ProgramInputs &inputs,
                    const Options &options, uint64_t seed,
                    const InputTensors *tensors,
                    const std::function<Result<bool>()> &stops,
                    const std::function<Status(const std::string &)> &emit) {
  int64_t vocabulary = inputs.vocabulary();
  // If there is no prompt, generation starts after a line break.
  std::string prompt = options.prompt.empty() ? "\n" : options.prompt;
  std::vector<int32_t> tokens;
  for (unsigned char byte : prompt) {
    if (byte >= vocabulary)
      return Status::badInput("--prompt holds byte " + std::to_string(byte) +
                              ", but the vocabulary has only " +
                              std::to_string(vocabulary) + " tokens");
    tokens.push_back(byte);
  }
  Status status = emit(options.prompt);
  std::vector<std::pair<double, int64_t>> logits;
  for (int64_t i = 0; status.ok() && i < options.generate; ++i) {
    Result<bool> isStopped = stops();
    if (!isStopped.ok())
      return isStopped.status();
    if (*isStopped)
      return Status(ExitCode::Stopped, "stopped by a signal after " +
                                           std::to_string(i) + " of " +
                                           std::to_string(options.generate) +
                                           " tokens of --generate");
    int64_t count = std::min(int64_t(tokens.size()), inputs.length());
    inputs.writePrompt(tokens.data() + int64_t(tokens.size()) - count, count,
                       tensors);
    status = run();
    if (!status.ok())
      return status;
    logits.clear();
    for (int64_t token = 0; token < vocabulary; ++token) {
      double logit = inputs.logit(token);
      if (!std::isfinite(logit))
        return Status(ExitCode::Diverged,
                      "--generate: the model's output is not finite; it has "
                      "diverged, use an earlier checkpoint");
      logits.emplace_back(logit, token);
    }
    std::array<uint32_t, 4> random =
        philox4x32(uint64_t(i), splitmix64(seed ^ generationKey));
    tokens.push_back(
        int32_t(sampleToken(logits, options.temperature, options.topK,
                            uniformFromBits(random[0], random[1]))));
    status = emit(tokenText(tokens.back()));
  }
  return status;
}

} // namespace kiln::runtime
