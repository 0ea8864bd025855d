# ===- check_orders.py - Orders of the segments of micro-batches --------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""check_orders.py [--orders=few] [--targets=cpu,cuda-emu,interpreter,trace] [--matching=]
[--seed=1] [--results=FILE] KILNC KILN-RUN MODELS WORK: trains the models tiny-gpt2 and
tiny-llama, which are in the folder MODELS, with orders of forward and backward segments. Every
combination of a model, a target, flags and an order is required to satisfy the following:

- --check-memory passes, and checks the memory of the host if the plan uses it;
- the plan has as many ring slots as micro-batches are in flight at most;
- losses and saved tensors have the same bits as with the serial order: the order with the
  same backward segments, in which each forward segment is directly before the backward
  segment of its micro-batch. This is 'alternate' if the backward segments are in ascending
  order;
- losses and weights differ from those of 'alternate' by rounding. The relative difference of
  a tensor is the norm of the difference, divided by the norm of the tensor.

The target 'interpreter' is kiln-run, which executes the schedule. The target 'trace' compares
the results of all ops of an executable with the interpreter's.

With --orders=few, few combinations are tested, which contain every set of flags, every kind
of order and every target. --orders=all tests about 2,070 combinations, which takes a few hours:

  check_orders.py --orders=all build/bin/kilnc build/bin/kiln-run examples WORK

Random orders are drawn from the seed. --matching selects the combinations whose line contains
this text. Failures are printed with the commands that reproduce them, and counted.

--results reads and extends a file of the combinations that agree, each with a digest of all
executables and schedules that it ran. A combination with the same digest is not run again. So an
interrupted run can be continued, and a later compiler can be tested by compiling alone if it
compiles to the same bytes. The folder WORK must be the same, because programs contain its path.
If the checks of this script change, delete the file."""

import array
import dataclasses
import functools
import hashlib
import itertools
import math
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import time

import harness

MODELS = ("tiny-gpt2", "tiny-llama")
FLAGS = [
    "",
    "--dropout=0.1",
    "--clip=off",
    # The backward pass must not recompute cheap values, because the encodings of one technique
    # alone then find nothing to encode.
    "--lossy=fewbit:4 --rebuild=off",
    "--lossy=rmm:0.5 --rebuild=off",
    "--recompute=blocks",
    "--offload=activations",
    "--offload=optimizer,parameters",
    "--offload=activations,optimizer",
    "--precision=bf16",
    "--precision=fp64",
]
# Adam divides a gradient by its size. For gradients that are zero but for rounding, such as
# those of the biases of keys, epsilon must be larger than rounding errors.
COMMON = ["--seq=8", "--max-threads=2", "--eval=off", "--optimizer=adamw:eps=1e-3"]
NAMED = ["all-forward-first", "one-forward-one-backward:2", "one-forward-one-backward:4"]
# A rounding error of a state may change the last bit of its bf16 value.
TOLERANCES = {"fp32": 1e-6, "fp64": 1e-12, "bf16": 2.0**-8}


@dataclasses.dataclass(frozen=True)
class Order:
    text: str  # As in the option --order.
    count: int  # Of micro-batches.

    @functools.cached_property
    def segments(self):
        """Returns the pairs of "F" or "B" and a micro-batch."""
        if self.text[0] == "F":
            return [(name[0], int(name[1:])) for name in self.text.split()]
        ahead = {"alternate": 1, "all-forward-first": self.count}.get(self.text)
        ahead = min(ahead or int(self.text.rpartition(":")[2]), self.count)
        segments = [("F", i) for i in range(ahead)]
        for i in range(self.count):
            segments += [("B", i)] + [("F", i + ahead)] * (i + ahead < self.count)
        return segments

    @property
    def backward(self):
        return [microbatch for segment, microbatch in self.segments if segment == "B"]

    @property
    def in_flight(self):
        change = {"F": 1, "B": -1}
        return max(itertools.accumulate(change[segment] for segment, _ in self.segments))

    @property
    def serial(self):
        if self.backward == sorted(self.backward):
            return Order("alternate", self.count)
        return Order(" ".join(f"F{i} B{i}" for i in self.backward), self.count)

    def flag(self, folder):
        if self.text[0] != "F":
            return f"--order={self.text}"
        (folder / "order.txt").write_text(self.text + "\n")
        return f"--order={folder / 'order.txt'}"


def ascending_orders(count, started=0, ended=0):
    """Returns all orders in which both the forward and the backward segments ascend."""
    if ended == count:
        return [""]
    orders = []
    if started < count:
        orders += [f"F{started} {rest}" for rest in ascending_orders(count, started + 1, ended)]
    if ended < started:
        orders += [f"B{ended} {rest}" for rest in ascending_orders(count, started, ended + 1)]
    return [order.strip() for order in orders]


def random_order(chance, count, ascending):
    """Returns a random order that is not serial. Its backward segments ascend if wanted, its
    forward segments need not."""
    waiting, flying, ended, text = chance.sample(range(count), count), [], [], []
    while len(ended) < count:
        ready = [i for i in flying if i == len(ended)] if ascending else flying
        if waiting and (not ready or chance.random() < 0.5):
            flying.append(waiting.pop())
            text.append(f"F{flying[-1]}")
        else:
            ended.append(chance.choice(ready))
            flying.remove(ended[-1])
            text.append(f"B{ended[-1]}")
    order = Order(" ".join(text), count)
    return order if order.in_flight > 1 else random_order(chance, count, ascending)


@dataclasses.dataclass(frozen=True)
class Combination:
    model: str
    target: str
    flags: str
    order: Order
    steps: int = 5
    seed: int = 0  # Of the times of copies and of what the emulated GPU does in any order.

    def __str__(self):
        return f"{self.model} {self.target} '{self.flags}' '{self.order.text}' of {self.order.count}"

    @property
    def precision(self):
        return next((flag[12:] for flag in self.flags.split() if "--precision=" in flag), "fp32")


class Failure(Exception):
    pass


@dataclasses.dataclass
class Reference:
    """A compiled program with which others are compared, and its result once it has run."""

    combination: Combination
    folder: pathlib.Path
    made: list
    digest: bytes
    result: tuple = None


class Workplace:
    """Compiles and runs combinations in a folder."""

    def __init__(self, kilnc, interpreter, models, work):
        self.kilnc, self.interpreter, self.models, self.work = kilnc, interpreter, models, work
        self.commands = []
        self.references = {}
        self.passed = set()  # Digests of combinations that agree.
        for model in MODELS:
            harness.write_inputs(f"{models}/{model}", harness.fresh_directory(work / model))

    def run(self, *command):
        self.commands.append(shlex.join(map(str, command)))
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def compile(self, one, folder, emit=None):
        """Returns the executable, or the schedule, and the flags that it was compiled with."""
        batch = 8 if one.model == "tiny-llama" else one.order.count
        flags = [f"--microbatches={one.order.count}", f"--batch={batch}"]
        flags += [*COMMON, *one.flags.split(), one.order.flag(folder)]
        flags += ["--target=cuda-emu"] if one.target == "cuda-emu" else []
        stage = [f"--emit={emit}"] if emit else []
        output = folder / ("schedule.mlir" if emit else "train")
        self.run(self.kilnc, f"{self.models}/{one.model}", *flags, *stage, "-o", output)
        return output, flags

    def make(self, one, folder):
        """Compiles what train() or check_trace() runs."""
        stages = {"interpreter": ["schedule"], "trace": [None, "schedule"]}.get(one.target, [None])
        return [self.compile(one, folder, emit) for emit in stages]

    def train(self, one, folder, made, check):
        """Trains, and returns the losses and the folder of the checkpoint."""
        log, saved = folder / "log.jsonl", folder / "saved"
        common = [f"--data={self.work / one.model / 'train.bin'}", "--seed=5", f"--steps={one.steps}"]
        common += ["--lr=0.003", "--warmup-steps=2", f"--log={log}", f"--save={saved}"]
        [(executable, flags)] = made
        if one.target == "interpreter":
            self.run(self.interpreter, executable, *common)
        else:
            if one.seed and one.target == "cuda-emu":
                common.append(f"--emu-seed={one.seed}")
            elif one.seed and "--offload" in one.flags:
                common.append(f"--stress-copies={one.seed}")
            self.run(executable, *common, "--threads=2")
            plan = harness.events(log, "start")[0]
            if check:
                self.check_plan(one, plan)
                self.check_memory(executable, flags, plan)
        losses = harness.losses(log)
        if len(losses) != one.steps:
            raise Failure(f"{len(losses)} steps instead of {one.steps}")
        return losses, harness.newest_checkpoint(saved)

    def check_plan(self, one, plan):
        slots = plan["segments"]["ring_slots"]
        if slots != one.order.in_flight:
            raise Failure(f"{slots} ring slots, but {one.order.in_flight} micro-batches in flight")
        if ("--offload" in one.flags) != bool(plan["host_arena_bytes"]):
            raise Failure(f"the host's arena has {plan['host_arena_bytes']} bytes")

    def check_memory(self, executable, flags, plan):
        self.commands.append(f"{executable} --check-memory")
        host = ["bytes of the host arena up to the last byte written"]
        host = host if plan["host_arena_bytes"] else []
        failures = harness.memory_failures(executable, flags, host)
        if failures:
            raise Failure("; ".join(failures))

    def check_trace(self, folder, made):
        (executable, _), (schedule, _) = made
        self.run(executable, f"--check-ops={folder / 'trace'}")
        table = self.run(self.interpreter, schedule, f"--check-trace={folder / 'trace'}")
        if "FAIL" in table or "ok    matmul" not in table:
            raise Failure(table)

    def reference(self, one, order):
        """Returns the compiled program with another order."""
        key = dataclasses.replace(one, order=order, seed=0)
        if key not in self.references:
            folder = harness.fresh_directory(self.work / f"reference{len(self.references)}")
            made = self.make(key, folder)
            self.references[key] = Reference(key, folder, made, digest_of(made))
        return self.references[key]

    def result_of(self, reference):
        if not reference.result:
            one, folder = reference.combination, reference.folder
            reference.result = self.train(one, folder, reference.made, check=False)
            (folder / "train").unlink(missing_ok=True)
        return reference.result

    def digest(self, one, made, references):
        """Returns a digest of everything that a combination runs."""
        parts = [repr(one).encode(), digest_of(made), *(each.digest for each in references)]
        if one.target in ("interpreter", "trace"):
            parts.append(digest_of([(pathlib.Path(shutil.which(self.interpreter)), [])]))
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def check(self, one):
        """Raises a Failure if the combination does not satisfy what it must. Returns the digest
        of what it ran, and a note."""
        self.commands = []
        folder = harness.fresh_directory(self.work / "combination")
        made = self.make(one, folder)
        references = []
        if one.target != "trace":
            orders = one.order.serial, Order("alternate", one.order.count)
            references = [self.reference(one, order) for order in orders]
        digest = self.digest(one, made, references)
        if digest in self.passed:
            return digest, "as in an earlier run"
        if one.target == "trace":
            self.check_trace(folder, made)
            return digest, ""
        found = self.train(one, folder, made, check=True)
        serial, alternate = map(self.result_of, references)
        require_equal(found, serial)
        return digest, require_close(found, alternate, TOLERANCES[one.precision])


def digest_of(made):
    """Returns a digest of the files that Workplace.make() returns."""
    return b"".join(hashlib.sha256(path.read_bytes()).digest() for path, _ in made)


def require_equal(found, expected):
    for a, b in zip(found[0], expected[0]):
        if a != b:
            raise Failure(f"{' '.join(a)}, but with the serial order {' '.join(b)}")
    for name in ("model.safetensors", "optimizer.safetensors"):
        tensors, others = (harness.saved_tensors(saved / name) for saved in (found[1], expected[1]))
        differing = [tensor for tensor in {**tensors, **others} if tensors.get(tensor) != others.get(tensor)]
        if differing:
            raise Failure(
                f"{len(differing)} of {len(others)} tensors in {name} differ from those of the "
                f"serial order, such as {differing[0]}"
            )


def require_close(found, expected, tolerance):
    """Returns a text with the largest differences, which must be at most the tolerance."""
    worst = {"losses": 0.0, "weights": 0.0}

    def add(kind, what, difference):
        worst[kind] = max(worst[kind], difference)
        if not difference <= tolerance:
            raise Failure(f"{what} differs by {difference:.2e} from 'alternate', {tolerance} is allowed")

    for a, b in zip(found[0], expected[0]):
        one, other = (float(run[1].partition(":")[2]) for run in (a, b))
        add("losses", f"the loss of {a[0]}", abs(one - other) / abs(other))
    tensors, others = (harness.saved_tensors(saved / "model.safetensors") for saved in (found[1], expected[1]))
    for name, (kind, _, data) in others.items():
        if tensors[name][2] == data:
            continue
        one, other = (array.array({"F32": "f", "F64": "d"}[kind], raw) for raw in (tensors[name][2], data))
        add("weights", name, math.dist(one, other) / (math.dist(other, [0.0] * len(other)) or 1.0))
    return " and ".join(f"{kind} differ by {value:.1e}" for kind, value in worst.items() if value)


def few_combinations(seed):
    """Returns a few combinations: every set of flags, every kind of order and every target."""
    chance = random.Random(seed)
    mixed = random_order(chance, 8, ascending=False)
    small, other = (random_order(chance, 4, ascending=False) for _ in range(2))
    every, two, _ = (Order(name, 4) for name in NAMED)
    uneven = Order("F0 F1 B0 F2 F3 B1 B2 B3", 4)
    gpt2, llama = MODELS
    orders = [two, mixed, every, uneven, two, small, two, every, other, uneven, two]
    rows = [(MODELS[number % 2], "cpu", *pair) for number, pair in enumerate(zip(FLAGS, orders))]
    rows += [
        (gpt2, "cuda-emu", "--offload=activations", two),
        (llama, "cuda-emu", "--precision=bf16", uneven),
        (gpt2, "interpreter", "--offload=activations,optimizer", small),
        (llama, "interpreter", "--recompute=blocks", two),
        (llama, "trace", "--offload=activations", small),
        (gpt2, "trace", "--lossy=rmm:0.5 --rebuild=off", every),
    ]
    return [
        Combination(*row, steps=5 if row[1] == "cpu" else 2, seed=number)
        for number, row in enumerate(rows)
    ]


def all_combinations(seed):
    chance = random.Random(seed)
    listed = [Order(text, 4) for text in ascending_orders(4)]
    assert len(listed) == 14 and len({str(order.segments) for order in listed}) == 14
    mixed = [random_order(chance, 8, ascending=number == 3) for number in range(4)]
    named = [Order(name, 4) for name in NAMED]
    small = random_order(chance, 4, ascending=False)
    every = [*named[:2], mixed[0], small, mixed[3], *listed, *mixed[1:3], named[2]]
    # 46 random orders more, each of which has one set of flags for each target.
    more = [random_order(chance, 8, ascending=number % 2 == 0) for number in range(46)]
    kinds = list(itertools.product(FLAGS, MODELS))
    combinations = []
    for first, target in enumerate(["cpu", "trace", "interpreter", "cuda-emu"]):
        rows = list(itertools.product(every, kinds))
        rows += [(order, kinds[(number + 5 * first) % len(kinds)]) for number, order in enumerate(more)]
        # The first combinations of a target are a sample of all of them.
        chance.shuffle(rows)
        for number, (order, (flags, model)) in enumerate(rows):
            # GPU kernels have no elementary functions of f64.
            if (target, flags) != ("cuda-emu", "--precision=fp64"):
                combinations.append(Combination(model, target, flags, order, seed=number))
    return combinations


def main():
    options, arguments = harness.leading_options(
        sys.argv[1:], orders="few", targets="cpu,cuda-emu,interpreter,trace", matching="", seed=1, results=""
    )
    kilnc, interpreter, models, work = arguments
    place = Workplace(kilnc, interpreter, models, harness.fresh_directory(work))
    combinations = {"few": few_combinations, "all": all_combinations}[options["orders"]](options["seed"])
    combinations = [
        one
        for one in combinations
        if one.target in options["targets"].split(",") and options["matching"] in str(one)
    ]
    print(f"{len(combinations)} combinations with --seed={options['seed']}", flush=True)
    results = pathlib.Path(options["results"] or "/dev/null")
    place.passed = set(results.read_text().split()) if results.exists() else set()
    failed = 0
    for one in combinations:
        start = time.monotonic()
        try:
            (digest, note), ok = place.check(one), True
            if digest not in place.passed:
                with results.open("a") as file:
                    file.write(digest + "\n")
        except Failure as failure:
            note, ok = "\n  ".join([str(failure), *place.commands]), False
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {one} ({time.monotonic() - start:.1f} s) {note}".rstrip(), flush=True)
    shutil.rmtree(place.work)
    if failed or not combinations:
        harness.fail(f"{failed} of {len(combinations)} combinations fail")
    print(f"{len(combinations)} combinations agree")


main()
