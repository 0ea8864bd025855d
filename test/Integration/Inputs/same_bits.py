# ===- same_bits.py - Plans do not change results ----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""same_bits.py [--steps=20] [--target=cpu] [--seeds=1] [--epilogues=off] KILNC MODEL WORK
"common flags" "plan flags"...: compiles the model with the common flags alone and with each
of the plan flags. In all steps, the losses, norms and saved tensors of every plan must equal
those of the first executable to the last bit, and --check-memory must pass. Arguments after
" -- " are flags of the executable.

The first executable is compiled for the cpu, the plans for the target. The target cuda-emu
shuffles everything that the program leaves unordered, and every plan is run with --seeds
seeds. With --epilogues=on, its vendor library rounds less often than the cpu, so the first
executable is also compiled for the target."""

import shlex
import sys

import harness

options, arguments = harness.leading_options(sys.argv[1:], steps=20, target="cpu", seeds=1, epilogues="off")
kilnc, model, work, common, *plans = arguments
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


executables = {}


def train(name, flags):
    plan, _, run = flags.partition(" -- ")
    if plan not in executables:
        executables[plan] = harness.compile_model(
            kilnc, model, work / name, "--max-threads=2", *shlex.split(common), *shlex.split(plan)
        )
        harness.run([executables[plan], "--check-memory"])
    executable = executables[plan]
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    harness.run(
        [executable, f"--data={work / 'train.bin'}", "--seed=5", "--threads=2"]
        + [f"--steps={options['steps']}", "--lr=0.003", "--warmup-steps=2", f"--log={log}", f"--save={saved}", *shlex.split(run)]
    )
    return log, saved


for_target = f"--target={options['target']} --library-epilogues={options['epilogues']}"
plain = train("plain", for_target if options["epilogues"] == "on" else "")
for number, flags in enumerate(plans):
    if options["target"] == "cpu":
        harness.require_equal_runs(f"no plan and {flags}", *plain, *train(f"plan{number}", flags))
        continue
    plan, _, more = flags.partition(" -- ")
    plan += f" {for_target}"
    for seed in range(options["seeds"]):
        run = train(f"plan{number}-{seed}", f"{plan} -- {more} --emu-seed={seed}")
        harness.require_equal_runs(f"the first and {plan}, seed {seed}", *plain, *run)
