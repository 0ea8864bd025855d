# ===- covering.py - Few programs that cover every pair ----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Generates covering arrays: programs with many techniques each, such that any two levels of
any two factors (a technique used or not, one optimizer or another) occur together in one of
them. The algorithm is greedy with a fixed seed, so the programs are the same on all
machines."""

import itertools
import random

import techniques
from techniques import LEARNING_RATES, LOSSY, PLANNED, POLICIES, Program

# Levels are sets of techniques that a factor adds. The factors that determine the meaning come
# first, because few meanings need few reference runs.
MEANING = {
    "update": [(name,) for name in LEARNING_RATES],
    **{
        name: [(), (name,)]
        for name in ("16 bit", "narrow states", "micro-batches", "lora", "few-bit", "rmm", "codes", "dropout", "clipping")
    },
    "precision": ["fp32", "fp64"],
}
PLAN = {
    "recompute": [(), ("recompute",), ("budget",), ("budget, auto",)],
    **{name: [(), (name,)] for name in (*techniques.ON_HOST, "unfused")},
}


def names(row):
    return [name for factor, level in row.items() if factor != "precision" for name in level]


def pairs(row):
    return set(itertools.combinations(sorted(row.items(), key=str), 2))


def allowed(row):
    """Returns false for programs in which a planner with a budget has no choice or would not
    use the lossy techniques: micro-batches of one sequence leave few activations, with clipping
    all gradients are live at once, and small states leave the link free for activations."""
    has = set(names(row))
    exact = has & set(LOSSY) and (
        (has & set(PLANNED) and has & {"micro-batches", "activations", "lora", "narrow states"})
        or {"budget, auto", "clipping"} <= has
    )
    settled = {"budget", "activations", "clipping"} <= has
    return techniques.possible(has) and not exact and not settled


def extend(bases, factors, wanted, chance):
    """Returns the row that covers most of `wanted` among 200 random rows: one of `bases`
    with a level of each factor."""
    best, gain = None, 0
    for _ in range(200 if wanted else 0):
        row = dict(chance.choice(bases))
        row.update((factor, chance.choice(levels)) for factor, levels in factors.items())
        covered = len(pairs(row) & wanted) if allowed(row) else 0
        if covered > gain:
            best, gain = row, covered
    return best


def cover(bases, factors, chance, spare=()):
    """Returns rows over `bases` that cover every pair of levels, including the levels of
    `factors`. Pairs that no row over `bases` has are covered by rows over `spare`."""
    wanted = set().union(*map(pairs, bases))
    known = {item for row in bases for item in row.items()}
    levels = {(factor, level) for factor, all_ in factors.items() for level in all_}
    for one, other in itertools.product(levels, known | levels):
        row = dict([one, other])
        if one[0] != other[0] and allowed(row):
            wanted |= pairs(row)
    rows = []
    for _ in range(1000):
        row = extend(bases, factors, wanted, chance)
        if not row and spare:
            row = extend(spare, factors, wanted, chance)
        if row:
            rows.append(row)
            wanted -= pairs(row)
    assert not wanted, f"no program has {wanted}"
    return rows


def triples(chosen):
    return set(itertools.combinations(sorted(chosen), 3))


def more_triples(rows, meanings, count, chance):
    """Returns `count` additional rows, each with as many new triples of techniques as
    possible."""
    seen = set().union(*(triples(names(row)) for row in rows))
    for _ in range(count):
        candidates = []
        for _ in range(200):
            row = dict(chance.choice(meanings))
            row.update((factor, chance.choice(levels)) for factor, levels in PLAN.items())
            candidates += [row] if allowed(row) else []
        rows.append(max(candidates, key=lambda row: len(triples(names(row)) - seen)))
        seen |= triples(names(rows[-1]))


def covering_programs(seed, more):
    """Returns programs that cover every possible pair of techniques and every technique
    without every other one, and `more` programs that cover triples."""
    chance = random.Random(seed)
    meanings = cover([{}], MEANING, chance)
    # Nearly all meanings have a lossy technique, and some plans exclude these techniques.
    exact = [{**row, **{name: () for name in LOSSY}} for row in meanings]
    rows = cover(meanings, PLAN, chance, exact)
    more_triples(rows, meanings, more, chance)
    policies = itertools.cycle(POLICIES)
    return [
        Program(
            frozenset(names(row)),
            "fp32" if {"16 bit", "narrow states"} & set(names(row)) else row["precision"],
            next(policies) if "recompute" in names(row) else "full",
        )
        for row in rows
    ]


# Combinations of three techniques that are often used, of which one is ranks.
RANK_TRIPLES = [
    ("zero 3", "lora", "16 bit", "optimizer", "adamw"),  # QLoRA.
    ("dp and tp", "optimizer", "activations", "dropout", "adamw"),
    ("zero 2", "16 bit", "micro-batches", "adam"),  # Fp16.
    ("sync", "16 bit", "narrow states", "optimizer", "momentum"),
]


def rank_programs(seed, first_only):
    """Returns programs of several ranks that cover every pair of a mesh and another technique, and
    every mesh without every technique, and RANK_TRIPLES; or with `first_only` the first program of
    each mesh."""
    chance = random.Random(seed)
    bases = [{"ranks": (name,)} for name in techniques.MESHES]
    factors = {**MEANING, **PLAN}
    items = [(factor, level) for factor, levels in factors.items() for level in levels]
    wanted = set()
    for base, item in itertools.product(bases, items):
        row = {**base, item[0]: item[1]}
        if allowed(row):
            wanted |= pairs(row)
    policies = itertools.cycle(POLICIES)
    programs = {}
    for _ in range(1000):
        row = extend(bases, factors, wanted, chance)
        if not row:
            continue
        wanted -= pairs(row)
        chosen = set(names(row))
        precision = "fp32" if {"16 bit", "narrow states"} & chosen else row["precision"]
        policy = next(policies) if "recompute" in chosen else "full"
        programs.setdefault(row["ranks"], []).append(Program(frozenset(chosen), precision, policy))
    assert not wanted, f"no program has {wanted}"
    if first_only:
        return [of_mesh[0] for of_mesh in programs.values()]
    triples = [Program(frozenset(chosen), "fp32", "full") for chosen in RANK_TRIPLES]
    return [*itertools.chain.from_iterable(programs.values()), *triples]


def every(size):
    """Returns a program for every choice of `size` techniques, with AdamW if none is an
    optimizer. Pairs are tested with every recomputation policy."""
    for chosen in itertools.combinations([each.name for each in techniques.ALL], size):
        if not techniques.possible(chosen):
            continue
        policies = POLICIES if size < 3 and "recompute" in chosen else POLICIES[:1]
        if not any(name in LEARNING_RATES for name in chosen):
            chosen = (*chosen, "adamw")
        for policy in policies:
            yield Program(frozenset(chosen), "fp32", policy)
