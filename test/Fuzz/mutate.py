# ===- mutate.py - Mutations of IR text --------------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Mutates MLIR text. A mutation changes tokens, lines or regions without parsing, so its
result may not parse. All random choices use the generator that the caller passes."""

import re

TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[%@#!^][\w.$-]+|[A-Za-z_][\w.$]*|0x[0-9a-fA-F]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+|->|\s+|.',
    re.S,
)
INTEGERS = [
    0, 1, 2, 3, 4, 7, 8, 16, 63, 64, 65, 127, 128, 255, 256, 1000, 65535, 65536, 1 << 20, (1 << 31) - 1, 1 << 31,
    (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 48, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
]  # fmt: skip
REALS = [
    "0.0", "-0.0", "1.0", "-1.0", "0.5", "1.0e+308", "1.0e-320", "1.0e+39", "9.99999999e-01",
    "0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000", "0x7FC00000", "0x7F800000",
]  # fmt: skip
ELEMENTS = ["f32", "f64", "bf16", "f16", "f8E4M3FN", "i1", "i8", "i16", "i32", "i64", "i128", "si32", "index", "none", "complex<f32>", "vector<4xf32>"]
ATTRIBUTES = [
    "unit", "0 : i64", "-1 : i64", "1 : i32", "9223372036854775807 : i64", "1.0 : f64", "0x7FF8000000000000 : f64",
    "1.0 : f32", '"text"', '""', '"\\00\\FF"', "[]", "[1, 2]", "{}", "@nothing", "@train", "true", "f32", "tensor<2xf32>",
    "tensor<?xf32>", "tensor<*xf32>", "memref<2xf32>", "memref<?xf32>", "memref<2x2xf32, strided<[1, 1]>>", "array<i64>", "array<i64: 0>", "array<i64: -1, 9223372036854775807>",
    "array<i64: 1, 1, 1>", "array<f64: 0.0>", "array<i32: 1, 0>", "dense<0.0> : tensor<2xf32>", "dense<[1, 2]> : tensor<2xi64>",
    "#kiln.splat<value = 0x7FF8000000000000>", "#kiln.normal<mean = 0.0, stddev = -1.0>",
    "#kiln.rope_table<sine = true, scale = 1.0, inv_freq = array<f64: 1.0>>", "#kiln.rope_table<sine = false, scale = 1.0, inv_freq = array<f64>>",
    "affine_map<(d0) -> (d0)>", "loc(unknown)",
]  # fmt: skip
ENUMS = {
    "role": ["parameter", "buffer", "constant", "optimizer", "mirror"],
    "family": ["row", "scatter", "permute", "rope", "gemm", "attention", "cumsum", "view", "kernel", "nothing", "bucket", "sketch"],
    "program_kind": ["forward", "train", "evaluate", "generate"],
    "reduction": ["sum", "mean", "max"],
    "kind": ["forward", "train", "evaluate", "generate"],
    "memory": ["device", "host"],
    "slot_class": ["parameter", "input", "output", "workspace"],
    "class": ["parameter", "input", "output", "workspace"],
    "engine": ["device", "host", "link"],
    "accumulation": ["overwrite", "add", "add_after_first"],
    "accumulate": ["overwrite", "add", "add_after_first"],
    "transfer": ["copy", "send", "receive"],
    "begin": ["copy", "send", "receive"],
}
NAMES = [
    "@train", "@evaluate", "@generate", "@forward", "@k0_row", "@k1_row", "@k0_epilogue", "@embedding.m", "@main",
    "@kiln_program_json", '@""', '@"a b"', '@"\\00"', '@"\\FF\\FE"', '@"a/../b"', '@"\\22"',
]  # fmt: skip


def tokens_of(text):
    return TOKEN.findall(text)


def pick(random, tokens, wanted):
    places = [i for i, token in enumerate(tokens) if wanted(token)]
    return random.choice(places) if places else None


def other_integer(random, text):
    value = int(text)
    kind = random.randrange(6)
    if kind < 3:
        return str(max(0, value + (1, -1, 2)[kind]))
    if kind == 3:
        return str(random.choice([value * 2, value // 2, value * 3, value * value]))
    return ("-" if random.random() < 0.2 else "") + str(random.choice(INTEGERS))


def change_number(random, text, _):
    tokens = tokens_of(text)
    i = pick(random, tokens, lambda t: t[0].isdigit())
    if i is None:
        return text
    if tokens[i].isdigit() and random.random() < 0.9:
        tokens[i] = other_integer(random, tokens[i])
    else:
        tokens[i] = random.choice(REALS)
    return "".join(tokens)


def change_extent(random, text, _):
    """Changes one dimension of a tensor or view type, once or at all uses of the type."""
    types = re.findall(r"(?:tensor|memref)<(?:[\d?*]+x)*\w+", text)
    if not types:
        return text
    old = random.choice(types)
    kind_of_type, shape = old.split("<")
    dims = shape.split("x")
    kind = random.randrange(4)
    if kind == 0 or len(dims) == 1:
        dims.insert(random.randrange(len(dims)), random.choice(["1", "2", "8", "?", "0", "2147483647", "4294967296"]))
    elif kind == 1:
        del dims[random.randrange(len(dims) - 1)]
    else:
        i = random.randrange(len(dims) - 1)
        dims[i] = other_integer(random, dims[i]) if dims[i].isdigit() else random.choice(["0", "1", "4"])
    new = kind_of_type + "<" + "x".join(dims)
    if random.random() < 0.5:
        return text.replace(old, new)
    at = random.choice([m.start() for m in re.finditer(re.escape(old), text)])
    return text[:at] + new + text[at + len(old) :]


def scale_extent(random, text, _):
    """Replaces one extent in all shapes."""
    extents = re.findall(r"(?<=[<x])\d+(?=x)", text)
    if not extents:
        return text
    old = random.choice(extents)
    return re.sub(rf"(?<=[<x]){old}(?=x)", other_integer(random, old), text)


def change_element(random, text, _):
    names = re.findall(r"(?<=[<x])(?:bf16|f32|f64|i8|i32|i64)(?=[>,])", text)
    if not names:
        return text
    old, new = random.choice(names), random.choice(ELEMENTS)
    pattern = rf"(?<=[<x]){old}(?=[>,])"
    if random.random() < 0.3:
        return re.sub(pattern, new, text)
    at = random.choice(list(re.finditer(pattern, text)))
    return text[: at.start()] + new + text[at.end() :]


def change_op(random, text, corpus):
    names = re.findall(r"\bkiln(?:rt)?\.[a-z_]+", text)
    if not names:
        return text
    old, new = random.choice(names), random.choice(corpus.ops)
    at = random.choice([m.start() for m in re.finditer(re.escape(old) + r"\b", text)])
    return text[:at] + new + text[at + len(old) :]


def line_of_op(random, lines):
    places = [i for i, line in enumerate(lines) if line.strip() and not line.strip().startswith("//")]
    return random.choice(places) if places else 0


def change_lines(random, text, _):
    lines = text.split("\n")
    i, j = line_of_op(random, lines), line_of_op(random, lines)
    kind = random.randrange(5)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(j, lines[i])
    elif kind == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == 3:
        lines.insert(j, lines.pop(i))
    else:
        low, high = min(i, j), max(i, j)
        del lines[low : low + random.randint(1, max(1, min(high - low, 8)))]
    return "\n".join(lines)


def splice(random, text, corpus):
    """Inserts lines of another file."""
    lines, other = text.split("\n"), random.choice(corpus.texts).split("\n")
    begin = random.randrange(len(other))
    at = random.randrange(len(lines) + 1)
    lines[at:at] = other[begin : begin + random.randint(1, 3)]
    return "\n".join(lines)


def brackets_of(text, opening, closing):
    """Returns the (begin, end) ranges of bracketed text, including the brackets."""
    stack, found = [], []
    for i, character in enumerate(text):
        if character == opening:
            stack.append(i)
        elif character == closing and stack:
            found.append((stack.pop(), i + 1))
    return found


def change_region(random, text, _):
    """Empties or removes a region or a bracketed list."""
    opening, closing = random.choice(["{}", "{}", "{}", "()", "[]", "<>"])
    found = brackets_of(text, opening, closing)
    if not found:
        return text
    begin, end = random.choice(found)
    kind = random.randrange(4)
    if kind == 0:
        return text[:begin] + opening + closing + text[end:]
    if kind == 1:
        return text[:begin] + text[end:]
    if kind == 2:
        return text[:end] + text[begin:end] + text[end:]
    inner = text[begin + 1 : end - 1].split(",")
    random.shuffle(inner)
    return text[: begin + 1] + ",".join(inner) + text[end - 1 :]


def change_generic(random, text, _):
    """Removes regions, properties, attributes or operands of a generic op."""
    patterns = {
        "properties": r" <\{[^\n]*?\}>",
        "operands": r'(?<=")\([^()\n]*\)',
        "region": r"\(\{",
        "attributes": r" \{[^{}\n]*\}(?= :)",
        "block": r"\^bb\d+\([^\n]*\):",
    }
    name = random.choice(list(patterns))
    found = list(re.finditer(patterns[name], text))
    if not found:
        return text
    match = random.choice(found)
    begin, end = match.span()
    if name != "region":
        return text[:begin] + ("()" if name == "operands" else "") + text[end:]
    ends = [e for b, e in brackets_of(text, "{", "}") if b == end - 1]
    if not ends:
        return text
    replaced = random.choice(["({})", "()", "({^bb0:})", "({}, {})", "({^bb0:\n}, {^bb0:\n})", "", "({^bb0(%empty: f32):\n})"])
    return text[:begin] + replaced + text[ends[0] + 1 :]


def change_operand(random, text, _):
    tokens = tokens_of(text)
    values = [i for i, token in enumerate(tokens) if token[0] == "%"]
    if not values:
        return text
    i = random.choice(values)
    kind = random.randrange(4)
    if kind < 2:
        # Values defined a few lines earlier are more likely to be in scope.
        near = [j for j in values if abs(j - i) < 200] if kind else values
        tokens[i] = tokens[random.choice(near)]
    elif kind == 2:
        tokens[i] = ""
        if i + 1 < len(tokens) and tokens[i + 1] == ",":
            tokens[i + 1] = ""
    else:
        tokens[i] = tokens[i] + ", " + tokens[i]
    return "".join(tokens)


def change_attribute(random, text, _):
    """Changes the value or the name of an attribute, or removes the attribute."""
    found = list(re.finditer(r"(\w[\w.]*) = ((?:[^,{}<>\[\]()\n]|<[^<>\n]*>|\[[^\[\]\n]*\])+)", text))
    if not found:
        return text
    match = random.choice(found)
    kind = random.randrange(5)
    if kind < 3:
        return text[: match.start(2)] + random.choice(ATTRIBUTES) + text[match.end(2) :]
    if kind == 3:
        name = random.choice(found).group(1)
        return text[: match.start(1)] + name + text[match.end(1) :]
    end = match.end()
    if text[end : end + 2] == ", ":
        end += 2
    return text[: match.start()] + text[end:]


def add_attribute(random, text, _):
    names = ["key", "kiln.offload", "kiln.prefetch", "kiln.keep", "kiln.residency", "kiln.model", "kiln.plan", "kiln.name", "kiln.gradient", "kv_tile", "grid", "frozen", "epilogue"]
    found = [b for b, _ in brackets_of(text, "{", "}") if "\n" not in text[b : b + 2]]
    if not found:
        return text
    begin = random.choice(found)
    return text[: begin + 1] + random.choice(names) + " = " + random.choice(ATTRIBUTES) + ", " + text[begin + 1 :]


def change_enum(random, text, _):
    found = list(re.finditer(rf"\b({'|'.join(ENUMS)})[< ](\w+)\b", text))
    if not found:
        return text
    match = random.choice(found)
    return text[: match.start(2)] + random.choice(ENUMS[match.group(1)]) + text[match.end(2) :]


def rename_symbol(random, text, _):
    symbols = re.findall(r"@[\w.$-]+", text)
    if not symbols:
        return text
    old = random.choice(symbols)
    new = random.choice(NAMES + symbols)
    pattern = re.escape(old) + r"(?![\w.$-])"
    if random.random() < 0.6:
        return re.sub(pattern, lambda _: new, text)
    at = random.choice(list(re.finditer(pattern, text)))
    return text[: at.start()] + new + text[at.end() :]


def rename_in_generic(random, text, _):
    """Renames symbols, which are strings in the generic form."""
    found = list(re.finditer(r'sym_name = "([^"\n]*)"', text))
    if not found:
        return text
    match = random.choice(found)
    new = random.choice(["train", "evaluate", "k0_row", "", "\\00", "\\FF", random.choice(found).group(1)])
    return text[: match.start(1)] + new + text[match.end(1) :]


def change_characters(random, text, _):
    if not text:
        return text
    i = random.randrange(len(text))
    kind = random.randrange(4)
    if kind == 0:
        return text[:i] + text[i + 1 :]
    if kind == 1:
        return text[:i] + random.choice("{}()<>[]%@#!^:,=-+x0\"\\\x00\u00e9") + text[i:]
    if kind == 2:
        return text[:i]
    return text[:i] + text[i : i + random.randint(1, 200)] + text[i:]


def types_of(text):
    """Returns the types of the values defined by block arguments and by generic ops with one
    result, with the positions of the definitions."""
    types = {}
    for match in re.finditer(r"^ *(%[\w]+) = \".*-> (\S[^()\n]*)$", text, re.M):
        types[match.group(1)] = (match.group(2), match.start())
    for block in re.finditer(r"^ *\^bb\d+\((.*)\):$", text, re.M):
        for argument in re.finditer(r"(%\w+): ([^,]*(?:<[^>]*>)?)", block.group(1)):
            types[argument.group(1)] = (argument.group(2), block.start())
    return types


def swap_value(random, text, _):
    """Replaces an operand with an earlier value of the same type."""
    types = types_of(text)
    uses = [m for m in re.finditer(r"%\w+(?=[,)])", text) if m.group() in types]
    if not uses:
        return text
    use = random.choice(uses)
    wanted, _ = types[use.group()]
    others = [name for name, (type_, at) in types.items() if type_ == wanted and at < use.start()]
    if not others:
        return text
    # The most recent definitions are most often in scope.
    return text[: use.start()] + random.choice(others[-8:]) + text[use.end() :]


def bypass_op(random, text, _):
    """Removes an op and uses another value of its result type instead."""
    types = types_of(text)
    defined = list(re.finditer(r"^ *(%\w+) = \".*\n", text, re.M))
    if not defined:
        return text
    match = random.choice(defined)
    if match.group(1) not in types:
        return text
    wanted, _ = types[match.group(1)]
    others = [name for name, (type_, at) in types.items() if type_ == wanted and at < match.start()]
    if not others:
        return text
    rest = re.sub(re.escape(match.group(1)) + r"\b", random.choice(others[-4:]), text[match.end() :])
    return text[: match.start()] + rest


def tweak_attribute(random, text, _):
    """Replaces a number of an attribute with another one of similar size."""
    found = list(re.finditer(r"(?<== )-?\d+(?= : i64)|(?<=[ \[]) ?-?\d+(?=[,\]>])", text))
    if not found:
        return text
    match = random.choice(found)
    value = int(match.group())
    new = random.choice([value + 1, value - 1, value * 2, value // 2, 0, 1, 2, 4, -1, value + 64])
    return text[: match.start()] + " " * match.group().startswith(" ") + str(new) + text[match.end() :]


def rename_boundary(random, text, _):
    names = list(re.finditer(r'(?<=kiln\.name = ")\w*(?=")', text))
    if not names:
        return text
    match = random.choice(names)
    known = ["tokens", "targets", "rng", "loss_scale", "lr", "step", "clip", "position", "loss", "grad_norm", "logits", "", "x"]
    return text[: match.start()] + random.choice(known) + text[match.end() :]


# Mutations whose result often verifies come first.
MUTATIONS = [
    (swap_value, 18), (bypass_op, 10), (tweak_attribute, 16), (rename_boundary, 2), (change_enum, 6), (rename_symbol, 8),
    (scale_extent, 8), (add_attribute, 4), (change_lines, 5), (change_attribute, 8),
    (change_number, 5), (change_extent, 4), (change_element, 4), (change_op, 4), (splice, 2), (change_region, 4),
    (change_generic, 7), (change_operand, 4), (rename_in_generic, 2), (change_characters, 1),
]  # fmt: skip


def mutate(random, text, corpus):
    """Applies one to three mutations. A mutation that finds nothing to change is replaced by
    another one."""
    functions, weights = zip(*MUTATIONS)
    for _ in range(random.choice([1, 1, 1, 1, 1, 1, 2, 2, 3])):
        for function in random.choices(functions, weights, k=8):
            changed = function(random, text, corpus)
            if changed != text:
                text = changed
                break
    return text
