# ===- zero_totals.py - Bytes of divided states per rank ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""zero_totals.py KILNC WORK: plans the training of a GPT-2 of 7.5 billion parameters with fp16 Adam
on 64 ranks. With P parameters, the declared parameters, gradients and optimizer states of a rank
must have the bytes of the ZeRO paper (arXiv:1910.02054): 16 P, 4 P + 12 P / 64, 2 P + 14 P / 64 and
16 P / 64 for the stages 0 to 3. The padding must be that of the token table, the only tensor whose
rows do not divide by 64."""

import json
import sys

import harness

RANKS, WIDTH, LAYERS, VOCABULARY, POSITIONS = 64, 4096, 36, 50257, 1024

kilnc, work = sys.argv[1:]
work = harness.fresh_directory(work)
config = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": VOCABULARY,
    "n_positions": POSITIONS,
    "n_embd": WIDTH,
    "n_layer": LAYERS,
    "n_head": 32,
}
(work / "config.json").write_text(json.dumps(config))
layer = 12 * WIDTH * WIDTH + 13 * WIDTH
parameters = LAYERS * layer + (VOCABULARY + POSITIONS + 2) * WIDTH
padded_rows = -VOCABULARY % RANKS
padding = padded_rows * WIDTH // RANKS  # Elements per rank.
print(f"{parameters} parameters, {padding} elements of padding per rank")
# Bytes per parameter that a rank stores of all parameters, and of its shards.
expected = {0: (16, 0), 1: (4, 12), 2: (2, 14), 3: (0, 16)}
for stage, (whole, divided) in expected.items():
    path = work / f"stage{stage}.json"
    harness.run(
        [
            *(kilnc, work, "--batch=1", "--seq=1024", f"--mesh=dp={RANKS}", f"--zero={stage}"),
            *("--precision=fp16", "--states=fp16-adam", "--eval=off", "--emit=plan", "-o", path),
        ]
    )
    plan = json.loads(path.read_text())
    states = gradients = shards = 0
    for buffer in plan["buffers"]:
        if "residency" in buffer:
            states += buffer["bytes"]
        elif buffer["class"] == "gradient":
            if buffer["why"] == "shard of a sum":
                shards += buffer["bytes"]
            else:
                gradients += buffer["bytes"]
    # From stage 2 on, a whole gradient exists until its bucket is summed. In stage 1, it is what
    # the rank keeps, and its shard exists in addition, during the update.
    total = states + (gradients if stage < 2 else shards)
    wanted = whole * parameters + divided * (parameters // RANKS)
    wanted += divided * (parameters % RANKS) // RANKS
    found_padding = total - wanted
    print(
        f"stage {stage}: {total / 1e9:.2f} GB of parameters, gradients and optimizer states, of "
        f"which {found_padding} bytes are padding; peak {plan['predicted_peak_bytes'] / 1e9:.2f} GB"
    )
    # Shards have padding, and the remainder of the division.
    padded = divided * (-(-VOCABULARY // RANKS) * RANKS * WIDTH + parameters - VOCABULARY * WIDTH)
    if total != whole * parameters + padded // RANKS or padded % RANKS:
        harness.fail(f"stage {stage}: {total} bytes, expected {whole * parameters + padded / RANKS}")
