"""Turns the examples in the descriptions of kilnrt's ops into a module that parses.

rt_examples.py FOLDER: every op of the folder's .td files must have one, except for
kernels and programs, which are made around the others. An example is a line of IR
whose operands are not defined: they become slots, or a copy that is under way.
"""

import re
import sys
from pathlib import Path

HEAD = """\
kilnrt.kernel @k attributes {family = #kiln.family<row>, space = array<i64: 4, 4>, row_strides = array<i64: 4, 4>} {
^bb0(%x: tensor<4x4xf32>):
  %y = kiln.relu %x : tensor<4x4xf32>
  kiln.yield %y : tensor<4x4xf32>
}
"""
ENCLOSING = ("kernel", "program")


def definitions(mnemonic, head):
    """Defines the operands of an example."""
    names = list(dict.fromkeys(re.findall(r"%\w+", head)))
    if mnemonic == "wait":
        yield from definitions("copy_start", "%a %b")
        yield "%t = kilnrt.copy_start %a to %b offsets [0, 0] strides [0, 0] bytes 64"
        return
    for i, name in enumerate(names):
        host = " {host}" if mnemonic == "copy_start" and i == 1 else ""
        yield (
            f'{name} = kilnrt.slot "{name[1:]}" class activation '
            f"offset {1024 * (i + 1)} bytes 1024 lifetime [0, 1]{host}"
        )


def program(index, mnemonic, example):
    head = example.split(" = ", 1)[1] if re.match(r"%\w+ = ", example) else example
    lines = list(definitions(mnemonic, head)) + [example]
    if mnemonic == "copy_start":
        lines.append("kilnrt.wait %t")
    body = "".join(f"  {line}\n" for line in lines)
    return (
        f"kilnrt.program @example{index} attributes "
        f"{{kind = #kiln.program_kind<train>}} {{\n{body}}}\n"
    )


def main():
    modules = [HEAD]
    for path in sorted(Path(sys.argv[1]).glob("*.td")):
        for block in re.split(r"^(?=def )", path.read_text(), flags=re.MULTILINE):
            match = re.match(r'def KilnRT_\w+Op\s*:\s*\w+<\s*"(\w+)"', block)
            if not match or match[1] in ENCLOSING:
                continue
            mnemonic = match[1]
            examples = [e.replace('\\"', '"') for e in re.findall(r"Example: `([^`]*)`", block)]
            if not any(f"kilnrt.{mnemonic}" in example for example in examples):
                raise SystemExit(f"{path}: kilnrt.{mnemonic} has no example")
            for example in examples:
                if mnemonic == "arena":
                    modules.append(example + "\n")
                else:
                    modules.append(program(len(modules), mnemonic, example))
    print("\n".join(modules))


main()
