# ===- ranks_match.py - Several ranks compute what one rank computes ---------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_match.py [--mesh=dp=2] [--batch=2] [--mask=0] [--scale=0] [--tolerance=0] [--norms=0]
MPIRUN KILNC MODEL WORK [compile flags]: compiles a model for the ranks of `mesh`, with a batch
of `batch` on each rank of dp, and for one rank with the batch of all of them. Losses, validation
losses and gradient norms of 20 steps must agree, to 1e-9 with --precision=fp64, to `tolerance`
if it is given, and to 1e-6 otherwise; norms to `norms` if it is given. With fp64, the gradients
of the first step (if all ranks have them), and the saved weights and moments, must agree to
1e-9. With --mask=1, a mask excludes targets, so that ranks have different numbers of them.
`scale` is the initial loss scale, which must be so large that steps are skipped. Two runs of the
same ranks must be equal to the last bit. The executable compares the states of its ranks at
every checkpoint. The bytes that it sends must be those of the algorithm. One rank must continue
a checkpoint of several."""

import math
import random
import struct
import sys

import harness
import ranks

STEPS = 20


def close(a, b, tolerance):
    return math.isfinite(a) and abs(a - b) <= tolerance * max(1, abs(b))


def compare_records(logs, tolerance, norms):
    for kind, names in (("step", ("loss", "grad_norm")), ("eval", ("loss",))):
        several, one = (harness.events(log, kind) for log in logs)
        if len(several) != len(one) or not one:
            harness.fail(f"{len(several)} and {len(one)} events '{kind}'")
        for a, b in zip(several, one):
            for name in names:
                # The norm of a skipped step is null, because it is not finite.
                if a.get(name) is None and b.get(name) is None:
                    continue
                allowed = norms if name == "grad_norm" else tolerance
                if None in (a.get(name), b.get(name)) or not close(a[name], b[name], allowed):
                    harness.fail(
                        f"{name} of {kind} {b['step']} is {a.get(name)} on several ranks, "
                        f"{b.get(name)} on one, expected at most {allowed} between them"
                    )
    skipped = [[step["step"] for step in harness.events(log, "step") if "skipped" in step] for log in logs]
    if skipped[0] != skipped[1]:
        harness.fail(f"several ranks skip the steps {skipped[0]}, one skips {skipped[1]}")
    print(f"skipped steps: {skipped[0]}")
    if harness.events(logs[0], "eval")[-1]["targets"] != harness.events(logs[1], "eval")[-1]["targets"]:
        harness.fail("the validations have different numbers of targets")


def compare_tensors(pairs_of_files, tolerance):
    compared = 0
    for file, other_file in pairs_of_files:
        other = harness.saved_tensors(other_file)
        for name, (kind, _, data) in harness.saved_tensors(file).items():
            if kind != "F64":
                continue
            count = len(data) // 8
            pairs = zip(struct.unpack(f"<{count}d", data), struct.unpack(f"<{count}d", other[name][2]))
            worst = max(abs(a - b) for a, b in pairs)
            compared += count
            if not worst <= tolerance:
                harness.fail(f"{file}: '{name}' differs by {worst}, expected at most {tolerance}")
    if compared == 0:
        harness.fail("no f64 tensor was compared")
    print(f"{compared} numbers of states and gradients agree to {tolerance}")


def check_bytes(log, sizes):
    """Checks the bytes that the first rank has sent in a step: of an array of b bytes on n ranks,
    2 b (n - 1) / n if all ranks sum it, and b (n - 1) / n if it is summed into shards or gathered
    from shards, if n divides the number of its elements. An array is the data of one command, and
    each of its n parts may be one element longer than b / n. Parts are shards otherwise, of which
    the last may be shorter by a few rows. All axes with several ranks have the same number of
    them."""
    count = max(sizes.values())
    start, end = harness.events(log, "start")[0], harness.events(log, "end")[0]
    divided = start["reduce_scattered_bytes_per_step"] + start["all_gathered_bytes_per_step"]
    planned = 2 * start["all_reduced_bytes_per_step"] + divided
    expected = planned * (count - 1) / count
    # At most 16 commands, or 64 with tensor parallelism, whose parts differ by at most 8 bytes
    # from the mean, and two of them are not sent twice.
    slack = (16 if sizes["tp"] == 1 else 64) * 2 * 8 + 0.04 * divided
    if planned <= 0 or abs(end["sent_bytes_per_step"] - expected) > slack:
        harness.fail(
            f"{end['sent_bytes_per_step']} bytes sent per step, expected {expected} "
            f"for {planned} bytes on {count} ranks"
        )
    if start["ranks"] != sizes["dp"] * sizes["tp"] or end["arena_bytes"] != start["device_arena_bytes"]:
        harness.fail(f"unexpected ranks or arena: {start}, {end}")


def main(options, mpirun, kilnc, model, work, *flags):
    sizes, batch = ranks.sizes_of(options["mesh"]), options["batch"]
    count = sizes["dp"] * sizes["tp"]
    work = harness.fresh_directory(work)
    harness.write_inputs(model, work)
    common = ["--max-threads=1", *flags]
    has_gradients = "--precision=fp64" in flags and sizes["tp"] == 1
    if has_gradients:
        common.append("--emit-gradients")
    several = harness.compile_model(
        kilnc, model, work / "several", *common, f"--batch={batch}", f"--mesh={options['mesh']}"
    )
    # One rank needs more memory, but computes the same with any budget.
    dropped = ["--zero=", "--zero-by=", "--parameter-server", "--sequence-parallel"]
    if sizes["tp"] > 1:
        dropped.append("--memory-budget=")
    common = [flag for flag in common if not flag.startswith(tuple(dropped))]
    # Micro-batches of one rank have the same number of sequences.
    alone = [
        f"--microbatches={int(flag.split('=')[1]) * sizes['dp']}" if flag.startswith("--microbatches=") else flag
        for flag in common
    ]
    one = harness.compile_model(kilnc, model, work / "one", *alone, f"--batch={batch * sizes['dp']}")
    arguments = [
        f"--data={work / 'train.bin'}",
        f"--val-data={work / 'validation.bin'}",
        "--val-every=10",
        f"--steps={STEPS}",
        "--lr=0.001",
        "--seed=5",
        "--shuffle=3",
        "--save-every=7",
    ]
    is_double = "--precision=fp64" in flags
    if options["mask"]:
        chance = random.Random(1)
        for name, flag in (("train", "--loss-mask"), ("validation", "--val-loss-mask")):
            # A header of 1024 bytes, and two bytes per token.
            tokens = ((work / f"{name}.bin").stat().st_size - 1024) // 2
            # Pieces of about a sequence, so that some have all targets and some have none.
            mask = b"".join(bytes([chance.randrange(2)]) * 13 for _ in range(tokens // 13 + 1))
            (work / f"{name}.mask").write_bytes(mask[:tokens])
            arguments.append(f"{flag}={work / name}.mask")

    if options["scale"]:
        arguments.append(f"--loss-scale={options['scale']}")

    def outputs(name):
        files = [f"--log={work / name}.jsonl", f"--save={work / name}.saved"]
        return [*files, f"--dump-gradients={work / name}.gradients"] if has_gradients else files

    harness.run([one, *arguments, *outputs("one")])
    for name in ("first", "again"):
        ranks.run(mpirun, count, several, *arguments, *outputs(name))
    logs = {name: work / f"{name}.jsonl" for name in ("one", "first", "again")}
    saved = {name: work / f"{name}.saved" for name in logs}
    harness.require_equal_runs(
        "two runs", logs["first"], saved["first"], logs["again"], saved["again"]
    )
    tolerance = options["tolerance"] or (1e-9 if is_double else 1e-6)
    compare_records([logs["first"], logs["one"]], tolerance, options["norms"] or tolerance)
    if options["scale"] and not any("skipped" in step for step in harness.events(logs["first"], "step")):
        harness.fail("no step was skipped")
    if is_double:
        several_saved, one_saved = (harness.newest_checkpoint(saved[name]) for name in ("first", "one"))
        files = [
            (several_saved / name, one_saved / name)
            for name in ("model.safetensors", "optimizer.safetensors")
            if (one_saved / name).exists()  # An SGD optimizer has no states.
        ]
        if has_gradients:
            files.append((work / "first.gradients", work / "one.gradients"))
        compare_tensors(files, tolerance)
    # Owners of tensors send other numbers of bytes than the ranks after them.
    has_owners = "--zero-by=owner" in flags or "--parameter-server" in flags
    if len({size for size in sizes.values() if size > 1}) == 1 and not has_owners:
        check_bytes(logs["first"], sizes)
    # One rank continues what several ranks began.
    rest = work / "rest.jsonl"
    harness.run(
        [
            one,
            *arguments,
            f"--log={rest}",
            f"--save={work / 'rest.saved'}",
            f"--resume={work / 'first.saved' / 'checkpoint-14'}",
        ]
    )
    expected = [step["loss"] for step in harness.events(logs["one"], "step")][14:]
    found = [step["loss"] for step in harness.events(rest, "step")]
    if len(found) != len(expected) or not all(close(a, b, tolerance) for a, b in zip(found, expected)):
        harness.fail(f"resumed on one rank, the losses are {found}, expected {expected}")


options, arguments = harness.leading_options(sys.argv[1:], mesh="dp=2", batch=2, mask=0, scale=0, tolerance=0.0, norms=0.0)
main(options, *arguments)
