"""Converts the examples in op descriptions into a module that parses.

op_examples.py FOLDER: every op of the folder's .td files must have an example. An example is
a line of IR whose operands are undefined; they become arguments of a program that contains
the line.
"""

import re
import sys
from pathlib import Path

STATES = """\
kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
"""

# A transfer and its wait are only valid together: this is the other half of each example.
HALVES = {
    "copy_out": "{} %end = kiln.copy_wait %f, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>",
    "copy_in": "{} %end = kiln.copy_wait %f, %h : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>",
    "copy_wait": "%f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>> {}",
    "collective_start": "{} %end = kiln.collective_wait %t : tensor<5x8xf32>",
    "collective_wait": '%t:2 = kiln.collective_start all_reduce %a, %b over "dp" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>, tensor<8xf32> {}',
}


def operand_names(head):
    """Returns the undefined values in the operands of an op, in order."""
    return re.findall(r"%[\w#]+", head)


def split_types(text):
    """Splits types at commas outside of brackets."""
    return re.findall(r"tensor<(?:[^<>]|<[^<>]*>)*>", text)


def operand_types(op, count):
    """Returns the types of the operands: listed in a functional type or one by one, else all equal."""
    functional = re.search(r": \(([^()]*)\) ->", op)
    types = split_types(functional[1] if functional else op[op.rindex(" : "):].split(" -> ")[0])
    return types if functional or len(types) == count else types[:1] * count


def program(index, example, half):
    """Returns a program that contains one op, and the other half of a transfer."""
    first = half.split("{}")[0] or example
    body = first.split(" = ", 1)[1] if re.match(r"%[^=(]* = ", first) else first
    head = body.split(" : ", 1)[0]
    names = operand_names(head)
    types = operand_types(body, len(names)) if names else []
    if len(names) != len(types):
        raise SystemExit(f"operands and types differ in: {example}")
    # Arguments are on the device. A tensor on the host is the value of a state.
    operands = list(zip(names, types))
    arguments = ", ".join(f"{n}: {t}" for n, t in operands if "host" not in t)
    states, reads = "", ""
    for name, type in operands:
        if "host" in type:
            state = f"@example{index}.{name[1:]}"
            states += f"kiln.state {state} : {type} {{role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}}\n"
            reads += f"  {name} = kiln.read {state} : {type}\n"
    return (
        f"{states}kiln.program @example{index}({arguments}) attributes "
        f"{{kind = #kiln.program_kind<forward>}} {{\n{reads}  {half.format(example)}\n  kiln.return\n}}\n"
    )


def main():
    modules = [STATES]
    for path in sorted(Path(sys.argv[1]).glob("*.td")):
        text = path.read_text()
        # Splits the text into one block per op definition.
        for block in re.split(r"^(?=def )", text, flags=re.MULTILINE):
            match = re.match(r'def Kiln_\w+Op\s*:\s*(\w+)<\s*"(\w+)"', block)
            if not match:
                continue
            base, mnemonic = match.groups()
            examples = re.findall(r"Example: `([^`]*)`", block)
            if base in ("Kiln_UnaryOp", "Kiln_BinaryOp"):
                operands = "%x" if base == "Kiln_UnaryOp" else "%a, %b"
                examples = [f"%y = kiln.{mnemonic} {operands} : tensor<4x8xf32>"]
            if mnemonic in ("return", "yield"):
                continue  # Terminators appear in the examples of other ops.
            if not any(f"kiln.{mnemonic}" in example for example in examples):
                raise SystemExit(f"{path}: kiln.{mnemonic} has no example")
            for example in examples:
                if mnemonic == "state":
                    modules.append(example.replace("@w", "@example") + "\n")
                elif mnemonic == "program":
                    modules.append(example + "\n")
                else:
                    modules.append(program(len(modules), example, HALVES.get(mnemonic, "{}")))
    print("module attributes {kiln.mesh = {dp = 2 : i64, tp = 2 : i64}} {")
    print("\n".join(modules))
    print("}")


main()
