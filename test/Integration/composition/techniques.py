# ===- techniques.py - Techniques and their kinds ----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Defines the techniques. The kind of a technique determines what a program that uses it
must equal:

exact       the same program without it, to the last bit
reordering  the same program without it, within rounding
lossy       nothing: its gradients are estimates. Adding exact techniques does not change
            the bits of a lossy program
program     nothing: other optimizers, dropout, clipping and adapters train differently,
            and 16 bits and narrow states round differently

A program without its exact techniques is its *meaning*; programs with the same meaning have
the same bits. Meanings are compared with the reference interpreter."""

import dataclasses
import itertools

POLICIES = ("full", "sqrt", "blocks", "poor")


@dataclasses.dataclass(frozen=True)
class Technique:
    name: str
    kind: str
    # A program has at most one of the techniques that share an answer.
    answers: frozenset
    flags: str  # As shown in the table of the page.


def technique(name, kind, flags, *answers):
    return Technique(name, kind, frozenset(answers or [name]), flags)


# In the order of the table.
ALL = [
    technique("recompute", "exact", "`--recompute=full`, `sqrt`, `blocks` and `poor` in turn", "recompute"),
    technique("activations", "exact", "`--offload=activations`"),
    technique("optimizer", "exact", "`--offload=optimizer`"),
    technique("parameters", "exact", "`--offload=parameters`"),
    technique(
        "mixed states", "exact",
        "`--offload=optimizer:0.3,moments:0.4,parameters:0.5`; with sgd, `optimizer:0.3,parameters:0.5`",
        "optimizer", "parameters",
    ),
    technique("budget", "exact", "`--memory-budget=SIZE`: the planner chooses what to repeat", "recompute"),
    technique(
        "budget, auto", "exact",
        "`--memory-budget=SIZE --offload=auto --simulate-link=200MB/s`: the planner also chooses what to copy",
        "recompute", "activations", "optimizer", "parameters",
    ),
    technique("unfused", "exact", "`--fuse=off`"),
    technique("16 bit", "program", "`--precision=bf16`; with adam and momentum, `--precision=fp16`"),
    technique(
        "narrow states", "program",
        "`--states=gradients:bf16,moments:bf16/f32`; adam and momentum: `moments:dynamic8`, with adapters and for nesterov "
        "`moments:bf16`; sgd: `gradients:bf16`; in 16 bits also working copies: `parameters:f16,master:f32`, or bf16",
    ),
    technique("micro-batches", "reordering", "`--microbatches=4`"),
    technique(
        "lora", "program",
        "`--lora=r=4,alpha=8,targets=all-linear,dropout=0.1`, with powersgd and narrow states `r=8`; in 16 bits also `--quantize-weights=nf4`, "
        "with sgd and adam `int8:outliers=2`",
    ),
    technique("few-bit", "lossy", "`--lossy=fewbit:3`"),
    technique("rmm", "lossy", "`--lossy=rmm:0.5`"),
    technique("codes", "lossy", "`--lossy=q8`; with sgd, momentum and nesterov, `--lossy=q4`"),
    technique("dropout", "program", "`--dropout=0.1`"),
    technique("clipping", "program", "`--clip=on`, `--grad-clip=0.5` of the executable; else `--clip=off`"),
    *(
        technique(name, "program", f"`--optimizer={name}`", "update")
        for name in ("adamw", "adam", "sgd", "momentum", "nesterov")
    ),
]
# Ranks, in tables of their own. "sync" is local SGD; the last ones sum compressed gradients.
MESHES = {
    "dp": ("dp=2", ()),
    "zero 1": ("dp=2", ("--zero=1",)),
    "zero 2": ("dp=2", ("--zero=2",)),
    "zero 3": ("dp=2", ("--zero=3",)),
    "owner": ("dp=2", ("--zero=2", "--zero-by=owner")),
    "tp": ("tp=2", ()),
    "sequence": ("tp=2", ("--sequence-parallel",)),
    "dp and tp": ("dp=2,tp=2", ("--zero=3",)),
    "sync": ("dp=2", ("--sync-every=2",)),
    "powersgd": ("dp=2", ("--compress-gradients=powersgd:1",)),
    "gradzip": ("dp=2", ("--compress-gradients=gradzip:1",)),
    "count-sketch": ("dp=2", ("--compress-gradients=count-sketch:4",)),
}
COMPRESSED = ("powersgd", "gradzip", "count-sketch")
# Those that train differently from one rank.
APPROXIMATE = ("sync", *COMPRESSED)
RANKS = [
    technique(
        name, "program" if name in APPROXIMATE else "reordering", f"`{' '.join([f'--mesh={mesh}', *flags])}`", "ranks"
    )
    for name, (mesh, flags) in MESHES.items()
]
NAMED = {each.name: each for each in [*ALL, *RANKS]}
ON_HOST = ("activations", "optimizer", "parameters", "mixed states")
PLANNED = ("budget", "budget, auto")
LOSSY = ("few-bit", "rmm", "codes")
LEARNING_RATES = {"adamw": 0.003, "adam": 0.003, "sgd": 0.1, "momentum": 0.03, "nesterov": 0.03}
# Adapters begin with zero, so that the loss decreases visibly only with higher rates.
LORA_RATES = {"adamw": 0.01, "adam": 0.01, "sgd": 1, "momentum": 0.3, "nesterov": 0.3}


def exclude(one, other):
    """Returns true if no program can have both."""
    return bool(NAMED[one].answers & NAMED[other].answers)


def possible(names):
    return not any(exclude(a, b) for a, b in itertools.combinations(names, 2))


@dataclasses.dataclass(frozen=True)
class Program:
    """A set of techniques, one of which is an optimizer."""

    techniques: frozenset
    full_precision: str = "fp32"  # Or fp64; used unless values are rounded to bf16.
    policy: str = "full"

    def __post_init__(self):
        assert possible(self.techniques)
        assert any(name in self.techniques for name in LEARNING_RATES), "no optimizer"

    def without(self, *names, kind=None):
        kept = {n for n in self.techniques if n not in names and NAMED[n].kind != kind}
        policy = self.policy if "recompute" in kept else "full"
        return dataclasses.replace(self, techniques=frozenset(kept), policy=policy)

    @property
    def meaning(self):
        return self.without(kind="exact")

    @property
    def ranks(self):
        """The name of the technique of ranks, or None for one rank."""
        return next((name for name in MESHES if name in self.techniques), None)

    @property
    def sizes(self):
        """The number of data-parallel ranks, and that of all ranks."""
        axes = dict(axis.split("=") for axis in MESHES[self.ranks][0].split(",")) if self.ranks else {}
        parts = int(axes.get("dp", 1))
        return parts, parts * int(axes.get("tp", 1))

    @property
    def precision(self):
        if "16 bit" in self.techniques:
            # Ranks that train alone for some steps cannot agree on a loss scale, and the errors of
            # compressed gradients have no scale.
            scales = self.optimizer in ("adam", "momentum") and self.ranks not in APPROXIMATE
            return "fp16" if scales else "bf16"
        return "fp32" if "narrow states" in self.techniques else self.full_precision

    @property
    def rounding(self):
        """The precision whose rounding the results have, or a coarser one."""
        return "bf16" if {"16 bit", "narrow states"} & self.techniques else self.precision

    @property
    def optimizer(self):
        return next(name for name in LEARNING_RATES if name in self.techniques)

    @property
    def copies(self):
        return bool(self.techniques & {*ON_HOST, "budget, auto"})

    def __str__(self):
        names = [each.name for each in [*RANKS, *ALL] if each.name in self.techniques]
        if "recompute" in names and self.policy != "full":
            names[names.index("recompute")] += f"={self.policy}"
        return f"{self.precision} " + " + ".join(names)

    def compiler_flags(self, length, encodes=True):
        """Returns the flags for sequences of this length, without the budget, which depends
        on the memory of the program without one. Unless `encodes`, the parameters are too small
        for moments that are stored as codes."""
        has = self.techniques.__contains__
        parts, count = self.sizes
        flags = [f"--batch={4 // parts}", f"--seq={length}", "--max-threads=2", "--eval=off"]
        if self.ranks:
            mesh, more = MESHES[self.ranks]
            flags += [f"--mesh={mesh}", *more]
        flags += [f"--precision={self.precision}", f"--optimizer={self.optimizer}"]
        flags += ["--clip=on" if has("clipping") else "--clip=off"]
        flags += ["--dropout=0.1"] if has("dropout") else []
        moments = {"adam": "dynamic8", "momentum": "dynamic8"}
        # Adapters are too small, too, and codes cannot be averaged.
        if has("lora") or not encodes or self.ranks == "sync":
            moments = {"momentum": "bf16"}
        moments = {"adamw": "bf16/f32", "adam": "bf16/f32", "nesterov": "bf16", **moments}
        low = {"fp16": "f16", "bf16": "bf16"}.get(self.precision)
        narrow = f"gradients:{low or 'bf16'}"
        narrow += f",moments:{moments[self.optimizer]}" if self.optimizer in moments else ""
        narrow += f",parameters:{low},master:f32" if low else ""
        flags += [f"--states={narrow}"] if has("narrow states") else []
        # PowerSGD leaves factors of rank 4 as they are if their gradients have 16 bits.
        rank = 8 if self.ranks == "powersgd" and has("narrow states") else 4
        flags += [f"--lora=r={rank},alpha=8,targets=all-linear,dropout=0.1"] if has("lora") else []
        encoding = "int8:outliers=2" if self.optimizer in ("sgd", "adam") else "nf4"
        flags += [f"--quantize-weights={encoding}"] if has("lora") and has("16 bit") and count == parts else []
        flags += [f"--microbatches={4 // parts}"] if has("micro-batches") else []
        flags += ["--fuse=off"] if has("unfused") else []
        flags += [f"--recompute={self.policy}"] if has("recompute") else []
        mixed = "optimizer:0.3,parameters:0.5" if self.optimizer == "sgd" else "optimizer:0.3,moments:0.4,parameters:0.5"
        hosted = [mixed if name == "mixed states" else name for name in ON_HOST if has(name)]
        flags += ["--offload=" + ",".join(hosted)] if hosted else []
        flags += ["--offload=auto", "--simulate-link=200MB/s"] if has("budget, auto") else []
        # If the backward pass recomputes cheap values, few-bit or rmm alone finds nothing to encode
        # in a transformer.
        bits = 8 if self.optimizer in ("adamw", "adam") else 4
        spelled = {"few-bit": "fewbit:3", "rmm": "rmm:0.5", "codes": f"q{bits}"}
        lossy = [spelled[name] for name in LOSSY if has(name)]
        flags += ["--lossy=" + ",".join(lossy)] if lossy else []
        flags += ["--rebuild=off"] if has("few-bit") or has("rmm") else []
        return flags

    def run_flags(self, steps, rate=None):
        rates = LORA_RATES if "lora" in self.techniques else LEARNING_RATES
        rate = rates[self.optimizer] if rate is None else rate
        flags = ["--seed=5", f"--steps={steps}", f"--lr={rate}"]
        # A smaller scale than by default, so that few of the steps are skipped.
        flags += ["--loss-scale=4096"] if self.precision == "fp16" else []
        return flags + (["--grad-clip=0.5"] if "clipping" in self.techniques else [])
