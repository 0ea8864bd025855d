//===- LoraConfig.cpp - Options of low-rank adapters ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/LoraConfig.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/JsonReader.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

using namespace kiln::support;
using namespace kiln;

static constexpr int64_t maxRank = INT32_MAX;

double LoraConfig::scale() const {
  return alpha / (rankStabilized ? std::sqrt(double(rank)) : double(rank));
}

static std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

static std::string joined(const std::vector<std::string> &parts,
                          const char *separator) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : separator) + part;
  return text;
}

static std::string shortest(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

static void sortTargets(LoraConfig &config) {
  std::vector<std::string> &targets = config.targets;
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
}

template <typename T> static bool parseNumber(std::string_view text, T &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Returns what is wrong with the ranges of the options, or "".
static std::string problemOf(const LoraConfig &config) {
  if (config.rank < 1 || config.rank > maxRank)
    return "r is " + std::to_string(config.rank) + ", expected 1 to " +
           std::to_string(maxRank);
  if (!(config.alpha > 0) || !std::isfinite(config.alpha))
    return "alpha is " + shortest(config.alpha) + ", expected more than 0";
  // The results of adapters are scaled in f32.
  if (!std::isnormal(float(config.scale())))
    return "alpha is " + shortest(config.alpha) + ", which gives the scale " +
           shortest(config.scale()) + ", expected a scale in the range of f32";
  if (!(config.dropout >= 0 && config.dropout < 1))
    return "dropout is " + shortest(config.dropout) +
           ", expected at least 0 and below 1";
  for (const std::string &target : config.targets) {
    // A target must not contain these characters, because some of them separate
    // options.
    if (target.empty() || target.find_first_of(",:= {}'\"") != target.npos)
      return "targets has " + inQuotes(target, 40) +
             ", expected the name of a layer, such as c_attn";
    if (target == allLinear && config.targets.size() > 1)
      return "targets has all-linear and other names, expected either";
  }
  return "";
}

Result<LoraConfig> kiln::support::parseLoraOptions(std::string_view text) {
  auto fail = [](const std::string &message) {
    return Status(ExitCode::Usage, message);
  };
  LoraConfig config;
  std::set<std::string> seen;
  if (text.empty())
    return fail("is empty, expected a list such as r=8,alpha=16, or default");
  if (text == "default")
    return config;
  for (const std::string &item : split(text, ',')) {
    std::size_t equals = item.find('=');
    std::string name = item.substr(0, equals);
    std::string value =
        equals == item.npos ? std::string() : item.substr(equals + 1);
    auto bad = [&](const char *expected) {
      return fail(name + " is " + inQuotes(value, 40) + ", expected " +
                  expected);
    };
    if (!seen.insert(name).second)
      return fail(inQuotes(name, 40) + " is given twice, expected once");
    if (name == "r") {
      if (!parseNumber(value, config.rank))
        return bad("a positive number");
    } else if (name == "alpha") {
      if (!parseNumber(value, config.alpha))
        return bad("a number above 0");
    } else if (name == "dropout") {
      if (!parseNumber(value, config.dropout))
        return bad("a number of at least 0 and below 1");
    } else if (name == "targets") {
      config.targets = split(value, ':');
    } else if (name == "rslora") {
      if (value != "on" && value != "off")
        return bad("on or off");
      config.rankStabilized = value == "on";
    } else {
      return fail("has " + inQuotes(item, 40) +
                  ", expected r=N, alpha=X, dropout=X, "
                  "targets=NAME:NAME, targets=all-linear or rslora=on");
    }
  }
  sortTargets(config);
  if (std::string problem = problemOf(config); !problem.empty())
    return fail(problem);
  return config;
}

std::string kiln::support::loraOptions(const LoraConfig &config) {
  std::string text = "r=" + std::to_string(config.rank) +
                     ",alpha=" + shortest(config.alpha) +
                     ",dropout=" + shortest(config.dropout);
  if (!config.targets.empty())
    text += ",targets=" + joined(config.targets, ":");
  if (config.rankStabilized)
    text += ",rslora=on";
  return text;
}

/// Returns true if `init`, the value of "init_lora_weights", names an
/// initialization that does not change the weights of the base model.
static bool keepsBase(const nlohmann::json &init) {
  return init.is_null() || init.is_boolean() || init == "gaussian" ||
         init == "orthogonal";
}

/// Returns true if a member has the value that turns its feature off.
static bool isOff(const nlohmann::json &value) {
  return value.is_null() || value == false || value == "none" || value == "" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

Result<AdapterConfig>
kiln::support::parseAdapterConfig(std::string_view text,
                                  const std::string &source) {
  Result<nlohmann::json> json = parseJson(text, source);
  if (!json.ok())
    return json.status();
  auto fail = [&](const std::string &message) {
    return Status::badInput(source + ": " + message);
  };
  if (!json->is_object())
    return fail("expected a JSON object");
  ReadFailure failure(ExitCode::BadInput, source,
                      "expected the configuration of a LoRA adapter of PEFT");
  Node root(*json, failure);
  std::string type = root.at("peft_type").text();
  if (!failure.failed() && type != "LORA")
    root.at("peft_type").fail("is " + inQuotes(type, 40) + ", expected LORA");
  // Variants of LoRA that change what the adapter computes or which tensors it
  // has.
  static const char *const variants[] = {"use_dora",
                                         "use_qalora",
                                         "modules_to_save",
                                         "rank_pattern",
                                         "alpha_pattern",
                                         "layers_to_transform",
                                         "layers_pattern",
                                         "layer_replication",
                                         "exclude_modules",
                                         "target_parameters",
                                         "lora_bias",
                                         "bias",
                                         "trainable_token_indices",
                                         "alora_invocation_tokens",
                                         "use_bdlora",
                                         "arrow_config",
                                         "megatron_config",
                                         "loftq_config",
                                         "eva_config",
                                         "corda_config",
                                         "lora_ga_config"};
  for (const char *variant : variants)
    if (auto member = json->find(variant);
        member != json->end() && !isOff(*member) && !failure.failed())
      return fail("'" + std::string(variant) + "' is " +
                  printable(member->dump(), 60) +
                  ", which kiln does not support");
  if (auto init = json->find("init_lora_weights");
      init != json->end() && !keepsBase(*init) && !failure.failed())
    return fail("'init_lora_weights' is " + printable(init->dump(), 60) +
                ": this initialization changes the weights of the base model, "
                "which kiln does not support");
  AdapterConfig result;
  LoraConfig &config = result.lora;
  if (std::optional<Node> base = root.find("base_model_name_or_path"))
    result.base = base->text();
  if (std::optional<Node> rank = root.find("r"))
    config.rank = rank->integer(1);
  if (std::optional<Node> alpha = root.find("lora_alpha"))
    config.alpha = alpha->real();
  if (std::optional<Node> dropout = root.find("lora_dropout"))
    config.dropout = dropout->real();
  if (std::optional<Node> stabilized = root.find("use_rslora"))
    config.rankStabilized = stabilized->boolean();
  if (std::optional<Node> targets = root.find("target_modules")) {
    if (targets->json().is_array()) {
      for (std::size_t i = 0; i < targets->size(); ++i)
        config.targets.push_back(targets->element(i).text());
      sortTargets(config);
    } else if (std::string name = targets->text(); name == allLinear) {
      config.targets = {name};
    } else if (!targets->failed()) {
      return fail("'target_modules' is the pattern " + inQuotes(name, 60) +
                  ", expected a list of names or all-linear");
    }
  }
  if (failure.failed())
    return failure.status();
  if (std::string problem = problemOf(config); !problem.empty())
    return fail(problem);
  return result;
}

std::string kiln::support::adapterConfig(const LoraConfig &config,
                                         const std::string &base,
                                         bool fanInFanOut) {
  nlohmann::json targets = nlohmann::json(config.targets);
  if (config.isAllLinear())
    targets = allLinear;
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", "CAUSAL_LM"},
                                 {"base_model_name_or_path", base},
                                 {"revision", nullptr},
                                 {"inference_mode", true},
                                 {"r", config.rank},
                                 {"lora_alpha", config.alpha},
                                 {"lora_dropout", config.dropout},
                                 {"target_modules", targets},
                                 {"use_rslora", config.rankStabilized},
                                 {"use_dora", false},
                                 {"fan_in_fan_out", fanInFanOut},
                                 {"bias", "none"},
                                 {"init_lora_weights", true},
                                 {"modules_to_save", nullptr},
                                 {"layers_to_transform", nullptr},
                                 {"layers_pattern", nullptr},
                                 {"rank_pattern", nlohmann::json::object()},
                                 {"alpha_pattern", nlohmann::json::object()}};
  // PEFT declares lora_alpha as an integer; write integral values as such.
  if (config.alpha == std::floor(config.alpha) && config.alpha < 1e15)
    json["lora_alpha"] = int64_t(config.alpha);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

bool kiln::support::isLoraTarget(std::string_view layer,
                                 std::string_view target) {
  if (layer.size() <= target.size())
    return layer == target;
  return layer.substr(layer.size() - target.size()) == target &&
         layer[layer.size() - target.size() - 1] == '.';
}
