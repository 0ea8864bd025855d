# ===- ranks_network.py - Ranks on a simulated network ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_network.py MPIRUN KILNC MODEL WORK [compile flags]: trains a wider copy of MODEL on two ranks,
with and without a simulated network. Their losses must be those of one rank. The network must delay the sums, a sum of gradients must begin
before the last matmul of the backward pass, and the losses must have the same bits."""

import json
import pathlib
import sys

import harness
import ranks

RATE = 150e6
STEPS = 4


def main():
    mpirun, kilnc, model, work, *flags = sys.argv[1:]
    work = harness.fresh_directory(work)
    config = json.loads((pathlib.Path(model) / "config.json").read_text())
    config |= {"n_embd": 512, "n_layer": 6, "n_head": 8}
    harness.fresh_directory(work / "model")
    (work / "model" / "config.json").write_text(json.dumps(config))
    data, trace = work / "data.txt", work / "trace.json"
    data.write_text("to be or not to be, that is the question: " * 400)
    losses = []
    for name, network in (("free", []), ("slow", [f"--simulate-network={RATE:.0f}B/s"])):
        executable, log = work / name, work / f"{name}.jsonl"
        options = ["--batch=2", "--seq=64", "--mesh=dp=2", "--max-threads=1", "--eval=off", "--clip=off"]
        harness.compile_model(kilnc, work / "model", executable, *options, *flags, *network)
        outputs = [f"--log={log}", f"--trace={trace}"]
        ranks.run(
            mpirun, 2, executable, f"--data={data}", "--from-scratch", f"--steps={STEPS}", *outputs
        )
        steps = harness.events(log, "step")
        losses.append([step["loss"] for step in steps])
        sums = 1e3 * harness.events(log, "end")[0]["sent_bytes_per_step"] / RATE
    # One rank with the batch of both: several buckets must give what no bucket gives.
    executable, log = work / "one", work / "one.jsonl"
    options[options.index("--batch=2")] = "--batch=4"
    options.remove("--mesh=dp=2")
    harness.compile_model(kilnc, work / "model", executable, *options, *flags)
    harness.run([executable, f"--data={data}", "--from-scratch", f"--steps={STEPS}", f"--log={log}"])
    for several, one in zip(losses[0], harness.events(log, "step"), strict=True):
        if abs(several - one["loss"]) > 1e-5 * abs(one["loss"]):
            harness.fail(f"the loss {several} of two ranks differs from {one['loss']} of one")
    if losses[0] != losses[1]:
        harness.fail(f"the losses {losses[1]} with a network differ from {losses[0]}")
    for step in steps[1:]:
        if step["step_ms"] < sums:
            harness.fail(f"step {step['step']} takes {step['step_ms']} ms, its sums {sums:.0f} ms")
    events = json.loads(trace.read_text())["traceEvents"]
    gradients = [event for event in events if event.get("cat") == "all_reduce" and event["args"]["bytes"] > 1e6]
    last_gemm = max(event["ts"] for event in events if event.get("cat") == "gemm")
    early = [event["name"] for event in gradients if event["ts"] < last_gemm]
    print(f"{len(early)} of {len(gradients)} sums of gradients begin before the last GEMM")
    if not early or len(early) == len(gradients):
        harness.fail("expected the first sum, but not the last one, to begin in the backward pass")


main()
