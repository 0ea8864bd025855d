# ===- library_keys.py - kiln's key tables against transformers --------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""library_keys.py TABLES: compares the output of `kilnc --list-config-keys` with the
transformers library of this Python.

Every key that the library's configuration class declares must be in kiln's table with the
same default, and every default in the table must be declared. Then a model of each family is
built and trained for one step, during which the library must not read any key with use
unread, except in code for text generation only."""

import dataclasses
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, CONFIG_MAPPING

# A value whose type no code of the library can handle.
STRANGE = {"a value": ["that nothing understands"]}
SMALL = {
    "gpt2": {"n_positions": 8, "n_embd": 16, "n_layer": 2, "n_head": 2},
    "llama": {
        "max_position_embeddings": 8,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}
SMALL["mistral"] = SMALL["qwen2"] = SMALL["llama"]

problems = []


def declared_defaults(config_class):
    """Returns the default of every field that a config.json may set, by name."""
    defaults = {}
    for field in dataclasses.fields(config_class):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        else:
            defaults[field.name] = field.default_factory()
    return defaults


def compare_defaults(family, rows, version):
    config_class = CONFIG_MAPPING[family]
    declared = declared_defaults(config_class)
    for key, default in declared.items():
        row = rows.get(key)
        where = f"{family}: key '{key}', default {default!r} in transformers {transformers.__version__}"
        if row is None:
            problems.append(f"{where}: kiln's table has no such key")
        elif "default" not in row:
            problems.append(f"{where}: kiln's table has no default")
        elif row["default"] != default or isinstance(default, bool) != isinstance(row["default"], bool):
            problems.append(f"{where}: kiln's table, of {version}, has {row['default']!r}")
    for key, row in rows.items():
        if "default" in row and key not in declared:
            problems.append(f"{family}: key '{key}': kiln's table has a default, transformers does not declare it")
    # These keys are not declared, but kiln has a default for them.
    if "rope_theta" in rows and config_class.default_theta != 10000.0:
        problems.append(f"{family}: rope_theta is {config_class.default_theta} when absent, not 10000.0")


def watch(config, keys, reads):
    """Records all subsequent reads of `keys` of `config`."""
    base = type(config)

    def read(self, name):
        if name in keys:
            frame = sys._getframe(1)
            # Attribute look-ups of the configuration class itself.
            while frame and frame.f_code.co_filename.endswith("configuration_utils.py"):
                frame = frame.f_back
            place = pathlib.Path(frame.f_code.co_filename)
            if "generation" not in place.parts and place.name != "copy.py":
                reads.setdefault(name, f"{place.name}:{frame.f_lineno}")
        return base.__getattribute__(self, name)

    # The class is replaced, not wrapped, because the library uses isinstance.
    config.__class__ = type(base.__name__, (base,), {"__getattribute__": read})


def check_unread(family, rows):
    unread = {key for key, row in rows.items() if row["use"] == "unread"}
    declared = declared_defaults(CONFIG_MAPPING[family])
    strange = {key: STRANGE for key in unread if key not in declared}
    config = CONFIG_MAPPING[family](vocab_size=20, **SMALL[family], **strange)
    reads = {}
    watch(config, unread, reads)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.train()
    tokens = torch.randint(0, 20, (2, 8))
    model(input_ids=tokens, labels=tokens).loss.backward()
    for key, place in sorted(reads.items()):
        problems.append(f"{family}: key '{key}' is unread in kiln's table, but transformers reads it at {place}")


tables = json.loads(pathlib.Path(sys.argv[1]).read_text())
for family, rows in tables["families"].items():
    rows = {row["key"]: row for row in rows}
    compare_defaults(family, rows, tables["transformers"])
    check_unread(family, rows)
for problem in problems:
    print(problem)
print(
    f"{len(problems)} differences between kiln's tables, of transformers {tables['transformers']},"
    f" and the installed {transformers.__version__}"
)
sys.exit(1 if problems else 0)
