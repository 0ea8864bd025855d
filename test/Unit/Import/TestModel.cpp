//===- TestModel.cpp - Model directories for tests ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;
using nlohmann::json;

json kiln::test::gpt2Config() {
  return {{"model_type", "gpt2"},
          {"architectures", json::array({"GPT2LMHeadModel"})},
          {"vocab_size", 50},
          {"n_positions", 16},
          {"n_embd", 24},
          {"n_layer", 2},
          {"n_head", 3},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"embd_pdrop", 0.1},
          {"attn_pdrop", 0.1},
          {"resid_pdrop", 0.1},
          {"layer_norm_epsilon", 1e-5},
          {"initializer_range", 0.02}};
}

json kiln::test::llamaConfig() {
  return {{"model_type", "llama"},
          {"architectures", json::array({"LlamaForCausalLM"})},
          {"vocab_size", 50},
          {"hidden_size", 24},
          {"intermediate_size", 40},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"hidden_act", "silu"},
          {"max_position_embeddings", 16},
          {"initializer_range", 0.02},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"rope_scaling", nullptr},
          {"tie_word_embeddings", false}};
}

json kiln::test::mistralConfig() {
  json config = llamaConfig();
  config["model_type"] = "mistral";
  config["architectures"] = json::array({"MistralForCausalLM"});
  config["sliding_window"] = nullptr;
  return config;
}

json kiln::test::qwen2Config() {
  json config = llamaConfig();
  config["model_type"] = "qwen2";
  config["architectures"] = json::array({"Qwen2ForCausalLM"});
  config["use_sliding_window"] = false;
  config["sliding_window"] = 8;
  config["max_window_layers"] = 2;
  return config;
}

ModelDirectory::ModelDirectory() {
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createUniqueDirectory("kiln-import", path))
    ADD_FAILURE() << "cannot create a temporary directory";
  directory = path.str().str();
}

ModelDirectory::ModelDirectory(const json &config) : ModelDirectory() {
  write("config.json", config.dump(2));
}

ModelDirectory::~ModelDirectory() {
  llvm::sys::fs::remove_directories(directory);
}

void ModelDirectory::write(llvm::StringRef name, llvm::StringRef text) const {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, name);
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    ADD_FAILURE() << "cannot write " << path.str().str();
  os << text;
}

Imported kiln::test::importDirectory(llvm::StringRef directory,
                                     const ImportOptions &options) {
  Imported result;
  result.context = std::make_unique<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
  auto module = importHuggingFace(*result.context, directory, options);
  if (module)
    result.module = std::move(*module);
  else
    llvm::handleAllErrors(module.takeError(), [&](const ImportError &error) {
      result.error = error.message();
      result.code = error.getExitCode();
    });
  return result;
}

Imported kiln::test::importConfig(const json &config,
                                  const ImportOptions &options) {
  ModelDirectory directory(config);
  return importDirectory(directory.path(), options);
}

std::string kiln::test::takeMessage(llvm::Error error) {
  return llvm::toString(std::move(error));
}

std::string kiln::test::print(mlir::ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream os(text);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo(locations, /*prettyForm=*/false);
  module.print(os, flags);
  return text;
}
