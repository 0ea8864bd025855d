# ===- links.py - Links and file names in the documentation ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""links.py ROOT [FILE...]: checks these Markdown files, or the whole repository.

- The target of a link exists, as does the heading that its fragment refers to.
- A path in backticks or in a code block exists if it starts with a folder of the repository
  or has the extension of a source file, such as `Options.cpp`; a name or the end of a path
  suffices. `*`, `{a,b}` and capital letters such as NAME match anything.
- Without FILE, every page of docs/ that a source, test or script mentions exists, too."""

import fnmatch
import os
import pathlib
import re
import sys

SKIPPED = {".git", "build"}
SOURCE_KINDS = (".cpp", ".h", ".td", ".test", ".cmake")
NAMING_KINDS = (*SOURCE_KINDS, ".mlir", ".py", ".sh", ".txt")
PAGE = re.compile(r"(?<![\w/])docs/[\w/-]+\.md\b")
FENCE = re.compile(r"^\s*```")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
WORD = re.compile(r"[\w./*{},<>+-]+")


def repository_files(root):
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED]
        relative = pathlib.Path(folder).relative_to(root)
        found += [str(relative / name) for name in files + names]
    return found


def split(text):
    """Returns prose without code, inline code, and the words of blocks, with line numbers."""
    prose, code, fenced = [], [], False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif fenced:
            code.append((number, line))
        else:
            code += [(number, part) for part in re.findall(r"`([^`]+)`", line)]
            prose.append((number, re.sub(r"`[^`]*`", "", line)))
    return prose, code


def anchors(path):
    """Returns the fragments of the headings of a page, as GitHub generates them."""
    found, fenced = set(), False
    for line in path.read_text().splitlines():
        fenced ^= bool(FENCE.match(line))
        heading = re.match(r"#+\s+(.*)", line)
        if heading and not fenced:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-")
            number = sum(other == slug or re.fullmatch(re.escape(slug) + r"-\d+", other) is not None for other in found)
            found.add(f"{slug}-{number}" if number else slug)
    return found


def check_link(page, target, problems, place):
    if re.match(r"[a-z]+:", target):
        return
    path, _, fragment = target.partition("#")
    linked = (page.parent / path).resolve() if path else page
    if not linked.exists():
        problems.append(f"{place}: the link to '{target}' leads nowhere")
    elif fragment and linked.suffix in (".md", ".txt") and fragment not in anchors(linked):
        problems.append(f"{place}: '{path or page.name}' has no heading '#{fragment}'")


def alternatives(word):
    braces = re.search(r"\{([^{}]*)\}", word)
    if not braces:
        return [word]
    before, after = word[: braces.start()], word[braces.end() :]
    return [other for part in braces[1].split(",") for other in alternatives(before + part + after)]


def check_path(word, files, folders, problems, place):
    word = word.strip(".,").removeprefix("./").rstrip("/")
    if "<" in word or re.search(r"(^|[/.])[A-Z][A-Z_]+([/.-]|$)", word):
        return
    is_path = "/" in word and word.split("/")[0] in folders
    if not is_path and not word.endswith(SOURCE_KINDS):
        return
    for path in alternatives(word):
        exact = any(fnmatch.fnmatchcase(file, path) for file in files)
        ends = not is_path and any(fnmatch.fnmatchcase("/" + file, "*/" + path) for file in files)
        if not exact and not ends:
            problems.append(f"{place}: the repository has no '{path}'")


def check_named_pages(root, files, problems):
    """Checks the pages of docs/ that non-Markdown files mention, except test/Docs."""
    known = set(files)
    for name in files:
        if name.endswith(NAMING_KINDS) and not name.startswith("test/Docs/"):
            text = (root / name).read_text(errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                for page in PAGE.findall(line.replace("%kiln_src/", "")):
                    if page not in known:
                        problems.append(f"{name}:{number}: the repository has no '{page}'")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = repository_files(root)
    folders = {file for file in files if "/" not in file and (root / file).is_dir()}
    pages = [pathlib.Path(page).resolve() for page in sys.argv[2:]]
    pages = pages or [root / file for file in sorted(files) if file.endswith(".md")]
    problems = []
    for page in pages:
        prose, code = split(page.read_text())
        name = os.path.relpath(page, root)
        for number, line in prose:
            for target in LINK.findall(line):
                check_link(page, target, problems, f"{name}:{number}")
        for number, text in code:
            for word in WORD.findall(text):
                check_path(word, files, folders, problems, f"{name}:{number}")
    if not sys.argv[2:]:
        check_named_pages(root, files, problems)
    print(*problems, sep="\n" if problems else "")
    print(f"{len(pages)} pages, {len(problems)} broken references")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
