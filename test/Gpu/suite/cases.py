# ===- cases.py - Models of the GPU suite ------------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The models and flags that are compiled for the suite, and the parts that use them.
pack.py compiles them; the suite reads them from the bundle's manifest."""

import dataclasses

# Flags of every executable: an instruction set that current machines have, and
# a limit of the number of threads.
COMMON_FLAGS = ("--mcpu=x86-64-v3", "--max-threads=16")
EVERY_OFFLOAD = "--offload=activations,optimizer,parameters"
SMALL_PARTS = ("correctness", "kernels", "memory")
CHECKED_PARTS = (*SMALL_PARTS, "sanitizer")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with flags, compiled for several targets.

    targets     cpu, cpu64 (cpu with --precision=fp64), emu (cuda-emu), cuda
    uses        the parts of the suite that run the case
    tolerance   a name in tolerances.py
    twin        true if PyTorch computes the same model (no dropout, no lossy flags)
    exact       the case whose fp64 run is the reference; default: the case itself
    cudnn       true if cuDNN computes attention, which is nondeterministic on some GPUs
    bundles     the bundles with this case: full, or small for the suite's own tests
    """

    name: str
    model: str
    flags: tuple
    targets: tuple = ("cpu", "emu", "cuda")
    uses: tuple = SMALL_PARTS
    steps: int = 20
    batch: int = 4
    length: int = 40
    optimizer: str = "adamw:eps=1e-6,weight_decay=0.1"
    rate: float = 1e-3
    clip: float = 1.0
    precision: str = "fp32"
    tolerance: str = "fp32"
    twin: bool = False
    exact: str = ""
    cudnn: bool = False
    bundles: tuple = ("full",)
    # True if the CPU executable initialises the weights, since generating them
    # in Python is slow for large models.
    large: bool = False

    def compiler_flags(self, target):
        """Returns all flags of kilnc except the model and the output."""
        targets = {"cpu": "cpu", "cpu64": "cpu", "emu": "cuda-emu", "cuda": "cuda"}
        precision = "fp64" if target == "cpu64" else self.precision
        flags = [*COMMON_FLAGS, f"--target={targets[target]}"]
        flags += [f"--batch={self.batch}", f"--seq={self.length}"]
        flags += [f"--precision={precision}", f"--optimizer={self.optimizer}"]
        flags += ["--clip=on" if self.clip >= 0 else "--clip=off"]
        if "correctness" in self.uses:
            flags.append("--emit-gradients")
        if target == "cpu64":
            return flags  # The reference runs without memory techniques.
        if target == "cuda" and self.cudnn:
            flags.append("--attention=cudnn")
        return [*flags, *self.flags]

    def run_flags(self, steps=None):
        flags = [f"--steps={steps or self.steps}", f"--lr={self.rate!r}", "--seed=5"]
        return flags + ([f"--grad-clip={self.clip!r}"] if self.clip > 0 else [])


def plain(name, model, **options):
    """Returns a case without memory techniques, also compared with f64 and PyTorch."""
    targets = ("cpu", "cpu64", "emu", "cuda")
    return Case(name, model, (), targets=targets, twin=True, **options)


def small_cases():
    """Yields small models with irregular shapes, which together use every technique."""
    yield plain("gpt2-awkward", "gpt2-awkward")
    yield plain(
        "gpt2-erf-inner",
        "gpt2-erf-inner",
        optimizer="sgd:weight_decay=0.01",
        rate=0.1,
        clip=-1.0,
    )
    yield plain(
        "gpt2-narrow", "gpt2-narrow", length=29, optimizer="momentum:momentum=0.9", rate=0.02
    )
    yield plain("llama-gqa", "llama-gqa")
    yield plain(
        "llama-narrow",
        "llama-narrow",
        length=32,
        optimizer="nesterov:momentum=0.9,weight_decay=0.01",
        rate=0.02,
        clip=0.1,
    )
    yield plain("llama-rope3", "llama-rope3", batch=3, length=37)
    yield plain(
        "llama-tied-bias", "llama-tied-bias", optimizer="adam:eps=1e-6,weight_decay=0.01"
    )
    yield Case(
        "gpt2-everything",
        "gpt2-awkward",
        ("--dropout=0.1", "--microbatches=2", "--recompute=full", EVERY_OFFLOAD),
        clip=0.5,
        uses=CHECKED_PARTS,
    )
    yield Case(
        "gpt2-unfused", "gpt2-narrow", ("--fuse=off", "--offload=optimizer"), length=29, batch=2
    )
    yield Case(
        "llama-activations",
        "llama-narrow",
        ("--microbatches=4", "--recompute=sqrt", "--offload=activations"),
        length=32,
        clip=-1.0,
        uses=CHECKED_PARTS,
    )
    yield Case(
        "llama-states",
        "llama-tied-bias",
        ("--dropout=0.2", "--offload=optimizer,parameters", "--microbatches=2"),
        optimizer="sgd",
        rate=0.1,
    )
    yield Case(
        "llama-lossy",
        "llama-narrow",
        ("--lossy=fewbit:3,rmm:0.5", "--rebuild=off"),
        length=32,
        tolerance="lossy",
        uses=CHECKED_PARTS,
    )
    yield Case(
        "gpt2-fewbit",
        "gpt2-awkward",
        ("--lossy=fewbit:3", "--rebuild=off", "--offload=activations"),
        tolerance="lossy",
    )
    # One layer with the width of the 124M model and a small vocabulary: kernels
    # have their real widths, and the trace remains small.
    for precision in ("fp32", "bf16"):
        yield Case(
            f"gpt2-slice-{precision}",
            "gpt2-slice",
            ("--eval=off",),
            batch=2,
            length=128,
            optimizer="sgd",
            rate=0.05,
            precision=precision,
            tolerance=precision,
            uses=("kernels",),
            large=True,
        )
    for model in ("gpt2-awkward", "llama-gqa"):
        yield Case(
            f"{model}-bf16",
            model,
            (),
            precision="bf16",
            tolerance="bf16",
            twin=True,
            exact=model,
            uses=CHECKED_PARTS,
        )


    yield Case(
        "gpt2-cudnn-bf16",
        "gpt2-awkward",
        (),
        targets=("cpu", "cuda"),
        precision="bf16",
        tolerance="bf16",
        twin=True,
        exact="gpt2-awkward",
        cudnn=True,
        uses=("correctness", "memory"),
    )


def large_cases():
    """Yields the cases of GPT-2 124M: correctness at full length, and benchmarks."""
    model = "gpt2-124m"
    fixed = {"model": model, "length": 1024, "large": True}
    for precision in ("fp32", "bf16"):
        yield Case(
            f"124m-{precision}",
            flags=("--eval=off",),
            targets=("cpu", "cpu64", "cuda") if precision == "fp32" else ("cpu", "cuda"),
            uses=("correctness", "memory") if precision == "bf16" else ("correctness",),
            batch=2,
            steps=4,
            precision=precision,
            tolerance=f"{precision}-large",
            twin=True,
            exact="124m-fp32",
            **fixed,
        )
        timed = {
            "targets": ("cuda",),
            "optimizer": "adamw:weight_decay=0.1",
            "clip": -1.0,
            "precision": precision,
            "tolerance": precision,
            **fixed,
        }
        flags = ("--eval=off", "--dropout=0")
        for batch in (4, 16, 64):
            uses = ("bench", "trace") if batch > 4 else ("bench",)
            yield Case(f"124m-{precision}-b{batch}", flags=flags, uses=uses, batch=batch, **timed)
            if precision == "bf16" and batch > 4:
                yield Case(
                    f"124m-bf16-b{batch}-cudnn",
                    flags=flags,
                    uses=("bench",),
                    batch=batch,
                    cudnn=True,
                    **timed,
                )
        for what in ("activations", "optimizer", "parameters"):
            if precision == "fp32" and what == "parameters":
                continue
            yield Case(
                f"124m-{precision}-{what}",
                flags=(*flags, f"--offload={what}"),
                uses=("offload",),
                batch=16,
                **timed,
            )


def tiny_cases():
    """Yields minimal cases that use every part of the suite, for its own tests."""
    shape = {"model": "gpt2-erf-inner", "batch": 2, "length": 8}
    fixed = {**shape, "clip": -1.0, "bundles": ("small",)}
    yield Case(
        "tiny",
        flags=("--eval=off",),
        targets=("cpu", "cpu64", "emu", "cuda"),
        twin=True,
        uses=(*CHECKED_PARTS, "bench", "trace"),
        **fixed,
    )
    yield Case(
        "tiny-offloaded",
        flags=("--eval=off", "--microbatches=2", "--dropout=0.1", EVERY_OFFLOAD),
        uses=("correctness", "kernels", "offload"),
        **fixed,
    )


def cases_of(bundle):
    """Returns the cases of a bundle, full or small."""
    every = [*small_cases(), *large_cases(), *tiny_cases()]
    return [case for case in every if bundle in case.bundles]
