# ===- corpus.py - Seeds of the IR fuzzer ------------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Creates the seeds of fuzz.py: small models at every level, as written by kilnc, in the
custom and in the generic assembly form."""

import concurrent.futures
import pathlib
import re
import subprocess

STAGES = ["forward", "step", "planned", "dispatch", "schedule"]
INPUTS = pathlib.Path(__file__).parent / "Inputs"
SHAPE = ["--batch=2", "--seq=4"]
# Each technique adds its own ops and attributes.
VARIANTS = [
    ("mlp.mlir", []),
    ("gpt2", SHAPE),
    ("llama", SHAPE),
    ("gpt2", [*SHAPE, "--precision=bf16"]),
    ("llama", [*SHAPE, "--precision=bf16", "--microbatches=2"]),
    ("gpt2", [*SHAPE, "--recompute=full", "--dropout=0"]),
    ("gpt2", [*SHAPE, "--lossy=fewbit:2,rmm:0.5", "--optimizer=momentum"]),
    ("llama", [*SHAPE, "--offload=activations,optimizer", "--clip=off"]),
    ("llama", [*SHAPE, "--offload=optimizer,parameters", "--emit-gradients"]),
    ("gpt2", [*SHAPE, "--microbatches=2", "--optimizer=sgd", "--eval=off", "--fuse=off", "--rebuild=off"]),
    ("gpt2", [*SHAPE, "--target=cuda-emu", "--precision=bf16"]),
    ("mlp.mlir", ["--target=cuda-emu", "--offload=activations"]),
]


class Seed:
    def __init__(self, name, stage, text):
        self.name, self.stage, self.text = name, stage, text


class Corpus:
    """`tests` is a folder of .mlir files whose parts are additional seeds, or None."""

    def __init__(self, bin_dir, jobs, tests=None):
        pool = concurrent.futures.ThreadPoolExecutor(jobs)
        kinds = [(model, options, stage) for model, options in VARIANTS for stage in STAGES]

        def compile_to(kind):
            model, options, stage = kind
            command = [bin_dir / "kilnc", INPUTS / model, *options, f"--emit={stage}", "--max-threads=2", "-o", "-"]
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            return Seed(f"{model} {' '.join(options)}", stage, text)

        self.seeds = list(pool.map(compile_to, kinds))
        for path in sorted(tests.rglob("*.mlir")) if tests else []:
            for part in re.split(r"^// -----$|^//--- .*$", path.read_text(), flags=re.M):
                text = re.sub(r"^\s*//.*\n", "", part, flags=re.M)
                if "kiln" in text:
                    stage = "schedule" if "kilnrt.program" in text else "any"
                    self.seeds.append(Seed(str(path.relative_to(tests)), stage, text))

        # A module that does not verify on its own has no generic form.
        def print_generic(seed):
            return subprocess.run(
                [bin_dir / "kiln-opt", "--mlir-print-op-generic"],
                input=seed.text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip

        for seed, done in list(zip(self.seeds, pool.map(print_generic, self.seeds))):
            if done.returncode == 0:
                self.seeds.append(Seed(seed.name + " generic", seed.stage, done.stdout))
        self.models = [seed for seed in self.seeds if seed.stage == "forward"]
        self.texts = [seed.text for seed in self.seeds]
        self.ops = sorted({name for text in self.texts for name in re.findall(r"\bkiln(?:rt)?\.[a-z_]+", text)})
