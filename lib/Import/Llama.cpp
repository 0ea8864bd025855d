//===- Llama.cpp - Llama, Mistral and Qwen2 importer ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Llama has rotary positions, RMS norm before each block, grouped-query
// attention, a gated MLP, and weights stored as [outputs, inputs]. Mistral has
// the same graph; Qwen2 has biases on the query, key and value projections
// only. Mistral and Qwen2 may have a sliding window, which is rejected unless
// it covers the whole sequence.
//
//===----------------------------------------------------------------------===//

#include "Architectures.h"
#include "ForwardGraph.h"
#include "RopeFrequencies.h"

#include <cmath>

using namespace kiln;
using llvm::StringRef;
using mlir::Value;

namespace {
struct LlamaConfig {
  int64_t vocabulary, positions, width, inner, layers;
  int64_t heads, keyHeads, headDim;
  double eps, initializerRange, attentionDropout;
  Activation activation;
  /// `inputBias` is true if the projections q, k and v have biases,
  /// `outputBias` if the projection o has a bias, and `mlpBias` if the MLP has
  /// biases.
  bool inputBias, outputBias, mlpBias;
  bool tied;
  std::optional<int64_t> paddingIndex;
};
} // namespace

static LlamaConfig readConfig(ConfigReader &config, StringRef type,
                              std::optional<double> dropout) {
  LlamaConfig c;
  c.vocabulary = config.requireInteger("vocab_size", 1, kMaxVocabulary);
  c.positions =
      config.requireInteger("max_position_embeddings", 1, kMaxDimension);
  c.width = config.requireInteger("hidden_size", 1, kMaxDimension);
  c.inner = config.requireInteger("intermediate_size", 1, kMaxDimension);
  c.layers = config.requireInteger("num_hidden_layers", 1, kMaxLayers);
  c.heads = config.requireInteger("num_attention_heads", 1, kMaxDimension);
  // For Mistral and Qwen2, num_key_value_heads is required, because its default
  // depends on the transformers version.
  if (type != "llama" && !config.mentions("num_key_value_heads"))
    config.requireInteger("num_key_value_heads", 1, kMaxDimension);
  c.keyHeads =
      config.getOptionalInteger("num_key_value_heads", 1, kMaxDimension)
          .value_or(c.heads);
  if (c.heads % c.keyHeads != 0)
    config.refuse("num_key_value_heads",
                  "a divisor of num_attention_heads, which is " +
                      llvm::Twine(c.heads));
  if (!config.has("head_dim") && c.width % c.heads != 0)
    config.refuse("num_attention_heads", "a divisor of hidden_size, which is " +
                                             llvm::Twine(c.width) +
                                             ", unless head_dim is given");
  c.headDim = config.getOptionalInteger("head_dim", 1, kMaxHeadDimension)
                  .value_or(c.width / c.heads);
  if (c.headDim % 2 != 0 || c.headDim > kMaxHeadDimension)
    config.refuse(config.has("head_dim") ? "head_dim" : "hidden_size",
                  "an even number of features per head, up to " +
                      llvm::Twine(kMaxHeadDimension));

  c.eps = config.getReal("rms_norm_eps", 0.0, 1.0);
  c.initializerRange = config.getReal("initializer_range", 0.0, 1e6);
  c.attentionDropout = config.getProbability("attention_dropout");
  if (dropout)
    c.attentionDropout = *dropout;
  c.tied = config.getBool("tie_word_embeddings");
  c.paddingIndex = config.getOptionalInteger("pad_token_id", -c.vocabulary,
                                             c.vocabulary - 1);
  // A negative pad_token_id of -i denotes the row vocabulary - i of the
  // embedding.
  if (c.paddingIndex && *c.paddingIndex < 0)
    *c.paddingIndex += c.vocabulary;
  std::optional<Activation> activation =
      parseActivation(config.getString("hidden_act"));
  if (!activation)
    config.refuse("hidden_act", supportedActivations);
  c.activation = activation.value_or(Activation::Silu);

  c.inputBias = c.outputBias = c.mlpBias = false;
  if (type == "llama") {
    c.inputBias = c.outputBias = config.getBool("attention_bias");
    c.mlpBias = config.getBool("mlp_bias");
  } else {
    c.inputBias = type == "qwen2";
  }
  return c;
}

/// Returns the sliding window size, or nullopt if no layer has a window.
static std::optional<int64_t> readWindow(ConfigReader &config, StringRef type) {
  if (type == "llama")
    return std::nullopt;
  std::optional<int64_t> window =
      config.getOptionalInteger("sliding_window", 1, INT32_MAX);
  if (type == "qwen2" && !config.getBool("use_sliding_window"))
    return std::nullopt;
  return window;
}

/// Rejects attention that does not cover the whole preceding sequence.
static void checkLayerTypes(ConfigReader &config, StringRef type,
                            int64_t layers, int64_t length) {
  std::optional<int64_t> window = readWindow(config, type);
  std::vector<std::string> types = config.getStrings("layer_types");
  bool given = config.has("layer_types");
  if (given && static_cast<int64_t>(types.size()) != layers)
    config.refuse("layer_types", "one entry for each of the " +
                                     llvm::Twine(layers) + " layers");
  bool named = false;
  for (const std::string &layer : types) {
    named |= layer == "sliding_attention";
    if (layer != "full_attention" && !(layer == "sliding_attention" && window))
      config.refuse("layer_types", "full_attention in every layer");
  }
  // Mistral applies the window in every layer and ignores layer_types.
  bool slides = type == "mistral";
  if (type == "qwen2") {
    int64_t first =
        config.getInteger("max_window_layers", INT32_MIN, INT32_MAX);
    slides = given ? named : first < layers;
  }
  if (window && slides && length > *window)
    config.refuse("sliding_window",
                  "null, or at least the sequence length, which is " +
                      llvm::Twine(length));
}

static Value buildAttention(ForwardGraph &graph, const LlamaConfig &c,
                            llvm::ArrayRef<double> frequencies, Value x,
                            const std::string &layer) {
  std::string name = layer + ".self_attn";
  auto project = [&](Value input, const char *part, int64_t outputs,
                     bool bias) {
    return graph.linear(input, name + part, outputs, WeightLayout::OutIn, bias,
                        c.initializerRange);
  };
  int64_t keyWidth = c.keyHeads * c.headDim;
  Value q = project(x, ".q_proj", c.heads * c.headDim, c.inputBias);
  Value k = project(x, ".k_proj", keyWidth, c.inputBias);
  Value v = project(x, ".v_proj", keyWidth, c.inputBias);
  q = graph.rope(q, name + ".rotary_q", c.heads, frequencies);
  k = graph.rope(k, name + ".rotary_k", c.keyHeads, frequencies);
  AttentionShape shape = {c.heads, c.keyHeads,
                          1.0 / std::sqrt(static_cast<double>(c.headDim)),
                          c.attentionDropout};
  Value mixed = graph.attention(q, k, v, name, shape);
  return project(mixed, ".o_proj", c.width, c.outputBias);
}

static Value buildMlp(ForwardGraph &graph, const LlamaConfig &c, Value x,
                      const std::string &layer) {
  std::string name = layer + ".mlp";
  auto project = [&](Value input, const char *part, int64_t outputs) {
    return graph.linear(input, name + part, outputs, WeightLayout::OutIn,
                        c.mlpBias, c.initializerRange);
  };
  Value gate = project(x, ".gate_proj", c.inner);
  Value up = project(x, ".up_proj", c.inner);
  Value y = graph.gatedActivation(gate, up, name + ".act_fn", c.activation);
  return project(y, ".down_proj", c.width);
}

llvm::Expected<ImportedModel> kiln::importLlama(const ImportRequest &request) {
  ConfigReader &config = request.config;
  LlamaConfig c = readConfig(config, request.type, request.options.dropout);
  if (config.failed())
    return config.finish(request.type);
  llvm::Expected<int64_t> length =
      request.chooseSequenceLength(c.positions, "max_position_embeddings");
  if (!length)
    return length.takeError();
  checkLayerTypes(config, request.type, c.layers, *length);
  llvm::Expected<RopeConfig> rope =
      readRopeConfig(config, request.type, c.positions, *length);
  if (!rope)
    return rope.takeError();
  if (llvm::Error error = config.finish(request.type))
    return std::move(error);

  std::vector<double> frequencies = ropeInverseFrequencies(*rope, c.headDim);
  ForwardGraph graph(request.context, "model.", request.options.batch, *length,
                     request.options.elementType);
  Value x = graph.embedding("embed_tokens", c.vocabulary, c.width,
                            c.initializerRange, c.paddingIndex);
  for (int64_t i = 0, e = request.options.layersOf(c.layers); i < e; ++i) {
    std::string layer = "layers." + std::to_string(i);
    graph.enterLayer(layer, i);
    Value y = graph.rmsNorm(x, layer + ".input_layernorm", c.eps);
    x = graph.add(x, buildAttention(graph, c, frequencies, y, layer),
                  layer + ".self_attn.residual");
    y = graph.rmsNorm(x, layer + ".post_attention_layernorm", c.eps);
    x = graph.add(x, buildMlp(graph, c, y, layer), layer + ".mlp.residual");
  }
  graph.leaveLayer();
  x = graph.rmsNorm(x, "norm", c.eps);
  graph.finishWithLoss(x, "lm_head",
                       c.tied ? "embed_tokens.weight" : "lm_head.weight",
                       c.vocabulary, c.initializerRange);

  auto module = graph.takeModule(config.getFile());
  if (!module)
    return module.takeError();
  return ImportedModel{std::move(*module), c.vocabulary, request.options.batch,
                       *length};
}
