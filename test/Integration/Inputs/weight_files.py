# ===- weight_files.py - Weight files with additional tensors ----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""weight_files.py KILNC MODEL WORK: MODEL is a tied GPT-2. Compiles it with a weight file
that has additional tensors, starts training from such files, and checks the tensor type in
the configuration of the saved directory."""

import array
import json
import os
import pathlib
import shutil
import sys

import harness

USAGE, BAD_INPUT = 2, 3
kilnc, model, work = sys.argv[1:]
model = pathlib.Path(model).resolve()
work = harness.fresh_directory(work)
os.chdir(work)
config = json.loads((model / "config.json").read_text())
# Formatted by hand, with the key `dtype` twice: once inside another object.
CONFIG = '{"dtype" : "bfloat16",\n  "task_specific_params": {"dtype": "bfloat16", "x": 1e-05},\n '
CONFIG += ",\n ".join(f'"{key}":{json.dumps(value)}' for key, value in config.items()) + "  }\n"

weights = [
    (name, shape, harness.make_weights.values(name, kind, harness.make_weights.math.prod(shape)))
    for name, shape, kind in harness.make_weights.parameters(config)
]
embedding = next(data for name, _, data in weights if name.endswith("wte.weight"))
shape = [config["vocab_size"], config["n_embd"]]
other = array.array("f", embedding)
other[77] += 1
positions = config["n_positions"]
mask = ("transformer.h.0.attn.bias", [1, 1, positions, positions], array.array("f", [1] * positions**2))
equal_head = ("lm_head.weight", shape, embedding)
other_head = ("lm_head.weight", shape, other)
further = ("transformer.h.7.ln_1.bias", [2], array.array("f", [0, 0]))


def write_model(directory, *more, drop=""):
    pathlib.Path(directory).mkdir(exist_ok=True)
    pathlib.Path(directory, "config.json").write_text(CONFIG)
    tensors = [tensor for tensor in weights if tensor[0] != drop] + list(more)
    harness.make_weights.write_safetensors(f"{directory}/model.safetensors", tensors)
    return directory


def train(*flags, expect=0):
    done = harness.run(["./train", "--data=train.bin", "--steps=2", "--log=log.jsonl", *flags], expect=expect)
    if expect == 0:
        if done.stderr:
            harness.fail(f"said '{done.stderr}', expected nothing")
        return harness.losses("log.jsonl")
    return done.stderr.strip()


def expect(found, expected):
    if found != expected:
        harness.fail(f"found {found!r}, expected {expected!r}")


harness.write_inputs(model, ".")
write_model("plain", mask, equal_head)
done = harness.run([kilnc, "plain", "--batch=2", "--seq=24", "--max-threads=1", "-o", "train"])
expect(done.stderr, "")

# Accepted without a warning, for every file layout.
usual = train("--init=model.safetensors")
expect(train("--init=plain"), usual)
write_model("head-alone", equal_head, drop="transformer.wte.weight")
expect(train("--init=head-alone"), usual)

# Tied tensors with different values.
write_model("differs", mask, other_head)
expect(
    train("--init=differs", expect=BAD_INPUT),
    "error: 'differs': the model has one tensor for 'transformer.wte.weight' and 'lm_head.weight', which are tied, but "
    "the two tensors of the file differ: first in element 77; set tie_word_embeddings to false and compile again to train "
    "both, or pass --init-ignore=lm_head.weight to initialize both from 'transformer.wte.weight'",
)
expect(train("--init=differs", "--init-ignore=lm_head.weight"), usual)

# Tensors of another model.
write_model("further", further, equal_head)
expect(
    train("--init=further", expect=BAD_INPUT),
    "error: 'further' holds tensor 'transformer.h.7.ln_1.bias', which the model does not use: check that the file "
    "belongs to this model; if it does, pass --init-ignore=transformer.h.7.ln_1.bias",
)
expect(train("--init=further", "--init-ignore=transformer.h.7.ln_1.bias,lm_head.weight"), usual)
done = harness.run([kilnc, "further", "--emit=forward", "-o", "forward.mlir"])
expect(
    done.stderr,
    "kilnc: warning: 'further' holds tensor 'transformer.h.7.ln_1.bias', which the model does not use: --init of the "
    "executable refuses them unless --init-ignore names them\n",
)

# Names that are not in the file, or that the model needs.
expect(
    train("--init=plain", "--init-ignore=lm_head", expect=USAGE),
    "error: --init-ignore names 'lm_head', but 'plain' has no such tensor",
)
expect(
    train("--init=plain", "--init-ignore=transformer.wpe.weight", expect=USAGE),
    "error: --init-ignore names 'transformer.wpe.weight', which the model needs",
)
expect(
    train("--from-scratch", "--init-ignore=lm_head.weight", expect=USAGE),
    "error: --init-ignore needs --init, --adapter or --resume (see --help)",
)

# The saved configuration contains the tensor type and is otherwise unchanged.
expect(train("--init=plain", "--save=saved", "--save-every=1"), usual)
saved = pathlib.Path("saved/checkpoint-2/config.json").read_text()
expect(saved, CONFIG.replace('"dtype" : "bfloat16"', '"dtype" : "float32"'))
shutil.rmtree("saved/checkpoint-1/")
expect(
    train("--init=saved", expect=BAD_INPUT),
    "error: 'saved' is a directory of checkpoints, expected a single checkpoint: choose 'saved/checkpoint-2', "
    "which is the newest, or another checkpoint in the directory",
)
train("--init=saved/checkpoint-2")
harness.run([kilnc, "plain", "--batch=2", "--seq=24", "--precision=fp64", "--max-threads=1", "-o", "train"])
train("--init=plain", "--save=wide")
saved = pathlib.Path("wide/checkpoint-2/config.json").read_text()
expect(saved, CONFIG.replace('"dtype" : "bfloat16"', '"dtype" : "float64"'))
