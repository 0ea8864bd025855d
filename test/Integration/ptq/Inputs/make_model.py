# ===- make_model.py - Model directory with a changed configuration ----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""make_model.py CONFIG DIRECTORY KEY=VALUE...: writes the configuration with other values."""

import json
import pathlib
import sys

config = json.loads(pathlib.Path(sys.argv[1]).read_text())
config.update({key: json.loads(value) for key, _, value in (word.partition("=") for word in sys.argv[3:])})
pathlib.Path(sys.argv[2], "config.json").write_text(json.dumps(config, indent=2) + "\n")
