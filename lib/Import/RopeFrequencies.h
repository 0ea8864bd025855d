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
  /// Linear divides every frequency by `factor`, Llama3 only the frequencies
  /// with long wavelengths.
  double factor = 1.0;
  /// Llama3 keeps frequencies with wavelengths up to originalLength /
  /// highFactor, and divides frequencies with wavelengths of at least
  /// originalLength / lowFactor by `factor`.
  double lowFactor = 1.0;
  double highFactor = 4.0;
  int64_t originalLength = 1;
};

/// Reads the rope keys of `config`. `positions` is the number of positions of
/// the model. `sequenceLength` determines whether a length-dependent scaling
/// has an effect.
llvm::Expected<RopeConfig> readRopeConfig(ConfigReader &config,
                                          llvm::StringRef modelType,
                                          int64_t positions,
                                          int64_t sequenceLength);

/// Returns the angle per position for each of the headDim / 2 pairs of
/// features.
std::vector<double> ropeInverseFrequencies(const RopeConfig &rope,
                                           int64_t headDim);

} // namespace kiln

#endif // KILN_LIB_IMPORT_ROPEFREQUENCIES_H
