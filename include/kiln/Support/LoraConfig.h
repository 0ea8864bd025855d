//===- LoraConfig.h - Options of low-rank adapters --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of LoRA (arXiv 2106.09685), which adds alpha / r * (x A^T) B^T to
// the result of a linear layer. A has shape [r, inputs] and B [outputs, r].
//
// The options have two text forms: the value of `kilnc --lora`, which the
// compiler also passes to its passes and to executables, and the file
// adapter_config.json of PEFT, which describes a saved adapter.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_LORACONFIG_H
#define KILN_SUPPORT_LORACONFIG_H

#include "kiln/Support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::support {

/// Names of the files of an adapter in PEFT's format.
inline constexpr const char *adapterConfigFile = "adapter_config.json";
inline constexpr const char *adapterWeightsFile = "adapter_model.safetensors";

/// The target that selects every linear layer except the classifier.
inline constexpr const char *allLinear = "all-linear";

struct LoraConfig {
  int64_t rank = 8;
  double alpha = 8;
  /// Probability of the dropout of the input of A.
  double dropout = 0;
  /// The layers that get an adapter: names or last components of names, or only
  /// `allLinear`; sorted, without duplicates. Empty: the targets that PEFT uses
  /// for the type of the model.
  std::vector<std::string> targets;
  /// True if the scale is alpha / sqrt(r) (rsLoRA, arXiv 2312.03732) instead of
  /// alpha / r.
  bool rankStabilized = false;

  double scale() const;
  bool isAllLinear() const {
    return targets.size() == 1 && targets.front() == allLinear;
  }
};

/// Parses a list such as "r=8,alpha=16,targets=c_attn:c_proj,dropout=0.05".
/// `rslora=on` selects rsLoRA. Every item is optional, and "default" is the
/// list without items. Errors have the exit code Usage, and messages that
/// follow a prefix such as "--lora: ".
Result<LoraConfig> parseLoraOptions(std::string_view text);

/// Returns the options as text that parseLoraOptions() accepts.
std::string loraOptions(const LoraConfig &config);

/// The contents of adapter_config.json.
struct AdapterConfig {
  LoraConfig lora;
  std::string base; ///< Name or path of the base model; may be empty.
};

/// Parses adapter_config.json. Fails if the file selects a variant of LoRA that
/// kiln does not have. `source` names the file in messages. Fuzzers call this
/// function; it accesses only its arguments.
Result<AdapterConfig> parseAdapterConfig(std::string_view json,
                                         const std::string &source);

/// Largest size of adapter_config.json that is read.
inline constexpr uint64_t maxAdapterConfigBytes = 1 << 20;

/// Returns the contents of adapter_config.json. `base` is the name or path of
/// the base model. `fanInFanOut` is true if the adapted weights are stored as
/// [inputs, outputs].
std::string adapterConfig(const LoraConfig &config, const std::string &base,
                          bool fanInFanOut);

/// Returns true if `target` equals the name `layer`, or the end of this name
/// after one of its dots.
bool isLoraTarget(std::string_view layer, std::string_view target);

} // namespace kiln::support

#endif // KILN_SUPPORT_LORACONFIG_H
