# ===- ranks_sequence.py - Bytes and memory of divided tokens -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_sequence.py MPIRUN KILNC MODEL LARGE WORK: compares two ranks that divide the layers of a GPT-2
with ranks that also divide the tokens between them (--sequence-parallel):

- A step of the latter sends as many bytes, and in addition the gradients of the parameters that
  are read with the tokens of a rank, once per step. Gathering the inputs of matmuls again in the
  backward pass sends two more halves of a [tokens, width] tensor for each layer.
- They need less memory, which is used as planned. For the model LARGE, which is not run, that of half
  of the residual stream.
- From the same weights, all of them and one rank generate the same text.
- Without ranks that divide layers, the flag is refused."""

import json
import pathlib
import sys

import harness
import ranks

BATCH, LENGTH, STEPS = 2, 24, 3
FLAGS = ["--precision=fp64", f"--seq={LENGTH}", "--max-threads=1", "--dropout=0.1"]

mpirun, kilnc, model, large, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
config = json.loads((pathlib.Path(model) / "config.json").read_text())
layers, width = config["n_layer"], config["n_embd"]


def trained(name, *flags):
    """Returns the executable of two ranks, the bytes that it sends, and those of its arena."""
    executable = harness.compile_model(kilnc, model, work / name, f"--batch={BATCH}", "--mesh=tp=2", *FLAGS, *flags)
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    arguments = [f"--data={work / 'train.bin'}", f"--steps={STEPS}", "--seed=5", f"--log={log}", f"--save={saved}"]
    ranks.run(mpirun, 2, executable, *arguments)
    ranks.require_exact_memory(mpirun, 2, executable, FLAGS)
    end = harness.events(log, "end")[0]
    return executable, end["sent_bytes_per_step"], end["arena_bytes"]


plain, sent, arena = trained("plain")
kept, kept_sent, kept_arena = trained("kept", "--rebuild=off")
tokens, tokens_sent, tokens_arena = trained("tokens", "--sequence-parallel")
gathered, gathered_sent, gathered_arena = trained("gathered", "--sequence-parallel", "--rebuild=off")

# Each of two ranks sends half of an array to sum it into shards, and half to gather the shards.
undivided = 0
for name, (_, shape, data) in harness.saved_tensors(
    harness.newest_checkpoint(work / "plain.saved") / "model.safetensors"
).items():
    if ".ln_" in name or name.endswith("c_proj.bias") or "wpe" in name:
        undivided += len(data)
half = BATCH * LENGTH * width * 8 // 2
expected = {
    "with gathered activations": (gathered_sent, kept_sent + undivided),
    "with activations that are gathered again": (tokens_sent, sent + undivided + 2 * layers * half),
}
for name, (found, wanted) in expected.items():
    if undivided <= 0 or found != wanted:
        harness.fail(f"{found} bytes are sent {name}, expected {wanted}, of which {undivided} are gradients")
print(f"{gathered_sent} and {tokens_sent} bytes sent")
for less, more in ((tokens_arena, arena), (gathered_arena, kept_arena), (tokens_arena, gathered_arena)):
    if not less < more:
        harness.fail(f"the arena has {less} bytes, expected less than {more}")


def planned_peak(*flags):
    path = work / "plan.json"
    harness.run([kilnc, large, "--batch=1", "--mesh=tp=2", "--eval=off", *flags, "--emit=plan", "-o", path])
    return json.loads(path.read_text())["predicted_peak_bytes"]


# The step keeps the input of each layer, and that of its MLP.
config = json.loads((pathlib.Path(large) / "config.json").read_text())
wanted = 2 * config["n_layer"] * config["n_positions"] * config["n_embd"] * 4 // 2
saved = planned_peak() - planned_peak("--sequence-parallel")
print(f"the large model needs {saved} bytes less")
if saved < wanted:
    harness.fail(f"divided tokens save {saved} bytes of the large model, expected at least {wanted}")

one = harness.compile_model(kilnc, model, work / "one", f"--batch={BATCH}", *FLAGS)
weights = harness.newest_checkpoint(work / "plain.saved")
texts = []
for executable, count in ((one, 1), (plain, 2), (tokens, 2)):
    command = [executable, f"--init={weights}", "--generate=20", "--seed=4", "--prompt=a"]
    done = harness.run(ranks.command(mpirun, count, *command) if count > 1 else command, env=ranks.environment(), errors="replace")
    # Ranks first print a line with their number.
    texts.append("".join(line for line in done.stdout.splitlines(True) if "ranks (" not in line))
if len(set(texts)) != 1 or len(set(texts[0])) < 5:
    harness.fail(f"different texts are generated: {texts}")

refused = harness.run([kilnc, model, "--mesh=dp=2", "--sequence-parallel", "-o", work / "refused"], expect=2)
if "--sequence-parallel" not in refused.stderr or "--mesh=tp=N" not in refused.stderr:
    harness.fail(f"unexpected message: {refused.stderr}")
