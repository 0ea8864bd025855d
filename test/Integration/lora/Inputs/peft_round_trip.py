# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exchanges adapters between a kiln executable and PEFT, in both directions.

1. kiln trains an adapter; PEFT loads its checkpoint. Both evaluate to the same loss, PEFT saves
   the same keys, and its merged weights are those of --save-merged.
2. PEFT makes an adapter with random factors and saves it; kiln compiles for it and evaluates to
   the loss of PEFT.
"""

import argparse
import json
import pathlib
import shlex
import shutil
import subprocess
import sys

import peft
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "expectations"))
import make_weights  # noqa: E402

LENGTH, BATCH = 32, 2


def run(*command):
    print("+ " + shlex.join(map(str, command)), flush=True)
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def evaluated(log):
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines if line.get("event") == "eval"][-1]


def loss_of(model, tokens):
    sequences = (len(tokens) - 1) // LENGTH
    rows = [tokens[i * LENGTH : (i + 1) * LENGTH + 1] for i in range(sequences)]
    rows = torch.tensor(rows)
    with torch.no_grad():
        logits = model(rows[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


def agree(what, a, b):
    print(f"{what}: {a} and {b}")
    if not abs(a - b) <= 2e-6 * abs(a):
        sys.exit(f"peft_round_trip.py: {what}: {a} and {b} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("kilnc", "model", "work", "targets"):
        parser.add_argument("--" + flag, required=True)
    options = parser.parse_args()
    work = pathlib.Path(options.work)
    shutil.rmtree(work, ignore_errors=True)
    base = work / "base"
    make_weights.main([options.model, str(base)])
    shutil.copy(pathlib.Path(options.model) / "config.json", base)
    config = json.loads((base / "config.json").read_text())
    tokens = make_weights.validation_tokens(config)
    shape = ["--batch=" + str(BATCH), f"--seq={LENGTH}"]

    # kiln trains, PEFT loads.
    run(options.kilnc, base, *shape, f"--lora=r=4,alpha=6,targets={options.targets}", "-o", work / "train")
    files = [f"--data={base / 'train.bin'}", f"--val-data={base / 'validation.bin'}"]
    run(work / "train", f"--init={base}", *files, "--steps=5", "--lr=0.01", f"--save={work / 'saved'}",
        f"--save-merged={work / 'merged'}", f"--log={work / 'train.jsonl'}")
    adapter = work / "saved" / "checkpoint-5"
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(model, adapter).eval()
    agree("trained by kiln", evaluated(work / "train.jsonl"), loss_of(model, tokens))
    model.save_pretrained(work / "copy")
    keys = [sorted(load_file(d / "adapter_model.safetensors")) for d in (adapter, work / "copy")]
    if keys[0] != keys[1]:
        sys.exit(f"peft_round_trip.py: keys differ: {keys}")
    merged = model.merge_and_unload().state_dict()
    for name, tensor in load_file(work / "merged" / "model.safetensors").items():
        error = (merged[name] - tensor).abs().max().item()
        if not error <= 1e-6:
            sys.exit(f"peft_round_trip.py: merged weights differ by {error} in {name}")
    whole = transformers.AutoModelForCausalLM.from_pretrained(work / "merged", dtype=torch.float32)
    agree("merged by kiln", evaluated(work / "train.jsonl"), loss_of(whole.eval(), tokens))

    # PEFT saves, kiln loads.
    targets = options.targets if options.targets == "all-linear" else options.targets.split(":")
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=targets, use_rslora=True, task_type="CAUSAL_LM",
        init_lora_weights=False, fan_in_fan_out=config["model_type"] == "gpt2",
    )
    model = peft.get_peft_model(model, settings).eval()
    expected = loss_of(model, tokens)
    model.save_pretrained(work / "from-peft")
    run(options.kilnc, base, *shape, f"--adapter={work / 'from-peft'}", "-o", work / "evaluate")
    run(work / "evaluate", f"--adapter={work / 'from-peft'}", f"--base={base}", "--steps=0", files[1],
        f"--log={work / 'evaluate.jsonl'}")
    agree("made by PEFT", evaluated(work / "evaluate.jsonl"), expected)


if __name__ == "__main__":
    main()
