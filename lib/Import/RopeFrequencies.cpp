//===- RopeFrequencies.cpp - Rotary embedding frequencies -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supports the rope types default, linear and llama3, and the type dynamic if
// its scaling does not apply to the sequence length. All other types, such as
// yarn and longrope, are rejected, because their formulas depend on the version
// of the transformers library.
//
//===----------------------------------------------------------------------===//

#include "RopeFrequencies.h"

#include <cmath>

using namespace kiln;
using llvm::StringRef;
using nlohmann::json;

static constexpr double kLargest = 1e12;

llvm::Expected<RopeConfig> kiln::readRopeConfig(ConfigReader &config,
                                                StringRef modelType,
                                                int64_t positions,
                                                int64_t sequenceLength) {
  RopeConfig rope;
  rope.theta = config.getReal("rope_theta", rope.theta, 1.0, kLargest);

  // If both rope_scaling and rope_parameters are present, they must be equal.
  const json *scaling = config.getObject("rope_scaling");
  const json *parameters = config.getObject("rope_parameters");
  if (scaling && parameters && *scaling != *parameters)
    config.refuse("rope_scaling", "only one of rope_scaling and "
                                  "rope_parameters, or equal values for both");
  const json *object = parameters ? parameters : scaling;
  if (config.failed())
    return config.finish(modelType);
  if (!object)
    return rope;

  ConfigReader keys(*object, config,
                    parameters ? "rope_parameters" : "rope_scaling");
  keys.addSpelling("rope_type", "type");
  std::string type = keys.getString("rope_type", "default");
  if (keys.has("rope_theta")) {
    double theta = keys.requireReal("rope_theta", 1.0, kLargest);
    if (config.has("rope_theta") && theta != rope.theta)
      keys.refuse("rope_theta",
                  "the value of rope_theta at the top level of the file");
    rope.theta = theta;
  }
  if (keys.getReal("partial_rotary_factor", 1.0, 0.0, 1.0) != 1.0)
    keys.refuse("partial_rotary_factor", "1.0");

  if (type == "linear") {
    rope.kind = RopeConfig::Kind::Linear;
    rope.factor = keys.requireReal("factor", 1.0, kLargest);
  } else if (type == "llama3") {
    rope.kind = RopeConfig::Kind::Llama3;
    rope.factor = keys.requireReal("factor", 1.0, kLargest);
    rope.lowFactor = keys.requireReal("low_freq_factor", 1e-6, kLargest);
    rope.highFactor = keys.requireReal("high_freq_factor", 1e-6, kLargest);
    rope.originalLength = keys.getInteger("original_max_position_embeddings",
                                          positions, 1, INT32_MAX);
    if (rope.highFactor <= rope.lowFactor)
      keys.refuse("high_freq_factor", "a number larger than low_freq_factor");
  } else if (type == "dynamic") {
    // Dynamic scaling applies only beyond the original sequence length, so it
    // has no effect on shorter sequences.
    keys.requireReal("factor", 1.0, kLargest);
    int64_t original = keys.getInteger("original_max_position_embeddings",
                                       INT32_MAX, 1, INT32_MAX);
    if (sequenceLength > original)
      keys.refuse("original_max_position_embeddings",
                  "at least the sequence length, " +
                      llvm::Twine(sequenceLength));
  } else if (type != "default") {
    keys.refuse(keys.has("rope_type") ? "rope_type" : "type",
                "default, linear, dynamic, llama3");
  }
  if (llvm::Error error = keys.finish(modelType))
    return std::move(error);
  return rope;
}

std::vector<double> kiln::ropeInverseFrequencies(const RopeConfig &rope,
                                                 int64_t headDim) {
  std::vector<double> frequencies(headDim / 2);
  const double pi = std::acos(-1.0);
  for (int64_t i = 0; i < headDim / 2; ++i) {
    double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) /
                                                static_cast<double>(headDim));
    switch (rope.kind) {
    case RopeConfig::Kind::Default:
      break;
    case RopeConfig::Kind::Linear:
      frequency /= rope.factor;
      break;
    case RopeConfig::Kind::Llama3: {
      // Frequencies with wavelengths up to originalLength / highFactor are
      // kept. Frequencies with wavelengths from originalLength / lowFactor on
      // are divided by `factor`. Frequencies between these limits are
      // interpolated.
      double turns =
          static_cast<double>(rope.originalLength) * frequency / (2 * pi);
      double kept =
          (turns - rope.lowFactor) / (rope.highFactor - rope.lowFactor);
      kept = std::min(1.0, std::max(0.0, kept));
      frequency = (1 - kept) * frequency / rope.factor + kept * frequency;
      break;
    }
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}
