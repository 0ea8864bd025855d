//===- Gpt2.cpp - GPT-2 importer ------------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GPT-2 has learned positions, layer norm before each block, a fused
// query-key-value projection, weights stored as [inputs, outputs], and a
// classifier tied to the token embedding.
//
//===----------------------------------------------------------------------===//

#include "Architectures.h"
#include "ForwardGraph.h"

#include <cmath>

using namespace kiln;
using llvm::StringRef;
using mlir::Value;

namespace {
struct Gpt2Config {
  int64_t vocabulary, positions, width, layers, heads, inner;
  double eps, initializerRange;
  double embeddingDropout, attentionDropout, residualDropout;
  Activation activation;
  bool scaleAttention, scaleByLayer, tied;
};
} // namespace

static Gpt2Config readConfig(ConfigReader &config,
                             std::optional<double> dropout) {
  config.addSpelling("n_embd", "hidden_size");
  config.addSpelling("n_layer", "num_hidden_layers");
  config.addSpelling("n_head", "num_attention_heads");
  config.addSpelling("n_positions", "max_position_embeddings");

  Gpt2Config c;
  c.vocabulary = config.requireInteger("vocab_size", 1, kMaxVocabulary);
  c.positions = config.requireInteger("n_positions", 1, kMaxDimension);
  c.width = config.requireInteger("n_embd", 1, kMaxDimension);
  c.layers = config.requireInteger("n_layer", 1, kMaxLayers);
  c.heads = config.requireInteger("n_head", 1, kMaxDimension);
  c.inner = config.getOptionalInteger("n_inner", 1, kMaxDimension)
                .value_or(4 * c.width);
  c.eps = config.getReal("layer_norm_epsilon", 0.0, 1.0);
  c.initializerRange = config.getReal("initializer_range", 0.0, 1e6);
  c.embeddingDropout = config.getProbability("embd_pdrop");
  c.attentionDropout = config.getProbability("attn_pdrop");
  c.residualDropout = config.getProbability("resid_pdrop");
  if (dropout)
    c.embeddingDropout = c.attentionDropout = c.residualDropout = *dropout;
  c.scaleAttention = config.getBool("scale_attn_weights");
  c.scaleByLayer = config.getBool("scale_attn_by_inverse_layer_idx");
  c.tied = config.getBool("tie_word_embeddings");

  std::optional<Activation> activation =
      parseActivation(config.getString("activation_function"));
  if (!activation)
    config.refuse("activation_function", supportedActivations);
  c.activation = activation.value_or(Activation::GeluTanh);
  if (c.width % c.heads != 0)
    config.refuse("n_head",
                  "a divisor of n_embd, which is " + llvm::Twine(c.width));
  return c;
}

static Value buildAttention(ForwardGraph &graph, const Gpt2Config &c, Value x,
                            int64_t layer) {
  std::string name = "h." + std::to_string(layer) + ".attn";
  double scale = 1.0;
  if (c.scaleAttention)
    scale /= std::sqrt(static_cast<double>(c.width / c.heads));
  if (c.scaleByLayer)
    scale /= static_cast<double>(layer + 1);

  std::string fused = name + ".c_attn";
  Value qkv = graph.linear(x, fused, 3 * c.width, WeightLayout::InOut,
                           /*bias=*/true, c.initializerRange);
  Value q = graph.columns(qkv, fused, 0, c.width);
  Value k = graph.columns(qkv, fused, c.width, c.width);
  Value v = graph.columns(qkv, fused, 2 * c.width, c.width);
  AttentionShape shape = {c.heads, c.heads, scale, c.attentionDropout};
  Value mixed = graph.attention(q, k, v, name, shape);

  // Each of the L layers adds two terms to the residual stream. Initializing
  // the weights that compute these terms with a standard deviation proportional
  // to 1 / sqrt(2 L) makes the variance of the sum independent of L.
  double projected =
      c.initializerRange / std::sqrt(2.0 * static_cast<double>(c.layers));
  Value y = graph.linear(mixed, name + ".c_proj", c.width, WeightLayout::InOut,
                         /*bias=*/true, projected);
  return graph.dropout(y, name + ".resid_dropout", c.residualDropout);
}

static Value buildMlp(ForwardGraph &graph, const Gpt2Config &c, Value x,
                      int64_t layer) {
  std::string name = "h." + std::to_string(layer) + ".mlp";
  double projected =
      c.initializerRange / std::sqrt(2.0 * static_cast<double>(c.layers));
  Value y = graph.linear(x, name + ".c_fc", c.inner, WeightLayout::InOut,
                         /*bias=*/true, c.initializerRange);
  y = graph.activation(y, name + ".act", c.activation);
  y = graph.linear(y, name + ".c_proj", c.width, WeightLayout::InOut,
                   /*bias=*/true, projected);
  return graph.dropout(y, name + ".dropout", c.residualDropout);
}

llvm::Expected<ImportedModel> kiln::importGpt2(const ImportRequest &request) {
  ConfigReader &config = request.config;
  Gpt2Config c = readConfig(config, request.options.dropout);
  if (llvm::Error error = config.finish(request.type))
    return std::move(error);
  llvm::Expected<int64_t> length =
      request.chooseSequenceLength(c.positions, "n_positions");
  if (!length)
    return length.takeError();

  ForwardGraph graph(request.context, "transformer.", request.options.batch,
                     *length, request.options.elementType);
  Value tokens =
      graph.embedding("wte", c.vocabulary, c.width, c.initializerRange);
  Value positions =
      graph.positionEmbedding("wpe", c.positions, c.width, c.initializerRange);
  Value x = graph.add(tokens, positions, "wpe");
  x = graph.dropout(x, "drop", c.embeddingDropout);
  for (int64_t layer = 0, e = request.options.layersOf(c.layers); layer < e;
       ++layer) {
    std::string name = "h." + std::to_string(layer);
    graph.enterLayer(name, layer);
    Value y = graph.layerNorm(x, name + ".ln_1", c.eps);
    x = graph.add(x, buildAttention(graph, c, y, layer),
                  name + ".attn.residual");
    y = graph.layerNorm(x, name + ".ln_2", c.eps);
    x = graph.add(x, buildMlp(graph, c, y, layer), name + ".mlp.residual");
  }
  graph.leaveLayer();
  x = graph.layerNorm(x, "ln_f", c.eps);
  graph.finishWithLoss(x, "lm_head", c.tied ? "wte.weight" : "lm_head.weight",
                       c.vocabulary, c.initializerRange);

  auto module = graph.takeModule(config.getFile());
  if (!module)
    return module.takeError();
  return ImportedModel{std::move(*module), c.vocabulary, request.options.batch,
                       *length};
}
