//===- ToyProgram.h - A small model with handwritten kernels ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bigram language model over bytes: hidden = E[token], logits = hidden U,
// trained by SGD with momentum and gradient clipping, in two micro-batches. Its
// description uses every kind of command and has a handwritten plan, into which
// faults can be injected.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_TOYPROGRAM_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_TOYPROGRAM_H

#include "ShortForm.h"
#include "kiln/Runtime/Engine/Engine.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace kiln::runtime::toy {

constexpr int64_t vocabulary = 256;
constexpr int64_t width = 16;
constexpr int64_t batch = 4;
constexpr int64_t length = 8;
constexpr int64_t microbatches = 2;
constexpr int maxThreads = 3;

struct Options {
  bool hasWeights = false;
  bool clip = true;
  bool eval = true;
  bool gradients = false; ///< Adds the outputs "gradient:...".
  /// The order of the micro-batches of "train", and the number of micro-batches
  /// whose activations can be in memory at the same time. If `slots` is greater
  /// than 1, the activations that the backward segment reads have `slots`
  /// instances each.
  std::string order = "alternate";
  int64_t slots = 1;
  /// The slot of "train" whose planned size is one byte too small, or an empty
  /// string.
  std::string shortSlot = {};
  /// The slot of "train" whose planned last use is one command too early, or an
  /// empty string.
  std::string shortLife = {};
};

/// Returns the program description.
nlohmann::json describe(const Options &options = {});

/// The kernel table of the descriptions, and its size.
constexpr int64_t kernelCount = 7;
const void *const *kernelTable();

/// Returns an engine for a description that describe() returned, possibly
/// changed by the test.
Result<std::unique_ptr<Engine>> makeEngine(const nlohmann::json &description);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_TOYPROGRAM_H
