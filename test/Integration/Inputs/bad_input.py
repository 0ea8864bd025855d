# ===- bad_input.py - Inputs that cause a one-line error ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""bad_input.py EXECUTABLE MODEL WORK: runs an executable of the model (compiled with
--batch=2 --seq=24) with broken inputs and with output paths that cannot be written. Each run
must end with the expected exit code and exactly one line, and must leave no file."""

import os
import pathlib
import resource
import struct
import sys

import harness

USAGE, BAD_INPUT, ERROR = 2, 3, 1

executable, model, work = sys.argv[1:]
executable = pathlib.Path(executable).resolve()
work = harness.fresh_directory(work)
os.chdir(work)
harness.write_inputs(model, ".")
TOKENS = pathlib.Path("train.bin").read_bytes()
WEIGHTS = pathlib.Path("model.safetensors").read_bytes()


def write(name, content):
    pathlib.Path(name).write_bytes(content)
    return name


def refuse(code, message, *flags, **options):
    """Runs a valid command whose flags are replaced by `flags`, and expects an error."""
    given = {flag.split("=")[0] for flag in flags}
    usual = [f for f in ("--steps=2", "--data=train.bin") if f.split("=")[0] not in given]
    before = set(os.listdir("."))
    done = harness.run([executable, *usual, *flags], expect=code, **options)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    if lines != ["error: " + message]:
        harness.fail(f"said {lines}, expected 'error: {message}'")
    if set(os.listdir(".")) != before:
        harness.fail(f"left {set(os.listdir('.')) - before} behind")
    return done


def tokens_of(ids):
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}H", *ids)


# Tokens.
refuse(BAD_INPUT, "cannot open 'missing.bin': No such file or directory", "--data=missing.bin")
write("cut-header.bin", TOKENS[:100])
refuse(
    BAD_INPUT,
    "'cut-header.bin': the llm.c header is truncated at 100 of 1024 bytes",
    "--data=cut-header.bin",
)
write("cut.bin", TOKENS[:2000])
refuse(
    BAD_INPUT,
    "'cut.bin': the header has a token count of 1010, which requires a file of 3044 bytes, but the file has 2000",
    "--data=cut.bin",
)
write("large-id.bin", tokens_of([1] * 30 + [211] + [1] * 100))
refuse(
    BAD_INPUT,
    "'large-id.bin': token 30 has id 211, but the model's vocabulary has only 211 tokens: tokenize the text for this model",
    "--data=large-id.bin",
)
refuse(
    BAD_INPUT,
    "'model.safetensors' is not an llm.c token file, and its name ends neither in .bin (raw 16-bit tokens) nor in .txt (each byte is a token)",
    "--data=model.safetensors",
)
write("words.txt", b"text " * 100)
refuse(
    BAD_INPUT,
    "'words.txt' is read as one token per byte, which needs a vocabulary of at least 256 tokens, but the number of tokens in the model's vocabulary is 211",
    "--data=words.txt",
)

# Weights.
refuse(
    BAD_INPUT,
    "cannot open 'missing.safetensors': No such file or directory",
    "--init=missing.safetensors",
)
write("cut-length.safetensors", WEIGHTS[:5])
refuse(
    BAD_INPUT,
    "'cut-length.safetensors' is not a valid safetensors file: it has only 5 bytes, expected 8 for the header length",
    "--init=cut-length.safetensors",
)
(header,) = struct.unpack("<Q", WEIGHTS[:8])
write("cut-header.safetensors", WEIGHTS[:1000])
refuse(
    BAD_INPUT,
    f"'cut-header.safetensors' is not a valid safetensors file: header length {header} does not fit into the file, which has 1000 bytes",
    "--init=cut-header.safetensors",
)
data = len(WEIGHTS) - 8 - header
write("cut.safetensors", WEIGHTS[:-10])
refuse(
    BAD_INPUT,
    f"'cut.safetensors': tensor 'transformer.ln_f.bias': data ends at {data}, beyond the end of the file, which has {data - 10} bytes of data",
    "--init=cut.safetensors",
)
write("wrong-shape.safetensors", WEIGHTS.replace(b'"shape":[211,40]', b'"shape":[40,211]').replace(b'"shape": [211, 40]', b'"shape": [40, 211]'))
refuse(
    BAD_INPUT,
    "'wrong-shape.safetensors': tensor 'transformer.wte.weight' has shape [40, 211], the model expects [211, 40]",
    "--init=wrong-shape.safetensors",
)
write("other-name.safetensors", WEIGHTS.replace(b"ln_f.bias", b"ln_g.bias"))
refuse(
    BAD_INPUT,
    "'other-name.safetensors' has no tensor 'transformer.ln_f.bias' of shape [40], which the model needs",
    "--init=other-name.safetensors",
)
os.mkdir("empty")
refuse(
    BAD_INPUT,
    "'empty' has neither model.safetensors nor model.safetensors.index.json; convert its weights to safetensors",
    "--init=empty",
)
refuse(BAD_INPUT, "cannot list 'nowhere': No such file or directory", "--resume=nowhere")

# Flags.
refuse(USAGE, "--steps: '-1' is not a whole number of at least 0 (see --help)", "--steps=-1")
refuse(USAGE, "--steps: 'many' is not a whole number of at least 0 (see --help)", "--steps=many")
refuse(USAGE, "unknown flag '--step=2': did you mean --steps=N? (see --help)", "--step=2")
refuse(
    USAGE,
    "--threads=77 exceeds the maximum of 2 that this executable was compiled for; compile with a larger --max-threads",
    "--threads=77",
)
refuse(
    USAGE,
    "--dump-gradients: the executable keeps no gradients; compile it with --emit-gradients",
    "--dump-gradients=gradients.safetensors",
)
refuse(
    USAGE,
    "--init and --from-scratch contradict each other (see --help)",
    "--init=model.safetensors",
    "--from-scratch",
)

# Divergence.
refuse(
    5,
    "the loss of step 2 is not finite: training has diverged; no checkpoint was written; lower --lr, or add --warmup-steps",
    "--lr=1e30",
)

# Paths that cannot be written. Root may write anywhere except in /sys.
refuse(
    ERROR,
    "cannot open the log '/sys/kiln.jsonl': Permission denied; choose a writable path",
    "--log=/sys/kiln.jsonl",
)
if os.geteuid() == 0:
    refuse(
        ERROR,
        "cannot create the directory '/sys/kiln': Operation not permitted; choose another directory",
        "--save=/sys/kiln",
    )
else:
    os.mkdir("read-only", 0o555)
    refuse(
        ERROR,
        "cannot create the directory 'read-only/saved': Permission denied; choose another directory",
        "--save=read-only/saved",
    )

for flag in ("--trace", "--check-ops"):
    refuse(ERROR, "cannot create 'typo/file': No such file or directory; create its directory first", f"{flag}=typo/file")
for flag in ("--save", "--tensorboard"):
    refuse(
        ERROR,
        "cannot create the directory 'typo/folder': 'typo' does not exist; check the path, or create that directory first",
        f"{flag}=typo/folder",
    )

# Output files are unchanged if another flag is wrong.
write("kept.jsonl", b'{"step": 1}\n')
for log in ("kept.jsonl", "new.jsonl"):
    refuse(
        BAD_INPUT,
        "cannot open 'missing.safetensors': No such file or directory",
        "--init=missing.safetensors",
        f"--log={log}",
        "--save=new",
        "--tensorboard=new",
        "--trace=new.json",
    )
if pathlib.Path("kept.jsonl").read_bytes() != b'{"step": 1}\n':
    harness.fail("a refused run truncated its log")
refuse(
    USAGE,
    "--log and --data both name 'train.bin': give them different names",
    "--log=train.bin",
)

# A disk that fills up: no file may exceed the limit. A checkpoint during the run fails with a
# warning, and the last one with an error.
os.mkdir("full")
limit = len(WEIGHTS) + 20000


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


done = harness.run(
    [executable, "--steps=3", "--data=train.bin", "--save=full", "--save-every=1"],
    expect=ERROR,
    preexec_fn=limit_files,
)
lines = [line.split(" for 'full/")[0] for line in done.stderr.splitlines()]
moments = harness.re.findall(r"reserve (\d+) bytes", done.stderr)[0]
expected = [
    f"warning: checkpoint of step {step} was not saved: cannot reserve {moments} bytes" for step in (1, 2)
] + [f"error: cannot reserve {moments} bytes"]
if lines != expected or "File too large" not in done.stderr:
    harness.fail(f"said {done.stderr}, expected {expected}")
# The lock file of the directory is kept.
if os.listdir("full") != [".lock"]:
    harness.fail(f"left {os.listdir('full')} in the full directory")
done = harness.run(
    [executable, "--steps=2", "--data=train.bin", "--log=/dev/full", "--save=saved"], expect=ERROR
)
if not os.path.exists("saved/checkpoint-2") or not done.stderr.endswith(
    "\nerror: 4 lines of the log '/dev/full' could not be written: No space left on device\n"
):
    harness.fail(f"said {done.stderr}")
if "warning: cannot write the log '/dev/full': No space left on device" not in done.stderr:
    harness.fail(f"said {done.stderr}")
