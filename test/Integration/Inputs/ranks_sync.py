# ===- ranks_sync.py - Ranks that average their states ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_sync.py [--mesh=dp=2] [--every=2] [--intervals=4] [--tolerance=1e-12] MPIRUN KILNC MODEL
WORK [compile flags]:
trains on ranks that average their states every `every` steps, in f64, and compares losses, norms
and saved states with a direct simulation. It trains one rank alone on the targets of each
data-parallel rank, for one interval from the averaged weights, and averages the results here.
They must agree to `tolerance`. Optimizers with states are simulated for the first interval only, since
a run that begins with given weights has no given optimizer states."""

import struct
import sys

import harness
import ranks

BATCH, LENGTH = 2, 16


def numbers(data):
    return struct.unpack(f"<{len(data) // 8}d", data)


def average(files, out):
    """Writes the average of the tensors of files, which have the same header, to `out`."""
    raw = [file.read_bytes() for file in files]
    begin = 8 + struct.unpack("<Q", raw[0][:8])[0]
    columns = zip(*(numbers(one[begin:]) for one in raw))
    values = [sum(column) / len(raw) for column in columns]
    out.write_bytes(raw[0][:begin] + struct.pack(f"<{len(values)}d", *values))
    return out


def require_close(what, found, expected):
    if len(found) != len(expected) or not expected:
        harness.fail(f"{what}: {len(found)} and {len(expected)} numbers")
    worst = max(abs(a - b) / max(1, abs(b)) for a, b in zip(found, expected))
    allowed = options["tolerance"]
    if not worst <= allowed:
        harness.fail(f"{what} differs from the simulation by {worst}, expected at most {allowed}")
    return worst


def require_close_tensors(what, file, other):
    a, b = harness.saved_tensors(file), harness.saved_tensors(other)
    if a.keys() != b.keys():
        harness.fail(f"{what}: {sorted(a.keys() ^ b.keys())} are in one file only")
    return max(require_close(f"{what}: '{name}'", numbers(a[name][2]), numbers(b[name][2])) for name in a)


def main(options, mpirun, kilnc, model, work, *flags):
    sizes, every, intervals = ranks.sizes_of(options["mesh"]), options["every"], options["intervals"]
    parts, count = sizes["dp"], sizes["dp"] * sizes["tp"]
    work = harness.fresh_directory(work)
    harness.write_inputs(model, work)
    common = ["--max-threads=1", "--precision=fp64", f"--seq={LENGTH}", *flags]
    several = harness.compile_model(
        kilnc, model, work / "several", *common, f"--mesh={options['mesh']}", f"--batch={BATCH}", f"--sync-every={every}"
    )
    # With a mask, the batch of all ranks has the targets of one of them only.
    alone = [
        f"--microbatches={int(flag.split('=')[1]) * parts}" if flag.startswith("--microbatches=") else flag
        for flag in common
    ]
    one = harness.compile_model(kilnc, model, work / "one", *alone, f"--batch={BATCH * parts}")

    steps = every * intervals
    rates = ["--lr=0.05", "--lr-schedule=constant", "--seed=5"]
    log, saved = work / "several.jsonl", work / "several.saved"
    arguments = [f"--data={work / 'train.bin'}", f"--steps={steps}", *rates, f"--save-every={every}", "--keep=99"]
    start = f"--init={work / 'model.safetensors'}"
    ranks.run(mpirun, count, several, *arguments, start, f"--log={log}", f"--save={saved}")

    raw = (work / "train.bin").read_bytes()
    tokens = struct.unpack(f"<{(len(raw) - 1024) // 2}H", raw[1024:])
    weights = work / "model.safetensors"
    worst = 0.0
    for interval in range(intervals):
        first = interval * every * parts * BATCH * LENGTH
        slice_of = tokens[first : first + every * parts * BATCH * LENGTH + 1]
        data = work / "interval.bin"
        harness.make_weights.write_tokens(data, slice_of)
        logs, checkpoints = [], []
        for rank in range(parts):
            # The target at position t is token t + 1. It belongs to sequence t // LENGTH.
            owners = [target // LENGTH % (parts * BATCH) // BATCH for target in range(len(slice_of) - 1)]
            mask = work / "interval.mask"
            mask.write_bytes(bytes([0] + [int(owner == rank) for owner in owners]))
            logs.append(work / f"interval{interval}-{rank}.jsonl")
            folder = work / f"interval{interval}-{rank}.saved"
            harness.run(
                [
                    one,
                    f"--data={data}",
                    f"--loss-mask={mask}",
                    f"--init={weights}",
                    f"--steps={every}",
                    *rates,
                    f"--log={logs[-1]}",
                    f"--save={folder}",
                ]
            )
            checkpoints.append(harness.newest_checkpoint(folder))
        compared = saved / f"checkpoint-{(interval + 1) * every}"
        names = [name for name in ("model.safetensors", "optimizer.safetensors") if (compared / name).exists()]
        for name in names:
            mean = average([checkpoint / name for checkpoint in checkpoints], work / f"mean{interval}.{name}")
            worst = max(worst, require_close_tensors(f"{name} of interval {interval}", compared / name, mean))
        weights = work / f"mean{interval}.model.safetensors"
        own = [harness.events(one_log, "step") for one_log in logs]
        averaged = harness.events(log, "step")[interval * every : (interval + 1) * every]
        for key in ("loss", "grad_norm"):
            if key in averaged[0]:
                expected = [sum(step[key] for step in column) / parts for column in zip(*own)]
                worst = max(worst, require_close(f"{key} of interval {interval}", [s[key] for s in averaged], expected))
        if len(names) > 1:
            break  # The optimizer has states.
    print(f"the simulation of {interval + 1} intervals agrees to {worst:.1e}")
    if (interval + 1 < intervals) == ("--optimizer=sgd" in flags):
        harness.fail(f"{interval + 1} of {intervals} intervals were compared")

    # Two runs are equal, and so is one that continues after half of the intervals.
    again = work / "again.saved"
    ranks.run(mpirun, count, several, *arguments, start, f"--log={work / 'again.jsonl'}", f"--save={again}")
    harness.require_equal_runs("two runs", log, saved, work / "again.jsonl", again)
    middle = again / f"checkpoint-{every * (intervals // 2)}"
    rest = work / "rest.saved"
    ranks.run(
        mpirun, count, several, *arguments, f"--log={work / 'rest.jsonl'}", f"--save={rest}", f"--resume={middle}"
    )
    for name in names:
        final = [harness.newest_checkpoint(folder) / name for folder in (saved, rest)]
        if final[0].read_bytes() != final[1].read_bytes():
            harness.fail(f"a resumed run ends with another {name}")

    # A run that ends within an interval averages there, and can be continued.
    part = work / "part.saved"
    ranks.run(
        mpirun, count, several, *arguments[:1], f"--steps={every + 1}", *rates, start, f"--save={part}",
        f"--log={work / 'part.jsonl'}",
    )
    averages = [event["step"] for event in harness.events(work / "part.jsonl", "average")]
    if averages != [every, every + 1]:
        harness.fail(f"states are averaged after the steps {averages}")
    continued = work / "continued.jsonl"
    ranks.run(
        mpirun, count, several, *arguments[:1], f"--steps={2 * every}", *rates, f"--resume={part}",
        f"--save={work / 'continued.saved'}", f"--log={continued}",
    )
    averages = [event["step"] for event in harness.events(continued, "average")]
    if averages != [2 * every]:
        harness.fail(f"a continued run averages states after the steps {averages}")


options, arguments = harness.leading_options(sys.argv[1:], mesh="dp=2", every=2, intervals=4, tolerance=1e-12)
main(options, *arguments)
