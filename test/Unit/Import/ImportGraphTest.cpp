//===- ImportGraphTest.cpp - Tests of imported graphs ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

#include <set>

using namespace kiln;
using namespace kiln::test;
using namespace mlir;
using nlohmann::json;

namespace {

class ImportGraph : public testing::Test {
protected:
  /// Imports a configuration and expects a module that verifies.
  void load(const json &config, const ImportOptions &options = {}) {
    imported = importConfig(config, options);
    ASSERT_EQ(imported.error, "");
    ASSERT_TRUE(succeeded(verify(*imported.module)));
    program = *imported.module->getOps<ProgramOp>().begin();
  }
  ModuleOp module() { return *imported.module; }
  StateOp state(StringRef symbol) {
    return module().lookupSymbol<StateOp>(symbol);
  }
  std::vector<int64_t> shape(StringRef symbol) {
    return state(symbol) ? state(symbol).getTensorType().getShape().vec()
                         : std::vector<int64_t>();
  }
  double stddev(StringRef symbol) {
    return cast<NormalAttr>(state(symbol).getInit())
        .getStddev()
        .getValueAsDouble();
  }
  template <typename OpT> std::vector<OpT> all() {
    std::vector<OpT> ops;
    program.walk([&](OpT op) { ops.push_back(op); });
    return ops;
  }
  /// Returns the location names of all ops of a type.
  template <typename OpT> std::vector<std::string> names() {
    std::vector<std::string> result;
    for (OpT op : all<OpT>())
      result.push_back(cast<NameLoc>(op.getLoc()).getName().str());
    return result;
  }
  std::vector<int64_t> keys() {
    std::vector<int64_t> result;
    program.walk([&](Operation *op) {
      if (auto dropout = dyn_cast<DropoutOp>(op))
        result.push_back(dropout.getKey());
      else if (auto attention = dyn_cast<AttentionOp>(op))
        if (attention.getRng())
          result.push_back(attention.getKey());
    });
    return result;
  }
  template <typename T> T modelEntry(StringRef key) {
    return module()->getAttrOfType<DictionaryAttr>("kiln.model").getAs<T>(key);
  }

  Imported imported;
  ProgramOp program;
};

using Names = std::vector<std::string>;
using Shape = std::vector<int64_t>;

TEST_F(ImportGraph, Gpt2HasTheStatesOfItsFiles) {
  load(gpt2Config());
  EXPECT_EQ(shape("wte.weight"), (Shape{50, 24}));
  EXPECT_EQ(shape("wpe.weight"), (Shape{16, 24}));
  EXPECT_EQ(shape("h.1.attn.c_attn.weight"), (Shape{24, 72}));
  EXPECT_EQ(shape("h.1.attn.c_attn.bias"), (Shape{72}));
  EXPECT_EQ(shape("h.1.attn.c_proj.weight"), (Shape{24, 24}));
  EXPECT_EQ(shape("h.1.mlp.c_fc.weight"), (Shape{24, 96}));
  EXPECT_EQ(shape("h.1.mlp.c_proj.weight"), (Shape{96, 24}));
  EXPECT_EQ(shape("ln_f.bias"), (Shape{24}));
  EXPECT_FALSE(state("lm_head.weight"));
  int64_t states = 0;
  for (StateOp state : module().getOps<StateOp>()) {
    ++states;
    EXPECT_EQ(state.getRole(), Role::Parameter);
    EXPECT_EQ(state.getSource(), "transformer." + state.getSymName().str());
    ASSERT_TRUE(state.getAliases());
    EXPECT_EQ(cast<StringAttr>((*state.getAliases())[0]).getValue(),
              state.getSymName());
  }
  EXPECT_EQ(states, 2 + 2 * 12 + 2);
}

TEST_F(ImportGraph, Gpt2StartsAsItsAuthorsDo) {
  json config = gpt2Config();
  config["initializer_range"] = 0.05;
  load(config);
  EXPECT_EQ(stddev("wte.weight"), 0.05);
  EXPECT_EQ(stddev("h.0.attn.c_attn.weight"), 0.05);
  EXPECT_EQ(stddev("h.0.attn.c_proj.weight"), 0.05 / 2); // sqrt(2 * 2 layers)
  EXPECT_EQ(stddev("h.1.mlp.c_proj.weight"), 0.05 / 2);
  EXPECT_EQ(cast<SplatAttr>(state("ln_f.weight").getInit())
                .getValue()
                .getValueAsDouble(),
            1.0);
  EXPECT_EQ(cast<SplatAttr>(state("ln_f.bias").getInit())
                .getValue()
                .getValueAsDouble(),
            0.0);
}

TEST_F(ImportGraph, RandomOpsHaveKeysInOrder) {
  load(gpt2Config());
  // The dropout after the embedding has key 0. Each layer has three keys: for
  // dropout in the attention, after the projection of the attention, and after
  // the MLP.
  EXPECT_EQ(keys(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  ImportOptions options;
  options.batch = 3;
  load(gpt2Config(), options);
  for (DropoutOp op : all<DropoutOp>()) {
    EXPECT_EQ(op.getSequences(), 3);
    EXPECT_EQ(op.getP().convertToDouble(), 0.1);
  }
}

TEST_F(ImportGraph, NoDropoutMeansNoRandomOp) {
  ImportOptions options;
  options.dropout = 0.0;
  load(gpt2Config(), options);
  EXPECT_TRUE(keys().empty());
  EXPECT_TRUE(all<DropoutOp>().empty());
  EXPECT_EQ(all<AttentionOp>().front().getP().convertToDouble(), 0.0);
  // The program still has the argument 'rng', although no op uses it.
  EXPECT_EQ(program.getInputName(2), "rng");
}

TEST_F(ImportGraph, DropoutOptionReplacesTheModels) {
  ImportOptions options;
  options.dropout = 0.25;
  load(gpt2Config(), options);
  for (DropoutOp op : all<DropoutOp>())
    EXPECT_EQ(op.getP().convertToDouble(), 0.25);
  load(llamaConfig(), options);
  EXPECT_EQ(keys(), (std::vector<int64_t>{0, 1}));
}

TEST_F(ImportGraph, OpsCarryTheirLayer) {
  auto layers = [&](auto ops) {
    Names result;
    for (Operation *op : ops) {
      LayerAttr layer = getLayer(op);
      result.push_back(layer ? layer.getName().str() + " " +
                                   std::to_string(layer.getNumber())
                             : "none");
    }
    return result;
  };
  load(gpt2Config());
  EXPECT_EQ(layers(all<LayerNormOp>()),
            (Names{"h.0 0", "h.0 0", "h.1 1", "h.1 1", "none"}));
  EXPECT_EQ(layers(all<EmbeddingOp>()), (Names{"none"}));
  EXPECT_EQ(layers(all<LinearCrossEntropyOp>()), (Names{"none"}));
  load(llamaConfig());
  EXPECT_EQ(layers(all<RopeOp>()),
            (Names{"layers.0 0", "layers.0 0", "layers.1 1", "layers.1 1"}));
  // A read of a state belongs to no layer, because several layers may share the
  // state.
  for (ReadOp read : all<ReadOp>())
    EXPECT_FALSE(getLayer(read)) << read.getState().str();
}

TEST_F(ImportGraph, OpsAreNamedAfterTheirModule) {
  load(gpt2Config());
  EXPECT_EQ(names<LayerNormOp>(),
            (Names{"h.0.ln_1", "h.0.ln_2", "h.1.ln_1", "h.1.ln_2", "ln_f"}));
  EXPECT_EQ(names<AttentionOp>(), (Names{"h.0.attn", "h.1.attn"}));
  EXPECT_EQ(names<DropoutOp>(),
            (Names{"drop", "h.0.attn.resid_dropout", "h.0.mlp.dropout",
                   "h.1.attn.resid_dropout", "h.1.mlp.dropout"}));
  load(llamaConfig());
  EXPECT_EQ(names<MatmulOp>()[0], "layers.0.self_attn.q_proj");
  EXPECT_EQ(names<MatmulOp>()[6], "layers.0.mlp.down_proj");
  EXPECT_EQ(names<RmsNormOp>().back(), "norm");
}

TEST_F(ImportGraph, AttentionScaleFollowsTheConfiguration) {
  json config = gpt2Config();
  config["scale_attn_by_inverse_layer_idx"] = true;
  load(config);
  double head = 1.0 / std::sqrt(8.0);
  EXPECT_DOUBLE_EQ(all<AttentionOp>()[0].getScale().convertToDouble(), head);
  EXPECT_DOUBLE_EQ(all<AttentionOp>()[1].getScale().convertToDouble(),
                   head / 2);
  config["scale_attn_weights"] = false;
  load(config);
  EXPECT_EQ(all<AttentionOp>()[0].getScale().convertToDouble(), 1.0);
  EXPECT_EQ(all<AttentionOp>()[1].getScale().convertToDouble(), 0.5);
}

TEST_F(ImportGraph, PositionsBeyondTheSequenceAreCutOff) {
  ImportOptions options;
  options.sequenceLength = 5;
  load(gpt2Config(), options);
  EXPECT_EQ(shape("wpe.weight"), (Shape{16, 24}));
  EXPECT_EQ(tensorTypeOf(all<BroadcastOp>()[0].getX()).getShape(),
            (ArrayRef<int64_t>{5, 24}));
}

TEST_F(ImportGraph, ActivationsByName) {
  auto withActivation = [](json config, const char *key, const char *name) {
    config[key] = name;
    return config;
  };
  auto gpt2 = [&](const char *name) {
    return withActivation(gpt2Config(), "activation_function", name);
  };
  load(gpt2("gelu_pytorch_tanh"));
  EXPECT_TRUE(all<GeluOp>()[0].getTanh());
  load(gpt2("gelu"));
  EXPECT_FALSE(all<GeluOp>()[0].getTanh());
  load(gpt2("relu"));
  EXPECT_EQ(all<ReluOp>().size(), 2u);
  load(gpt2("swish"));
  EXPECT_EQ(all<SiluOp>().size(), 2u);
  load(llamaConfig());
  EXPECT_EQ(all<SwigluOp>().size(), 2u);
  load(withActivation(llamaConfig(), "hidden_act", "gelu"));
  EXPECT_EQ(all<GeluOp>().size(), 2u);
  EXPECT_EQ(all<MulOp>().size(), 2u);
}

TEST_F(ImportGraph, Gpt2AlsoKnowsTheGeneralNames) {
  json config = gpt2Config();
  config["hidden_size"] = config["n_embd"];
  config["num_hidden_layers"] = 1;
  config.erase("n_layer");
  load(config);
  EXPECT_EQ(all<AttentionOp>().size(), 1u);
}

TEST_F(ImportGraph, UntiedHeadIsAStateOfItsOwn) {
  json config = gpt2Config();
  config["tie_word_embeddings"] = false;
  load(config);
  ASSERT_TRUE(state("lm_head.weight"));
  EXPECT_EQ(state("lm_head.weight").getSource(), "lm_head.weight");
  EXPECT_FALSE(state("lm_head.weight").getAliases());
  EXPECT_EQ(shape("lm_head.weight"), (Shape{50, 24}));
}

TEST_F(ImportGraph, LlamaHasTheStatesOfItsFiles) {
  load(llamaConfig());
  EXPECT_EQ(shape("layers.0.self_attn.q_proj.weight"), (Shape{24, 24}));
  EXPECT_EQ(shape("layers.0.self_attn.k_proj.weight"), (Shape{8, 24}));
  EXPECT_EQ(shape("layers.0.self_attn.o_proj.weight"), (Shape{24, 24}));
  EXPECT_EQ(shape("layers.0.mlp.gate_proj.weight"), (Shape{40, 24}));
  EXPECT_EQ(shape("layers.0.mlp.down_proj.weight"), (Shape{24, 40}));
  EXPECT_EQ(state("norm.weight").getSource(), "model.norm.weight");
  EXPECT_EQ(state("lm_head.weight").getSource(), "lm_head.weight");
  EXPECT_EQ(shape("rope.cos"), (Shape{16, 2}));
  EXPECT_EQ(state("rope.sin").getRole(), Role::Constant);
  EXPECT_FALSE(state("rope.sin").getSource());
  EXPECT_EQ(all<AttentionOp>()[0].getKvHeads(), 2);
  EXPECT_DOUBLE_EQ(all<AttentionOp>()[0].getScale().convertToDouble(), 0.5);
}

TEST_F(ImportGraph, LlamaVariants) {
  json config = llamaConfig();
  config["tie_word_embeddings"] = true;
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  config["head_dim"] = 10;
  config["num_key_value_heads"] = nullptr;
  load(config);
  EXPECT_FALSE(state("lm_head.weight"));
  EXPECT_EQ(shape("layers.0.self_attn.k_proj.weight"), (Shape{60, 24}));
  EXPECT_EQ(shape("layers.0.self_attn.o_proj.weight"), (Shape{24, 60}));
  EXPECT_EQ(shape("layers.0.self_attn.o_proj.bias"), (Shape{24}));
  EXPECT_EQ(shape("layers.0.mlp.up_proj.bias"), (Shape{40}));
  EXPECT_EQ(all<AttentionOp>()[0].getKvHeads(), 6);
}

TEST_F(ImportGraph, PadTokenIsThePaddingIndexOfLlamasEmbedding) {
  struct Case {
    json id;
    std::optional<int64_t> row;
  };
  for (const char *type : {"llama", "mistral", "qwen2"})
    for (Case c : {Case{nullptr, std::nullopt}, Case{0, 0}, Case{7, 7},
                   Case{49, 49}, Case{-1, 49}, Case{-50, 0}}) {
      json config = llamaConfig();
      config["model_type"] = type;
      config.erase("architectures");
      config["num_key_value_heads"] = 2;
      config["sliding_window"] = nullptr;
      config["pad_token_id"] = c.id;
      load(config);
      IntegerAttr index = all<EmbeddingOp>()[0].getPaddingIndexAttr();
      ASSERT_EQ(index != nullptr, c.row.has_value()) << type << " " << c.id;
      if (index) {
        EXPECT_EQ(index.getInt(), *c.row) << type << " " << c.id;
      }
      EXPECT_EQ(
          cast<NormalAttr>(state("embed_tokens.weight").getInit()).getZeroRow(),
          c.row);
    }
  json config = gpt2Config();
  config["pad_token_id"] = 3;
  load(config);
  EXPECT_FALSE(all<EmbeddingOp>()[0].getPaddingIndexAttr());
}

TEST_F(ImportGraph, BothSpellingsOfRopeAgree) {
  json old = llamaConfig();
  old["rope_theta"] = 500.0;
  old["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  load(old);
  std::string first = print(module());
  json fresh = llamaConfig();
  fresh.erase("rope_theta");
  fresh.erase("rope_scaling");
  fresh["rope_parameters"] = {
      {"rope_type", "linear"}, {"rope_theta", 500.0}, {"factor", 2.0}};
  load(fresh);
  EXPECT_EQ(first.substr(first.find("kiln.state")),
            print(module()).substr(print(module()).find("kiln.state")));
}

TEST_F(ImportGraph, MistralAndQwen2) {
  load(mistralConfig());
  EXPECT_FALSE(state("layers.0.self_attn.q_proj.bias"));
  EXPECT_EQ(modelEntry<StringAttr>("type"), "mistral");
  json config = mistralConfig();
  config["sliding_window"] = 16;
  load(config);
  load(qwen2Config());
  EXPECT_TRUE(state("layers.1.self_attn.q_proj.bias"));
  EXPECT_TRUE(state("layers.1.self_attn.v_proj.bias"));
  EXPECT_FALSE(state("layers.1.self_attn.o_proj.bias"));
  EXPECT_FALSE(state("layers.1.mlp.up_proj.bias"));
}

TEST_F(ImportGraph, DescribesTheModel) {
  json config = llamaConfig();
  ModelDirectory directory(config);
  directory.write("tokenizer.json", "{}");
  directory.write("notes.txt", "not a part of the model");
  ImportOptions options;
  options.batch = 2;
  options.sequenceLength = 8;
  imported = importDirectory(directory.path(), options);
  ASSERT_EQ(imported.error, "");
  EXPECT_EQ(modelEntry<StringAttr>("type"), "llama");
  EXPECT_EQ(modelEntry<IntegerAttr>("vocab_size").getInt(), 50);
  EXPECT_EQ(modelEntry<IntegerAttr>("batch").getInt(), 2);
  EXPECT_EQ(modelEntry<IntegerAttr>("sequence_length").getInt(), 8);
  EXPECT_FALSE(modelEntry<BoolAttr>("has_weights").getValue());
  ArrayAttr files = modelEntry<ArrayAttr>("files");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(cast<StringAttr>(files[0]), "config.json");
  EXPECT_EQ(cast<StringAttr>(files[1]), "tokenizer.json");

  directory.write("pytorch_model.bin", "");
  imported = importDirectory(directory.path(), options);
  EXPECT_TRUE(modelEntry<BoolAttr>("has_weights").getValue());
}

TEST_F(ImportGraph, ElementTypeOfStatesAndActivations) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ModelDirectory directory(gpt2Config());
  ImportOptions options;
  options.elementType = Float64Type::get(&context);
  auto module = importHuggingFace(context, directory.path(), options);
  ASSERT_TRUE(static_cast<bool>(module));
  EXPECT_TRUE(succeeded(verify(**module)));
  EXPECT_EQ(print(**module).find("f32"), std::string::npos);
}

TEST_F(ImportGraph, SameDirectorySameText) {
  ModelDirectory directory(llamaConfig());
  EXPECT_EQ(print(*importDirectory(directory.path()).module, true),
            print(*importDirectory(directory.path()).module, true));
}

} // namespace
