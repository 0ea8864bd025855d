//===- RopeFrequencies.h - Angles of rotary embeddings ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inverse frequencies of rotary position embeddings, from the two spellings
// that configurations have: `rope_theta` beside `rope_scaling`, and both within
// `rope_parameters`.
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
  double factor = 1.0;        ///< Linear, Llama3
  double lowFactor = 1.0;     ///< Llama3
  double highFactor = 4.0;    ///< Llama3
  int64_t originalLength = 1; ///< Llama3
};

/// Reads the keys of `config`, whose model has this many `positions`.
/// `sequenceLength` decides whether a scaling that depends on the length has an
/// effect.
llvm::Expected<RopeConfig> readRopeConfig(ConfigReader &config,
                                          llvm::StringRef modelType,
                                          int64_t positions,
                                          int64_t sequenceLength);

/// One angle per position for each of the headDim / 2 pairs.
std::vector<double> ropeInverseFrequencies(const RopeConfig &rope,
                                           int64_t headDim);

} // namespace kiln

#endif // KILN_LIB_IMPORT_ROPEFREQUENCIES_H
