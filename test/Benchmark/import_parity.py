#!/usr/bin/env python3
# ===- import_parity.py - Imported models against transformers ---------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares models that kiln imports with transformers, on random configurations.

    VENV/bin/python import_parity.py --kilnc=PATH --kiln-run=PATH
        [--family=gpt2]... [--count=200] [--seed=1] [--compile-every=N] [--keep=DIR]

VENV contains PyTorch, transformers and safetensors. transformers must accept each
configuration: it builds the model and computes a loss and gradients. Then kilnc imports the
same directory, and kiln-run (or, for every N-th configuration, the compiled executable)
starts from the same weights and tokens, all in f64. There are two valid outcomes:

    equal      the loss and every gradient agree to 1e-10
    refused    kilnc reports a key of the file and its value

Any other outcome is an error. Rejecting a configuration that consists of keys and values
listed in docs/use/import.md is an error, too; at least half of the configurations are of
that kind. The exit code is 0 if there was no error."""

import argparse
import collections
import contextlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import import_configs

TOLERANCE = 1e-10
FAMILIES = list(import_configs.CLASSES)
BATCH = import_configs.BATCH

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
warnings.simplefilter("ignore")
torch.set_num_threads(1)
# The library computes norms, softmax and rotary positions in f32 for all weight types. This
# makes it use f64.
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)


class Unaccepted(Exception):
    """Raised if transformers rejects the configuration."""


def write_model(directory, config, seed):
    """Writes config.json and the weights; returns the model that the library loads."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            parsed = AutoConfig.from_pretrained(directory)
            model = AutoModelForCausalLM.from_config(parsed, dtype=torch.float64)
            save_weights(model, directory / "model.safetensors", seed)
            model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64)
    except Exception as error:
        raise Unaccepted(f"{type(error).__name__}: {error}") from error
    return model.eval()


def save_weights(model, path, seed):
    """Saves weights that are large enough for every setting to affect the loss."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, tensor in model.state_dict().items():
        values = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        is_gain = tensor.dim() == 1 and name.endswith("weight")
        tensors[name] = 1 + 0.2 * values if is_gain else 0.3 * values
    # A file may contain a tied classifier twice or once.
    if model.config.tie_word_embeddings:
        embedding = next(name for name in tensors if name.endswith(("wte.weight", "embed_tokens.weight")))
        tensors["lm_head.weight"] = tensors[embedding].clone()
        if seed % 2:
            del tensors["lm_head.weight"]
    save_file(tensors, path, metadata={"format": "pt"})


def reference(model, tokens):
    """Returns the loss and the gradients by name, from the library's loss function."""
    rows = torch.tensor(tokens[:-1]).view(BATCH, -1)
    targets = torch.tensor(tokens[1:]).view(BATCH, -1)
    try:
        output = model(input_ids=rows, labels=targets, shift_labels=targets)
        loss = output[0] if isinstance(output, tuple) else output.loss
        loss.backward()
    except Exception as error:
        raise Unaccepted(f"{type(error).__name__}: {error}") from error
    if not torch.isfinite(loss):
        raise Unaccepted("the loss is not finite")
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return loss.item(), gradients


def run_kiln(arguments, directory, length, executable, flags=()):
    """Runs kilnc and one step; returns (loss, gradients) or the line of the error."""
    graph, log, dump = (directory / name for name in ("step.mlir", "log.jsonl", "gradients.safetensors"))
    command = [arguments.kilnc, directory, f"--batch={BATCH}", f"--seq={length}", "--precision=fp64"]
    command += ["--dropout=0", "--emit-gradients", "--clip=off", "--eval=off", "--max-threads=1", *flags]
    if executable:
        command += ["-o", directory / "train"]
        trainer = [directory / "train"]
    else:
        command += ["--emit=step", "-o", graph]
        trainer = [arguments.kiln_run, graph]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, f"exit code {done.returncode}: {done.stderr.strip()}"
    trainer += [f"--data={directory / 'tokens.bin'}", f"--init={directory}", "--steps=1", "--lr=0"]
    trainer += [f"--dump-gradients={dump}", f"--log={log}"]
    done = subprocess.run(trainer, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"training failed with {done.returncode}: {done.stderr.strip()}")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    loss = next(line["loss"] for line in lines if line.get("step") == 1)
    return (loss, load_file(dump)), ""


def names_key_and_value(line, config):
    """Returns true if the error names a key of the file and its value, unless it is missing."""
    match = re.search(r"config\.json: ['\"]([^'\"]+)['\"] (is missing|is (.*?)(?:,| but) )", line)
    if not match or not line.startswith("exit code 3: ") or "\n" in line:
        return False
    value = config
    for part in match[1].split("."):
        if not isinstance(value, dict) or part not in value:
            return match[2] == "is missing"
        value = value[part]
    if match[2] == "is missing":
        return value is None
    # Long values are truncated, and long lists and objects are not printed.
    text = json.dumps(value, separators=(",", ":"))
    if isinstance(value, (dict, list)):
        return match[3].startswith(("an object", "an array")) or text.startswith(match[3][:20])
    shown = json.loads(match[3]) if not match[3].endswith("...") else value
    return shown == value and isinstance(shown, bool) == isinstance(value, bool)


def worst_error(expected, found):
    """Returns the largest relative error of loss and gradients; infinite if names differ."""
    (loss, gradients), (other_loss, others) = expected, found
    if gradients.keys() != others.keys():
        return float("inf")
    largest = max(g.abs().max().item() for g in gradients.values())
    worst = abs(loss - other_loss) / abs(loss)
    for name, gradient in gradients.items():
        difference = (gradient - others[name]).abs().max().item()
        # A gradient that is tiny compared with the others consists of rounding noise.
        scale = max(gradient.abs().max().item(), 1e-6 * largest)
        worst = max(worst, difference / scale)
    return worst if worst == worst else float("inf")


class Family:
    """Counts the outcomes of one family."""

    def __init__(self, name, arguments, work):
        self.name, self.arguments, self.work = name, arguments, work
        self.rng = random.Random(f"{arguments.seed} {name}")
        self.counts = collections.Counter()
        self.reasons = collections.Counter()
        self.worst = 0.0
        self.number = 0

    def error(self, directory, config, text):
        self.counts["errors"] += 1
        print(f"ERROR {self.name} {directory.name}: {text}\n    {json.dumps(config)}", flush=True)

    def attempt(self, documented):
        """Tests one configuration. Returns False if transformers does not accept it."""
        config, length = import_configs.draw(self.rng, self.name, documented)
        seed = self.rng.randrange(2**31)
        tokens = [self.rng.randrange(config["vocab_size"]) for _ in range(BATCH * length + 1)]
        self.number += 1
        directory = self.work / f"{self.name}-{self.number}"
        try:
            model = write_model(directory, config, seed)
            expected = reference(model, tokens)
        except Unaccepted:
            self.counts["not accepted"] += 1
            shutil.rmtree(directory)
            return False
        (directory / "tokens.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        every = self.arguments.compile_every
        executable = every > 0 and self.counts["drawn"] % every == 0
        self.counts["drawn"] += 1
        self.counts["documented"] += documented
        self.judge(directory, config, length, documented, expected, executable)
        if not self.arguments.keep:
            shutil.rmtree(directory)
        return True

    def judge(self, directory, config, length, documented, expected, executable):
        try:
            found, line = run_kiln(self.arguments, directory, length, executable)
        except Exception as error:
            return self.error(directory, config, str(error))
        if found:
            error = worst_error(expected, found)
            if error > TOLERANCE:
                return self.error(directory, config, f"differs by {error:.3g}")
            self.counts["equal"] += 1
            self.counts["documented and equal"] += documented
            self.counts["compiled"] += executable
            self.worst = max(self.worst, error)
            return None
        if not names_key_and_value(line, config):
            return self.error(directory, config, f"neither computed nor refused by name: {line}")
        if documented:
            return self.error(directory, config, f"refused, but docs/use/import.md accepts it: {line}")
        self.counts["refused"] += 1
        self.reasons[re.search(r"config\.json: ['\"]([^'\"]+)", line)[1]] += 1
        return None

    def run(self):
        for index in range(self.arguments.count):
            # Documented configurations are the first of each pair, and one in ten of the
            # others.
            documented = index % 2 == 0 or index % 10 == 1
            while not self.attempt(documented):
                pass

    def check_that_errors_show(self):
        """Checks that a wrong model is detected: attention in both directions."""
        while True:
            config, length = import_configs.draw(self.rng, self.name, documented=True)
            config["is_causal"] = False
            tokens = [self.rng.randrange(config["vocab_size"]) for _ in range(BATCH * length + 1)]
            directory = self.work / f"{self.name}-wrong"
            try:
                model = write_model(directory, config, 1)
                expected = reference(model, tokens)
                break
            except Unaccepted:
                shutil.rmtree(directory)
        (directory / "tokens.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        found, line = run_kiln(self.arguments, directory, length, False, ["--ignore-config-keys=is_causal"])
        if not found or worst_error(expected, found) < 1e-6:
            self.error(directory, config, f"the comparison does not see that attention is causal {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kilnc", required=True)
    parser.add_argument("--kiln-run", required=True)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--count", type=int, default=200, help="configurations per family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile-every", type=int, default=0, metavar="N", help="compile one in N instead of interpreting it")
    parser.add_argument("--keep", help="directory for all files; a temporary one unless given")
    arguments = parser.parse_args()
    work = pathlib.Path(arguments.keep or tempfile.mkdtemp(prefix="kiln-import-parity-")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    families = [Family(name, arguments, work) for name in arguments.family or FAMILIES]
    for family in families:
        family.check_that_errors_show()
        family.run()
    if not arguments.keep:
        shutil.rmtree(work)

    version = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
    print(f"\n{arguments.count} configurations per family, seed {arguments.seed}, {version}\n")
    print("| family | equal | refused | errors | documented | of these equal | compiled | worst error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for f in families:
        columns = ["equal", "refused", "errors", "documented", "documented and equal", "compiled"]
        print(f"| {f.name} | " + " | ".join(str(f.counts[c]) for c in columns) + f" | {f.worst:.2g} |")
    print()
    for f in families:
        reasons = ", ".join(f"{key} {count}" for key, count in f.reasons.most_common())
        print(f"{f.name}: transformers did not accept {f.counts['not accepted']} more; refused by key: {reasons}")
    return 1 if any(f.counts["errors"] for f in families) else 0


if __name__ == "__main__":
    sys.exit(main())
