# ===- ptx_models.py - PTX of whole models, checked with ptxas ---------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ptx_models.py GROUP KILNC MODELS WORK [PTXAS]: compiles a group of models to PTX for each
architecture. Checks that the text is for that architecture and that at least the expected
number of row kernels use 16-byte loads. With PTXAS, the text must assemble, no kernel may
spill a register or have a stack frame, and the number of registers of each kernel is
printed."""

import pathlib
import re
import sys

import harness

# (number of row kernels with 16-byte loads, architectures, flags of kilnc)
BOTH = ("sm_80", "sm_90")
REAL = "gpt2-124m --batch=4 --seq=256"
GROUPS = {
    "small": [
        (20, BOTH, "gpt2-awkward --batch=4 --seq=16 --dropout=0.1 --microbatches=2 --lossy=fewbit:3,rmm:0.5 --rebuild=off"),
        (20, BOTH, "llama-gqa --batch=2 --seq=16 --dropout=0.1"),
        (17, BOTH, "llama-tied-bias --batch=2 --seq=16 --clip=off --optimizer=nesterov --offload=activations,optimizer,parameters"),
        # Half of the data is bf16, 8 bytes for four columns; attention uses tensor cores.
        (15, BOTH, "gpt2-awkward --batch=4 --seq=16 --dropout=0.1 --precision=bf16"),
        (15, BOTH, "llama-gqa --batch=2 --seq=16 --precision=bf16"),
        (14, BOTH, "gpt2-awkward --batch=4 --seq=16 --dropout=0.1 --precision=fp16 --states=fp16-adam"),
        # Rows of blocks with outliers in columns and in rows, and rows of 42 columns.
        (0, BOTH, "llama-gqa --batch=2 --seq=16 --precision=bf16 --lora=r=2,targets=all-linear --quantize-weights=int8:outliers=4"),
        (0, BOTH, "gpt2-narrow --batch=2 --seq=16 --lora=r=2,targets=all-linear --quantize-weights=int8:outliers=4,scales=row"),
        # Rows of 42 columns are not multiples of 16 bytes.
        (0, BOTH, "gpt2-narrow --batch=2 --seq=16 --fuse=off"),
    ],
    "124m": [
        (19, BOTH, REAL),
        (20, ("sm_90",), f"{REAL} --precision=bf16 --dropout=0"),
        # Norms that compute random numbers and column sums have the highest register pressure.
        (19, BOTH, f"{REAL} --dropout=0.1"),
        (20, BOTH, f"{REAL} --precision=bf16 --dropout=0.1"),
        (20, ("sm_90",), f"{REAL} --precision=fp16 --dropout=0.1"),
        (15, BOTH, f"{REAL} --precision=bf16 --dropout=0 --states=gradients:bf16,moments:dynamic8"),
    ],
}


def check_text(path, chip, wide):
    """Checks a PTX text and returns its kernels by name."""
    text = path.read_text()
    if not re.search(rf"^\.target {chip}$", text, re.M):
        harness.fail(f"{path} is not for {chip}")
    bodies = dict(re.findall(r"^\.visible \.entry (\w+)\((.*?)^\}", text, re.M | re.S))
    if not bodies:
        harness.fail(f"{path} has no kernels")
    rows = [body for name, body in bodies.items() if name.endswith("_row")]
    found = sum("ld.global.v4" in body for body in rows)
    print(f"{found} of {len(rows)} row kernels read 16 bytes at a time")
    if found < wide:
        harness.fail(f"only {found} row kernels of {path} have ld.global.v4, expected {wide}")
    return bodies


def assemble(ptxas, path, chip, bodies):
    done = harness.run([ptxas, "-v", f"-arch={chip}", "-O3", path, "-o", "/dev/null"])
    report = re.findall(
        r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
        r"(\d+) bytes spill loads.*?Used (\d+) registers",
        done.stdout + done.stderr,
        re.S,
    )
    if {name for name, *_ in report} != set(bodies):
        print(done.stdout, done.stderr)
        harness.fail(f"ptxas reports of {len(report)} kernels, the file has {len(bodies)}")
    spilling = []
    for name, architecture, stack, stores, loads, registers in report:
        print(f"{registers:>4} registers  {name}")
        if architecture != chip or (stack, stores, loads) != ("0", "0", "0"):
            spilling.append(f"{name} ({stack} bytes of stack, {stores} stored, {loads} loaded)")
    if spilling:
        harness.fail(f"{len(spilling)} kernels spill on {chip}: {', '.join(spilling)}")
    print(f"{chip}: {len(report)} kernels, 0 spills, at most {max(int(r[-1]) for r in report)} registers")


group, kilnc, models, work, *ptxas = sys.argv[1:]
path = harness.fresh_directory(work) / "model.ptx"
for wide, chips, flags in GROUPS[group]:
    model, *flags = flags.split()
    for chip in chips:
        model_path = pathlib.Path(models) / model
        harness.compile_model(kilnc, model_path, path, *flags, "--target=cuda", "--emit=ptx", f"--gpu-arch={chip}")
        bodies = check_text(path, chip, wide)
        if ptxas:
            assemble(ptxas[0], path, chip, bodies)
