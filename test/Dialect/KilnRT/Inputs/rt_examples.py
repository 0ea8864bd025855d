"""Converts the examples in the descriptions of kilnrt ops into modules that parse.

rt_examples.py FOLDER: every op of the folder's .td files must have an example, except
kernels and programs, which are generated around the others. An example is a line of IR whose
operands are undefined; they become tokens, slots, or views of slots."""

import re
import sys
from pathlib import Path

KERNEL = """\
  kilnrt.kernel @k family<row> space [4, 4] row_strides [4, 4] {
  ^bb0(%x: tensor<4x4xf32>):
    %y = kiln.relu %x : tensor<4x4xf32>
    kiln.yield %y : tensor<4x4xf32>
  }
"""
QUEUES = {"compute": "device", "host": "host", "copy_out": "link"}
ENCLOSING = ("kernel", "program")
IN_MODULE = ("arena", "queue")


def slot(name, number, memory=""):
    return (
        f'{name} = kilnrt.slot "{name[1:].removesuffix(".slot")}" class activation{memory} '
        f"offset {1024 * number} bytes 1024 lifetime [0, 1]"
    )


def definitions(mnemonic, example):
    """Returns the definitions of the operands of an example."""
    uses = example.split(" = ", 1)[1] if re.match(r"%\w+ = ", example) else example
    for i, name in enumerate(dict.fromkeys(re.findall(r"%\w+", uses))):
        if mnemonic in ("begin", "wait") and i == 0:
            yield f"{name} = kilnrt.token"
        elif mnemonic == "view" or f"scratch({name})" in uses:
            yield slot(name, i)
        else:
            # The destination of a copy is on the host.
            to_host = mnemonic == "begin" and f"wo {name}" in uses
            yield slot(f"{name}.slot", i, " in host" if to_host else "")
            space = ", #kiln.memory<host>" if to_host else ""
            yield f"{name} = kilnrt.view {name}.slot[0] : memref<4x4xf32{space}>"


def module(mnemonic, example):
    if mnemonic in IN_MODULE:
        return f"module {{\n  {example}\n}}\n"
    if "* microbatch" in example:
        body = [*definitions(mnemonic, example), "kilnrt.microbatches 2 forward {", example, "} backward {", "}"]
    else:
        body = [*definitions(mnemonic, example), example]
    queues = "".join(f"  kilnrt.queue @{name} engine {engine}\n" for name, engine in QUEUES.items())
    lines = "".join(f"    {line}\n" for line in body)
    mesh = "attributes {kiln.mesh = {dp = 2 : i64}} "
    return f"module {mesh}{{\n{KERNEL}{queues}  kilnrt.program @train kind<train> {{\n{lines}  }}\n}}\n"


def main():
    modules = []
    for path in sorted(Path(sys.argv[1]).glob("*.td")):
        for block in re.split(r"^(?=def )", path.read_text(), flags=re.MULTILINE):
            match = re.match(r'def KilnRT_\w+Op\s*:\s*\w+<\s*"(\w+)"', block)
            if not match or match[1] in ENCLOSING:
                continue
            mnemonic = match[1]
            examples = [e.replace('\\"', '"') for e in re.findall(r"Example: `([^`]*)`", block)]
            if not any(f"kilnrt.{mnemonic}" in example for example in examples):
                raise SystemExit(f"{path}: kilnrt.{mnemonic} has no example")
            modules += [module(mnemonic, example) for example in examples]
    print("\n".join(modules))


main()
