# ===- import_configs.py - Random configurations of small models -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Generates configurations for import_parity.py: a config.json as a dictionary, and the
sequence length to compile for.

A *documented* configuration has only keys and values that docs/use/import.md lists as
honoured or accepted; kiln must not reject it. A *free* configuration also has keys or values
that transformers accepts and kiln may reject. If transformers raises an error for a
configuration, the caller generates another one."""

ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"]
OTHER_ACTIVATIONS = ["gelu_fast", "quick_gelu", "mish", "tanh", "relu2", "sigmoid", "leaky_relu", "linear"]
CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
}
BATCH = 2


class Draw:
    """A configuration under construction; `rng` is a random.Random."""

    def __init__(self, rng, family):
        self.rng, self.family = rng, family
        self.config = {"model_type": family}

    def chance(self, probability):
        return self.rng.random() < probability

    def choose(self, *values):
        return self.rng.choice(values)

    def maybe(self, key, *values, probability=0.5):
        """Sets a key to one of the values, or leaves it out."""
        if self.chance(probability):
            self.config[key] = self.rng.choice(values)

    def epsilon(self):
        return self.choose(1e-5, 1e-6, 1e-8, 1e-3, 0.02)

    def token(self):
        """Returns a token id that may occur in the data, counted from either end, or None."""
        vocabulary = self.config["vocab_size"]
        return self.choose(None, 0, 1, vocabulary - 1, vocabulary // 2, -1, -vocabulary)

    def draw(self, documented):
        self.length = self.rng.randint(3, 16)
        self.config["vocab_size"] = self.rng.randint(11, 48)
        self.maybe("architectures", [CLASSES[self.family]], probability=0.8)
        if self.family == "gpt2":
            self.draw_gpt2()
        else:
            self.draw_llama()
        self.draw_accepted()
        if not documented:
            for _ in range(self.rng.randint(1, 2)):
                self.rng.choice(self.free_choices())()
        items = list(self.config.items())
        self.rng.shuffle(items)
        return dict(items), self.length

    # Honoured keys.

    def draw_gpt2(self):
        heads = self.choose(1, 2, 4)
        width = heads * self.choose(4, 8)
        names = {
            "n_embd": ("hidden_size", max(width, 16) // heads * heads),
            "n_layer": ("num_hidden_layers", self.rng.randint(1, 2)),
            "n_head": ("num_attention_heads", heads),
            "n_positions": ("max_position_embeddings", self.length + self.choose(0, 0, 1, 8)),
        }
        for name, (general, value) in names.items():
            which = self.rng.random()
            if which < 0.9:
                self.config[name] = value
            if which > 0.85:
                self.config[general] = value
        self.maybe("n_inner", None, 20, 33)
        self.maybe("activation_function", *ACTIVATIONS, probability=0.7)
        for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
            self.maybe(key, 0.0, 0.1, 0.5)
        self.maybe("layer_norm_epsilon", self.epsilon())
        self.maybe("initializer_range", 0.0, 0.02, 0.3)
        self.maybe("scale_attn_weights", True, False)
        self.maybe("scale_attn_by_inverse_layer_idx", True, False)
        self.maybe("tie_word_embeddings", True, False)
        self.maybe("pad_token_id", self.token())

    def draw_llama(self):
        c, heads = self.config, self.choose(1, 2, 4)
        c["num_attention_heads"] = heads
        head = self.choose(4, 8)
        c["hidden_size"] = max(heads * head, 16)
        c["intermediate_size"] = self.choose(16, 24, 31)
        layers = c["num_hidden_layers"] = self.rng.randint(1, 2)
        c["max_position_embeddings"] = self.length + self.choose(0, 0, 1, 16)
        divisors = [n for n in (1, 2, 4) if heads % n == 0]
        self.maybe("num_key_value_heads", *divisors, probability=0.7)
        if self.family != "llama":
            c.setdefault("num_key_value_heads", heads)
        self.maybe("head_dim", None, 2, 4, 6, 8, probability=0.3)
        self.maybe("hidden_act", *ACTIVATIONS, probability=0.5)
        self.maybe("initializer_range", 0.0, 0.02, 0.3)
        self.maybe("rms_norm_eps", self.epsilon())
        self.maybe("attention_dropout", 0.0, 0.1)
        self.maybe("tie_word_embeddings", True, False)
        self.maybe("pad_token_id", self.token())
        self.draw_rope()
        if self.family == "llama":
            self.maybe("attention_bias", True, False)
            self.maybe("mlp_bias", True, False)
            self.maybe("layer_types", ["full_attention"] * layers, probability=0.2)
        elif self.family == "mistral":
            self.maybe("sliding_window", None, self.length, self.length + 5, 4096, probability=0.8)
            slides = c.get("sliding_window", 4096) is not None
            types = ["full_attention", "sliding_attention"] if slides else ["full_attention"]
            self.maybe("layer_types", [self.rng.choice(types) for _ in range(layers)], probability=0.2)
        else:
            self.draw_qwen2_window(layers)

    def draw_qwen2_window(self, layers):
        """Adds windows that cover the sequence or that no layer uses."""
        c, length = self.config, self.length
        which = self.rng.randrange(5)
        if which == 0:
            self.maybe("use_sliding_window", False)
            self.maybe("sliding_window", None, 2, length, 4096)
            self.maybe("max_window_layers", 0, 1, 28)
        elif which == 1:
            c.update(use_sliding_window=True, sliding_window=length + self.choose(0, 3))
            self.maybe("max_window_layers", 0, 1, 28)
            self.maybe("layer_types", [self.choose("full_attention", "sliding_attention") for _ in range(layers)])
        elif which == 2:
            c.update(use_sliding_window=True, sliding_window=2, max_window_layers=layers + self.choose(0, 1))
        elif which == 3:
            c.update(use_sliding_window=True, sliding_window=2, layer_types=["full_attention"] * layers)
            self.maybe("max_window_layers", 0, 28)

    def draw_rope(self):
        """Adds settings of rotary positions in the format of either library version."""
        c = self.config
        kind = self.choose(None, None, "default", "linear", "dynamic", "llama3")
        theta = self.choose(100.0, 10000.0, 500000, 1e6)
        if kind is None:
            self.maybe("rope_theta", theta)
            self.maybe("rope_scaling", None)
            return
        rope = {}
        if kind in ("linear", "dynamic"):
            rope["factor"] = self.choose(1.0, 2.0, 2.5, 8)
        if kind == "llama3":
            rope.update(factor=self.choose(2.0, 8.0), low_freq_factor=self.choose(1.0, 0.5))
            rope["high_freq_factor"] = self.choose(4.0, 2, 1.5)
            if self.chance(0.7):
                rope["original_max_position_embeddings"] = self.choose(2, 8, 64)
        if self.chance(0.5):
            rope["rope_type"] = kind
            rope["rope_theta"] = theta
            c["rope_parameters"] = rope
            self.maybe("rope_theta", theta, probability=0.2)
        else:
            rope[self.choose("type", "rope_type")] = kind
            c["rope_scaling"] = rope
            self.maybe("rope_theta", theta, probability=0.8)

    # Keys that docs/use/import.md accepts with these values.

    def draw_accepted(self):
        accepted = {
            "is_causal": [True],
            "use_cache": [True, False],
            "bos_token_id": [None, 1, 50256],
            "eos_token_id": [None, 2, [1, 2]],
            "torch_dtype": ["float32", "bfloat16", "float64"],
            "dtype": ["float32", "bfloat16"],
            "attn_implementation": ["eager", "sdpa"],
            "output_hidden_states": [True, False],
            "return_dict": [True],
            "chunk_size_feed_forward": [0, 1],
            "is_decoder": [True, False],
            "is_encoder_decoder": [False],
            "add_cross_attention": [False],
            "cross_attention_hidden_size": [None],
            "num_labels": [2, 3],
            "id2label": [{"0": "a", "1": "b", "2": "c"}],
            "problem_type": [None, "regression"],
            "output_past": [True],
            "gradient_checkpointing": [True, False],
            "temperature": [0.5],
            "do_sample": [True, False],
            "max_length": [20, 50],
            "pruned_heads": [{}],
            "torchscript": [False],
            "task_specific_params": [{"text-generation": {"do_sample": True}}, None],
            "transformers_version": ["4.40.0", "5.0.0"],
            "_name_or_path": ["somewhere"],
            "unheard_of": [None],
        }
        llama = {
            "attention_bias": [True, False],
            "mlp_bias": [True, False],
            "pretraining_tp": [1, 2],
            "use_sliding_window": [True, False],
            "max_window_layers": [0, 28],
        }
        gpt2 = {
            "n_ctx": [8, 1024],
            "embd_pdrop": [0.0, 0.1],
            "resid_pdrop": [0.0, 0.1],
            "n_inner": [None, 7],
            "activation_function": ["relu"],
            "layer_norm_epsilon": [0.1],
            "scale_attn_weights": [False],
            "scale_attn_by_inverse_layer_idx": [True],
            "summary_first_dropout": [0.1],
        }
        if self.family == "qwen2":
            del llama["use_sliding_window"], llama["max_window_layers"]
        foreign = dict(gpt2, **llama)
        if self.family == "gpt2":
            foreign = dict(llama, hidden_act=["relu"], rms_norm_eps=[0.1], attention_dropout=[0.1])
            accepted["reorder_and_upcast_attn"] = [True, False]
            accepted["summary_type"] = ["cls_index", "last"]
            accepted["n_ctx"] = [8, 1024]
        accepted.update(foreign)
        for key in self.rng.sample(sorted(accepted), self.rng.randint(0, 5)):
            self.config.setdefault(key, self.rng.choice(accepted[key]))

    # Keys and values that kiln may reject.

    def free_choices(self):
        choices = [self.free_common] * 3 + [self.free_unknown]
        if self.family == "gpt2":
            return choices + [self.free_gpt2] * 2
        return choices + [self.free_llama] * 2 + [self.free_rope] * 3 + [self.free_window] * 2

    def set_one(self, values):
        key = self.rng.choice(sorted(values))
        self.config[key] = self.rng.choice(values[key])

    def free_common(self):
        layers = self.config.get("n_layer", self.config.get("num_hidden_layers", 1))
        self.set_one(
            {
                "is_causal": [False, None, 0, True],
                "add_cross_attention": [True],
                "is_encoder_decoder": [True],
                "cross_attention_hidden_size": [16],
                "attn_implementation": ["flex_attention", "eager"],
                "per_layer_config": [{}, None],
                "pruned_heads": [{"0": [0]}],
                "torchscript": [True],
                "layer_types": [["full_attention"] * layers, ["sliding_attention"] * layers],
                "attention_chunk_size": [2, None],
                "loss_type": ["ForCausalLM", "ForMaskedLM"],
                "return_dict": [False],
                "tie_last_hidden_states": [True, False],
                "output_attentions": [True],
                "experts_implementation": ["eager", None],
            }
        )

    def free_unknown(self):
        key = self.choose("logits_scaling", "residual_multiplier", "use_qk_norm", "final_softcap", "qk_layernorm")
        self.config[key] = self.choose(False, True, 0, 0.5, "", "on", [], {}, None)

    def free_gpt2(self):
        self.set_one(
            {
                "activation_function": OTHER_ACTIVATIONS,
                "sliding_window": [2, 64, None],
                "use_sliding_window": [True],
                "head_dim": [4],
                "rope_theta": [100.0],
                "n_inner": [1],
                "layer_norm_epsilon": [2.0, 0.0],
                "partial_rotary_factor": [0.5],
                "init_std": [0.5],
            }
        )

    def free_llama(self):
        self.set_one(
            {
                "hidden_act": OTHER_ACTIVATIONS,
                "head_dim": [3, 2, 10],
                "attention_multiplier": [0.5],
                "original_max_position_embeddings": [4, 64],
                "num_key_value_heads": [None, 1],
                "initializer_range": [0.0, 1.0],
                "rms_norm_eps": [2.0, 0.0],
                "clip_qkv": [1.0, None],
                "vision_config": [{}],
            }
        )

    def free_rope(self):
        c = self.config
        half = (c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]) // 2
        ropes = [
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4},
            {"rope_type": "yarn", "factor": 2.0, "beta_fast": 16, "truncate": False},
            {
                "rope_type": "longrope",
                "short_factor": [1.0 + i for i in range(half)],
                "long_factor": [2.0 + i for i in range(half)],
                "original_max_position_embeddings": 6,
            },
            {"rope_type": "default", "factor": 4.0},
            {"rope_type": "default", "mrope_section": [1]},
            {"rope_type": "linear", "factor": 0.5},
            {"rope_type": "linear", "factor": 2.0, "attention_factor": 1.5},
            {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
            {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 2},
            {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 2.0},
            {"rope_type": "proportional", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
            {"rope_type": "unheard-of"},
            {"type": "linear", "rope_type": "default", "factor": 2.0},
        ]
        which = self.rng.randrange(4)
        if which == 0:
            c["partial_rotary_factor"] = self.choose(0.5, 1.0, None)
        elif which == 1:
            c["rope_theta"] = self.choose(0.5, 2, 1e13)
        else:
            c.pop("rope_parameters", None)
            c.pop("rope_scaling", None)
            c[self.choose("rope_parameters", "rope_scaling")] = self.rng.choice(ropes)

    def free_window(self):
        c, layers = self.config, self.config["num_hidden_layers"]
        short = self.choose(1, 2, self.length - 1)
        if self.chance(0.7):
            c["sliding_window"] = self.choose(short, short, self.length, None)
        if self.family == "qwen2":
            c["use_sliding_window"] = self.choose(True, True, False)
            c["max_window_layers"] = self.choose(0, 1, 2, -1)
        if self.chance(0.4):
            types = ["full_attention", "sliding_attention"]
            c["layer_types"] = [self.rng.choice(types) for _ in range(layers)]


def draw(rng, family, documented):
    """Returns a configuration and the sequence length to compile for."""
    return Draw(rng, family).draw(documented)
