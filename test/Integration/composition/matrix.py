# ===- matrix.py - Training with combined techniques -------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""matrix.py --kilnc=FILE --model=DIR --work=DIR [--programs=covering|pairs|triples]
            [--page=FILE [--write]] [--target=cuda-emu [--seeds=N]]
matrix.py --programs=ranks [--first-only] --mpirun=COMMAND ...
matrix.py --program="TECHNIQUE + TECHNIQUE + ..." [--program=...] ...

Compiles a model with combinations of techniques and compares the training results:

- A program with exact techniques has the same bits as without them: every loss, norm and
  saved tensor.
- This also holds if its copies run at random times (--stress-copies).
- It uses memory as planned (--check-memory).
- A program with micro-batches equals the program without them within rounding.
- A program without exact techniques equals the interpreter's results, and updates decrease its loss.

No combination may be rejected. `covering` tests every pair with few programs of many
techniques each; `pairs` and `triples` have one program for each. --program tests one program
with the techniques that it names, one of which is an optimizer.

`ranks` tests every pair of a technique and a mesh of ranks. A program of several ranks is
compared with the same ranks without exact techniques; those are compared with one rank within
rounding, unless they train alone for some steps, and with the interpreter of as many ranks. The
compiler must refuse the pairs that the table says it refuses. --first-only tests one program of
each mesh.

--page compares the table of a page with the results of this run; --write updates the table.

With --target=cuda-emu, every program is also compiled for the emulated GPU, in fp32 or bf16
and for short sequences. It must have the bits of the cpu program without exact techniques,
for each of N seeds of the GPU. The cpu programs are checked by a separate run."""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Inputs"))

import covering
import harness
import page
import ranks
import techniques
from techniques import COMPRESSED, LOSSY, MESHES, ON_HOST, PLANNED, Program

STEPS, INTERPRETED_STEPS, EMULATED_STEPS = 6, 4, 2
# Number of tokens per sequence.
LENGTH, EMULATED_LENGTH = 40, 13
# Parameters of the covering programs; this seed gives few meanings.
SEED, MORE = 35, 6
# Maximum effect of rounding on a loss in this number of steps.
ROUNDING = {"bf16": 4e-3, "fp32": 2e-6, "fp64": 1e-12}


def allowed_error(meaning):
    """Returns the maximum effect of rounding on a loss."""
    # Rounding may change a code near a boundary.
    has_codes = {"few-bit", "codes"} & meaning.techniques and meaning.rounding == "fp32"
    return ROUNDING[meaning.rounding] * (10 if has_codes else 1)


class Matrix:
    def __init__(self, kilnc, model, work, target, mpirun):
        self.target, self.mpirun = target, mpirun
        self.steps = STEPS if target == "cpu" else EMULATED_STEPS
        self.kilnc, self.model = pathlib.Path(kilnc), pathlib.Path(model)
        self.tools = self.kilnc.parent
        self.work = harness.fresh_directory(work)
        harness.write_inputs(model, self.work)
        self.references = {}  # By meaning: executable, log, saved.
        self.plans = {}
        self.made = self.seed = self.tight = 0

    def launch(self, program, command, **options):
        """Runs a command, on all ranks of the program."""
        if program.ranks:
            command = ranks.command(self.mpirun, program.sizes[1], *command)
            options["env"] = ranks.environment()
        harness.run(command, **options)

    def flags(self, program, target):
        length = LENGTH if self.target == "cpu" else EMULATED_LENGTH
        # The vendor library would round less often than the cpu.
        encodes = not self.model.name.endswith("-narrow")
        return [f"--target={target}", "--library-epilogues=off", *program.compiler_flags(length, encodes)]

    def plan(self, program):
        """Returns the plan of a program without a budget."""
        if program not in self.plans:
            path = self.work / "plan.json"
            flags = [*self.flags(program, self.target), "--emit=plan", "-o", path]
            harness.run([self.kilnc, self.model, *flags])
            self.plans[program] = json.loads(path.read_text())
        return self.plans[program]

    def encodes(self, program, technique):
        """Returns true if a lossy technique can encode values in this model."""
        if technique not in program.techniques:
            return False
        start = {"few-bit": "fewbit", "rmm": "rmm", "codes": "q"}[technique]
        found = self.plan(program.meaning).get("compressed", [])
        return any(entry["as"].startswith(start) for entry in found)

    def budget_for(self, program, command):
        """Returns a budget below the memory without one: a fraction of the memory above the
        states, or the minimum feasible budget. A lossy plan is selected if the exact plan is
        slower; codes and micro-batches leave little memory to save."""
        without = self.plan(program.without(*PLANNED))
        states, peak = without["state_bytes"], without["predicted_peak_bytes"]
        percent = 80 if program.techniques & set(LOSSY) else 60
        has = program.techniques.__contains__
        if has("codes") or (has("micro-batches") and has("budget")):
            percent = 95
        budget = states + (peak - states) * percent // 100
        harness.show([*command, f"--memory-budget={budget}"])
        done = subprocess.run(
            [*map(str, command), f"--memory-budget={budget}"], capture_output=True, text=True
        )
        if done.returncode == 4:
            found = re.search(r"smallest feasible .* \((\d+) bytes\), set by", done.stderr)
            if not found:
                harness.fail(f"no smallest budget in: {done.stderr}")
            budget = int(found.group(1))
            harness.run([*command, f"--memory-budget={budget}"])
        elif done.returncode:
            harness.fail(f"exit code {done.returncode}: {done.stderr}")
        # With activations on the host, and all gradients or the buffers of one sequence at the
        # peak, nothing that the planner may choose is live there. With several ranks, the same
        # holds for quantized residuals, for micro-batches of one sequence per rank, and if the new
        # values of parameters on the host are gathered: those of a small model are one bucket. With
        # clipping, compressed gradients and their errors are live at once.
        settled = "activations" in program.techniques and program.techniques & {"micro-batches", "clipping"}
        settled = settled or program.ranks and program.techniques & {"micro-batches", "codes"}
        settled = settled or program.ranks in ("zero 1", "zero 2", "owner") and program.techniques & {"parameters", "mixed states"}
        settled = settled or program.ranks in COMPRESSED and "clipping" in program.techniques
        if not budget < peak and not settled:
            harness.fail(f"no budget below {peak} bytes is feasible")
        self.tight += budget < peak
        return budget

    def train(self, executable, program, name, *flags):
        log, saved = executable.parent / f"{name}.jsonl", executable.parent / f"{name}.saved"
        command = [executable, f"--data={self.work / 'train.bin'}", f"--threads={2 // min(program.sizes[1], 2)}", *flags]
        self.launch(program, [*command, *program.run_flags(self.steps), f"--log={log}", f"--save={saved}"])
        return log, saved

    def make(self, program, name, target):
        """Compiles the program, checks its memory plan, and trains."""
        directory = harness.fresh_directory(self.work / name)
        executable = directory / "train"
        command = [self.kilnc, self.model, *self.flags(program, target), "-o", executable]
        budget = None
        if program.techniques & set(PLANNED):
            budget = self.budget_for(program, command)
        else:
            harness.run(command)
        self.made += 1
        self.launch(program, [executable, "--check-memory"])
        log, saved = self.train(executable, program, "plain")
        end = harness.events(log, "end")[0]
        if budget is not None and end["arena_bytes"] > budget:
            harness.fail(f"an arena of {end['arena_bytes']} bytes, {budget} are allowed")
        # If the program keeps no activations, it offloads none. With a budget, the planner may
        # recompute activations instead of offloading them.
        hosted = program.techniques & set(ON_HOST)
        is_free = program.policy == "poor" or program.ranks and program.techniques & set(PLANNED)
        if hosted and not (hosted == {"activations"} and is_free):
            if not end["copied_out_bytes_per_step"] or not end["copied_in_bytes_per_step"]:
                harness.fail("nothing is copied")
        return executable, log, saved

    def reference(self, meaning):
        """Returns the run of a program without exact techniques, checked at its first use."""
        if meaning not in self.references:
            name = f"meaning{len(self.references)}"
            self.references[meaning] = self.make(meaning, name, "cpu")
            if self.target == "cpu":
                self.check_meaning(meaning)
        return self.references[meaning]

    def check_meaning(self, meaning):
        executable, log, _ = self.references[meaning]
        losses = [step["loss"] for step in harness.events(log, "step")]
        if len(losses) != STEPS or not all(map(math.isfinite, losses)):
            harness.fail(f"losses {losses}")
        if "lora" not in meaning.techniques and not sum(losses[-2:]) < sum(losses[:2]):
            harness.fail(f"the loss does not fall: {losses}")
        # Batches differ, and adapters learn slowly, so also compare with the losses of the same batches without updates.
        still = executable.parent / "still.jsonl"
        command = [executable, f"--data={self.work / 'train.bin'}"]
        self.launch(meaning, [*command, *meaning.run_flags(self.steps, rate=0), f"--log={still}"])
        unchanged = [step["loss"] for step in harness.events(still, "step")]
        if not sum(losses[1:]) < sum(unchanged[1:]):
            harness.fail(f"the loss does not fall: {losses}, without updates {unchanged}")
        self.compare_interpreted(meaning, executable.parent, log)
        if meaning.ranks:
            if meaning.ranks not in techniques.APPROXIMATE and not self.depends_on_division(meaning):
                self.compare_losses(allowed_error(meaning), self.reference(meaning.without(*MESHES))[1], log)
            return
        if "micro-batches" in meaning.techniques:
            whole = meaning.without("micro-batches")
            self.compare_losses(allowed_error(meaning), self.reference(whole)[1], log)
            if meaning.precision == "fp64":
                harness.run(
                    [self.tools / "kiln-diff", self.reference(whole)[0], executable]
                    + [f"--data={self.work / 'train.bin'}", "--tolerance=rounding", "--threads=2"]
                    + meaning.run_flags(3)
                )

    @staticmethod
    def depends_on_division(meaning):
        """Returns true if the results depend on the division of layers: codes share a scale with
        those of the same rank, and divided weights are not quantized."""
        has = meaning.techniques.issuperset
        encodes = has({"codes"}) or has({"narrow states", "momentum"}) or has({"narrow states", "adam"})
        encodes = encodes or has({"lora", "16 bit"})
        return encodes and meaning.sizes[1] > meaning.sizes[0]

    def compare_interpreted(self, meaning, directory, log):
        path, other = directory / "planned.mlir", directory / "interpreted.jsonl"
        flags = [*self.flags(meaning, "cpu"), "--emit=planned", "-o", path]
        harness.run([self.kilnc, self.model, *flags])
        # f64 evaluation would not round to bf16.
        evaluation = "f32" if meaning.rounding == "bf16" else "f64"
        self.launch(
            meaning,
            [self.tools / "kiln-run", path, f"--data={self.work / 'train.bin'}"]
            + [f"--eval-type={evaluation}", f"--log={other}"]
            + meaning.run_flags(INTERPRETED_STEPS)
        )
        self.compare_losses(allowed_error(meaning), other, log)

    def compare_losses(self, allowed, one, other):
        pairs = zip(*([s["loss"] for s in harness.events(log, "step")] for log in (one, other)))
        worst = max(abs(a - b) / abs(a) for a, b in pairs)
        print(f"losses differ by at most {worst:.2e}, {allowed} is allowed")
        if not worst <= allowed:
            harness.fail(f"losses of {one} and {other} differ by {worst:.2e}")

    def chosen(self, program, executable):
        """Returns the program without the lossy techniques that the planner did not use,
        which it may do with a budget and reports."""
        has = program.techniques.intersection
        if has(LOSSY) and has(PLANNED):
            described = harness.run([executable, "--describe"]).stdout
            if "\nlossy: none\n" in described:
                print("the planner chose an exact plan")
                return program.without(*LOSSY)
        return program

    def check(self, program, seeds):
        """Checks all properties of one program, with `seeds` stressed runs if it copies or
        is emulated. Returns the techniques that were used."""
        if program == program.meaning and self.target == "cpu":
            self.reference(program)
            return program.techniques
        executable, *run = self.make(program, "plan", self.target)
        program = self.chosen(program, executable)
        _, *reference = self.reference(program.meaning)
        harness.require_equal_runs("with and without exact techniques", *reference, *run)
        if self.target != "cpu":
            # The run above used seed 0.
            for seed in range(1, seeds):
                flag = f"--emu-seed={seed}"
                shuffled = self.train(executable, program, f"shuffled{seed}", flag)
                harness.require_equal_runs(flag, *run, *shuffled)
            return program.techniques
        for _ in range(seeds if program.copies else 0):
            self.seed = self.seed % 3 + 1
            flag = f"--stress-copies={self.seed}"
            stressed = self.train(executable, program, f"stressed{self.seed}", flag)
            harness.require_equal_runs(flag, *run, *stressed)
        return program.techniques


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kilnc", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--programs", choices=("covering", "pairs", "triples", "ranks"), default="covering")
    parser.add_argument("--program", action="append", help="its techniques, separated by +")
    parser.add_argument("--mpirun", help="starts ranks")
    parser.add_argument("--first-only", action="store_true", help="one program of each mesh")
    parser.add_argument("--first", type=int, default=0, help="program to start with")
    parser.add_argument("--target", choices=("cpu", "cuda-emu"), default="cpu")
    parser.add_argument("--seeds", type=int, default=3, help="of cuda-emu")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="the table, into the page")
    return parser.parse_args()


def main():
    args = parse()
    if args.program:
        programs = [Program(frozenset(map(str.strip, names.split("+")))) for names in args.program]
    elif args.programs == "covering":
        programs = covering.covering_programs(SEED, MORE)
    elif args.programs == "ranks":
        programs = covering.rank_programs(SEED, args.first_only)
    else:
        programs = list(covering.every({"pairs": 2, "triples": 3}[args.programs]))
    seeds = 3 if args.programs == "pairs" else 1
    if args.target != "cpu":
        seeds = args.seeds
        programs = [dataclasses.replace(each, full_precision="fp32") for each in programs]
        if args.programs == "covering" and not args.program:
            # With short sequences, other programs with both techniques have an exact plan.
            programs.append(Program(frozenset({"budget", "few-bit", "adamw"})))
            programs.append(Program(frozenset({"budget", "rmm", "adamw"})))
    matrix = Matrix(args.kilnc, args.model, args.work, args.target, args.mpirun)
    passed, failed = [], []
    for number, program in enumerate(programs[args.first :], args.first):
        print(f"[{number + 1}/{len(programs)}] {program}", flush=True)
        try:
            used = matrix.check(program, seeds)
            passed.append((program.techniques, used))
        except SystemExit:
            failed.append(str(program))
    print(f"{len(passed)} programs passed; {matrix.made} executables")
    if not matrix.tight and any(each.techniques & set(PLANNED) for each in programs):
        harness.fail("no budget is below the memory without one")
    if failed:
        harness.fail(f"{len(failed)} of {len(programs)}: " + "; ".join(failed))
    if args.first or args.program:
        return
    if args.page or args.target != "cpu":
        # A technique may encode nothing in the first programs, but something in others.
        asked = covering.rank_programs(SEED, False) if args.first_only else programs
        idle = {name for name in LOSSY if not any(matrix.encodes(p, name) for p in asked)}
        passed = [used | (named & idle) for named, used in passed]
        table = page.Table(args.model.name, passed, idle, args.programs == "ranks")
        complaint = table.untried() if args.programs != "triples" and not args.first_only else None
        if args.page:
            complaint = complaint or (table.write if args.write else table.compare)(args.page)
        if complaint:
            harness.fail(complaint)


if __name__ == "__main__":
    main()
