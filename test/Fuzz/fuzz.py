#!/usr/bin/env python3
# ===- fuzz.py - Fuzzer of IR and model files --------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""fuzz.py --bin=DIR --work=DIR [--count=N] [--seed=N] [--jobs=N] [--tests]

Mutates models and IR of every level (see mutate.py). Most mutated files do not verify, and
kiln-opt must accept or reject each of them without a crash; it reads many of them at once.
Of every few files, one that verifies, if there is any, is also passed to kiln-opt with a
pipeline, to kilnc and to kiln-run: `--count` files in total. A tool may reject a file with a
documented exit code, where kilnc and kiln-run print one line. It must not crash, abort,
report an internal error or use more than `--limit` seconds of processor time. Files that
cause a failure are kept in the work folder with the command.

Equal seeds give equal files. `--tests` adds the repository's .mlir tests to the seeds.
`--only=N` runs file N alone."""

import argparse
import bisect
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading

import corpus
import mutate

PIPELINES = ["--kiln-to-step-pipeline", "--kiln-to-planned-pipeline", "--kiln-to-dispatched-pipeline", "--kiln-to-scheduled-pipeline"]
STEP_OPTIONS = ["", "", "precision=bf16", "lossy=fewbit:2", "lossy=rmm:0.5", "microbatches=2", "optimizer=sgd clip=false", "optimizer=momentum keep-gradients=true", "rebuild=false"]
PLAN_OPTIONS = ["", "", "recompute=full", "recompute=sqrt", "offload=optimizer", "offload=activations,optimizer,parameters", "logits=16", "max-threads=64", "budget=65536 link=1GB/s offload=activations", "budget=1073741824"]
DISPATCH_OPTIONS = ["", "", "fuse=false", "epilogues=false"]
PASSES = [
    "--kiln-verify-schedule", "--kiln-group-launches", "--kiln-print-row-programs=check-text", "--kiln-plan-memory=budget=65536", "--kiln-schedule", "--kiln-form-dispatches", "--kiln-place-copies", "--kiln-set-numerics", "--kiln-expand-loss",
    "--kiln-autodiff", "--kiln-build-step", "--kiln-build-eval", "--kiln-widen-gradients", "--kiln-compress-residuals=lossy=fewbit:2",
    "--kiln-rebuild-activations", "--kiln-recompute=policy=full", "--kiln-offload-states=optimizer=0.5 moments=0.5", "--kiln-offload-activations",
    "--kiln-set-precision=precision=bf16", "--kiln-verify-level=level=forward", "--kiln-verify-level=level=dispatched", "--canonicalize", "--cse",
    "--emit-bytecode", "--mlir-print-op-generic",
]  # fmt: skip
KILNC_OPTIONS = [
    [], [], ["--precision=bf16"], ["--recompute=full"], ["--lossy=fewbit:2,rmm:0.5"], ["--offload=activations,optimizer"],
    ["--microbatches=2", "--optimizer=sgd"], ["--fuse=off", "--clip=off"], ["--emit-gradients", "--rebuild=off"], ["--target=cuda-emu"],
    ["--memory-budget=64KiB"], ["--memory-budget=1GiB", "--simulate-link=1GB/s"], ["--eval=off", "--dropout=0.5"], ["--target=cuda"],
]  # fmt: skip
# Schedules are cheap; machine code takes longer and is generated for some files only.
KILNC_STAGES = ["forward", "step", "planned", "dispatch", "schedule", "schedule", "plan", "llvm", "obj", "obj"]
MEMORY = 4 << 30
# Number of files that one process verifies, and the number of candidates per file that is
# passed to the other tools.
BLOCK, CANDIDATES = 100, 4


def opt_command(rng, stage):
    if rng.random() < 0.3:
        return ["kiln-opt", *rng.sample(PASSES, rng.randint(1, 2))]
    first = corpus.STAGES.index(stage) if stage in corpus.STAGES else rng.randrange(4)
    options = [rng.choice(STEP_OPTIONS), rng.choice(PLAN_OPTIONS), rng.choice(DISPATCH_OPTIONS), ""]
    command = ["kiln-opt"]
    for pipeline, text in list(zip(PIPELINES, options))[first : rng.randint(first, 4)]:
        command.append(pipeline + (f"={text}" if text else ""))
    return command


def commands_of(rng, stage, data):
    output = ["--max-threads=2", "-o", "{out}"]
    yield opt_command(rng, stage) + ["{file}"]
    yield ["kilnc", "{file}", f"--emit={rng.choice(KILNC_STAGES)}", *rng.choice(KILNC_OPTIONS), *output]
    if rng.random() < 0.8:
        yield ["kiln-run", "{file}", f"--data={data}", "--steps=1"]
    else:
        yield ["kiln-run", "{file}", f"--entry={rng.choice(['train', 'evaluate', 'forward', 'f', ''])}"]


CODES = {"kiln-opt": {0, 1}, "kilnc": {0, 1, 2, 3, 4}, "kiln-run": {0, 1, 2, 3, 5}}


def complaint(tool, code, stderr):
    """Returns an error if the exit status of a tool is not allowed, or None."""
    if code < 0:
        return "takes too long" if code in (-signal.SIGXCPU, -signal.SIGKILL) else f"signal {-code}"
    if code not in CODES[tool]:
        return f"exit code {code}"
    text = stderr.decode(errors="replace")
    if "internal error" in text:
        return "internal error"
    if tool == "kiln-opt" or code == 0:
        return None
    prefix = {"kilnc": "kilnc: ", "kiln-run": "error: "}[tool]
    lines = [line for line in text.splitlines() if line.startswith(prefix)]
    if len(lines) != 1 or (tool == "kilnc" and len(text.splitlines()) != 1):
        return f"{len(text.splitlines())} lines"
    return None


def run_limited(command, seconds):
    """Runs a command with a limit of processor time; returns its status and the time used."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limit)
        # A process that waits forever uses no processor time.
        timer = threading.Timer(60 * seconds, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return process.returncode, errors.read(), usage.ru_utime + usage.ru_stime


def where(stderr):
    """Returns the innermost function of kiln in a stack trace, or the last line."""
    text = stderr.decode(errors="replace")
    found = re.findall(r"#\d+ 0x[0-9a-f]+ (kiln::[^\n]*?|\(anonymous namespace\)::[^\n]*?) /", text)
    found += re.findall(r"#\d+ 0x[0-9a-f]+ ((?:kiln::|\(anonymous|static)[^\n(]*)", text)
    lines = text.strip().splitlines()
    return (found[0] if found else lines[-1] if lines else "")[:160]


class Fuzzer:
    def __init__(self, options):
        self.options = options
        self.bin = pathlib.Path(options.bin).resolve()
        self.work = pathlib.Path(options.work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.data = self.work / "data.txt"
        self.data.write_bytes(bytes(i * i % 17 for i in range(400)))
        tests = pathlib.Path(__file__).parent.parent if options.tests else None
        self.corpus = corpus.Corpus(self.bin, options.jobs, tests)
        self.verified = 0
        self.outcomes = collections.Counter()
        self.slowest = collections.defaultdict(lambda: (0.0, -1))
        self.failures = []

    def candidate(self, index, number):
        rng = random.Random(f"{self.options.seed} {index} {number}")
        # All three tools read models.
        seed = rng.choice(self.corpus.models if rng.random() < 0.25 else self.corpus.seeds)
        return seed, mutate.mutate(rng, seed.text, self.corpus)

    def verify(self, texts, name):
        """Returns the indexes of the texts that verify. A text that crashes the verifier is
        kept in the work folder."""
        path = self.work / f"{name}.mlir"
        starts, line = [], 1
        for text in texts:
            starts.append(line)
            line += text.count("\n") + 2
        path.write_text("\n// -----\n".join(texts), errors="surrogateescape")
        code, stderr, _ = run_limited([self.bin / "kiln-opt", "--split-input-file", path], 60)
        self.verified += len(texts)
        if code in CODES["kiln-opt"]:
            path.unlink()
            lines = re.findall(rf"^{path}:(\d+):\d+: error: ".encode(), stderr, re.M)
            wrong = {bisect.bisect(starts, int(line)) - 1 for line in lines}
            return [i for i in range(len(texts)) if i not in wrong]
        if len(texts) == 1:
            self.report(name, "kiln-opt", complaint("kiln-opt", code, stderr), where(stderr), ["kiln-opt", str(path)])
            return []
        path.unlink()
        return [i for i, text in enumerate(texts) if self.verify([text], f"{name}-{i}")]

    def choose(self, block):
        """Returns the file for each index of a block."""
        indices = range(block * BLOCK, (block + 1) * BLOCK)
        made = [self.candidate(index, number) for index in indices for number in range(CANDIDATES)]
        valid = set(self.verify([text for _, text in made], f"block{block}"))
        for i, index in enumerate(indices):
            numbers = range(i * CANDIDATES, (i + 1) * CANDIDATES)
            yield index, *made[next((number for number in numbers if number in valid), numbers[0])]

    def run_case(self, case):
        index, seed, text = case
        rng = random.Random(f"{self.options.seed} {index}")
        path = self.work / f"{index}.mlir"
        path.write_text(text, errors="surrogateescape")
        out = self.work / f"{index}.out"
        results = []
        for command in commands_of(rng, seed.stage, self.data):
            tool = command[0]
            filled = [str(path) if word == "{file}" else str(out) if word == "{out}" else word for word in command]
            code, stderr, seconds = run_limited([self.bin / tool, *filled[1:]], self.options.limit)
            results.append((tool, code, seconds, complaint(tool, code, stderr), where(stderr), filled))
        out.unlink(missing_ok=True)
        if not any(wrong for *_, wrong, _, _ in results) and self.options.only is None:
            path.unlink()
        return index, seed, results

    def note(self, index, seed, results):
        for tool, code, seconds, wrong, place, command in results:
            self.outcomes[tool, code] += 1
            self.slowest[tool] = max(self.slowest[tool], (seconds, index))
            if wrong:
                self.report(f"{index} of {seed.name}, {seed.stage}", tool, wrong, place, command)

    def report(self, name, tool, wrong, place, command):
        self.failures.append((tool, wrong, place))
        line = f"{name}: {tool}: {wrong}: {place}\n    {' '.join(command)}"
        print(line, flush=True)
        with open(self.work / "failures.txt", "a") as file:
            file.write(line + "\n")

    def run(self):
        only = self.options.only
        indices = range(self.options.first, self.options.first + self.options.count) if only is None else [only]
        done = 0
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for block in range(indices[0] // BLOCK, indices[-1] // BLOCK + 1):
                cases = [case for case in self.choose(block) if case[0] in indices]
                for result in pool.map(self.run_case, cases):
                    self.note(*result)
                done += len(cases)
                if done % 1000 == 0:
                    print(f"{done} files, {len(self.failures)} failures", flush=True)
        print(f"kiln-opt verified {self.verified} files, {done} went on")
        for (tool, code), count in sorted(self.outcomes.items(), key=str):
            print(f"{tool}: exit code {code}: {count}")
        for tool, (seconds, index) in sorted(self.slowest.items()):
            print(f"{tool}: slowest {seconds:.1f} s, file {index}")
        for kind, count in collections.Counter(self.failures).most_common():
            print(f"{count} times: {': '.join(kind)}")
        print(f"{len(self.failures)} failures")
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--only", type=int)
    parser.add_argument("--tests", action="store_true")
    return Fuzzer(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
