# ===- edit.py - Machine files with one fault each ---------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""edit.py GOOD FOLDER: writes variants of a machine file with one fault each to a folder."""

import copy
import json
import pathlib
import sys

good = json.loads(pathlib.Path(sys.argv[1]).read_text())
folder = pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)


def write(name, change):
    file = copy.deepcopy(good)
    change(file)
    (folder / f"{name}.json").write_text(json.dumps(file))


write("link-zero", lambda f: f["link"].update(to_host_bytes_per_s=0))
write("no-bandwidth", lambda f: f.pop("bandwidth"))
write("negative-rate", lambda f: f["gemm"]["fp32"]["flop_per_s"][0][0].__setitem__(0, -1))
write("version", lambda f: f.update(version=9))
write(
    "elsewhere",
    lambda f: f.update(
        origin={
            "how": "measured",
            "date": "2026-01-01",
            "cpu": "Another CPU",
            "blas": "Another BLAS",
            "threads": 77,
        }
    ),
)
(folder / "garbage.json").write_text("not a machine")
