//===- RopeFrequencies.h - Rotary embedding frequencies ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the inverse frequencies of rotary position embeddings.
// Configurations specify them in one of two forms: `rope_theta` and
// `rope_scaling`, or both within `rope_parameters`.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_ROPEFREQUENCIES_H
#define KILN_LIB_IMPORT_ROPEFREQUENCIES_H

#include "ConfigReader.h"

#include <vector>

namespace kiln {

struct RopeConfig {
  enum class Kind { Default, Linear, Llama3 };
  Kind kind = Kind::Default;
  double theta = 10000.0;
  double factor = 1.0;        ///< Used by Linear and Llama3.
  double lowFactor = 1.0;     ///< Used by Llama3.
  double highFactor = 4.0;    ///< Used by Llama3.
  int64_t originalLength = 1; ///< Used by Llama3.
};

/// Reads the rope keys of `config`. `positions` is the number of positions of
/// the model. `sequenceLength` determines whether a length-dependent scaling
/// has an effect.
llvm::Expected<RopeConfig> readRopeConfig(ConfigReader &config,
                                          llvm::StringRef modelType,
                                          int64_t positions,
                                          int64_t sequenceLength);

/// Returns the angle per position for each of the headDim / 2 pairs.
std::vector<double> ropeInverseFrequencies(const RopeConfig &rope,
                                           int64_t headDim);

} // namespace kiln

#endif // KILN_LIB_IMPORT_ROPEFREQUENCIES_H
