# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the plan for a small budget, the plan for a large one and the one without a budget.

    monotone.py LESS.json MORE.json NONE.json
"""

import json
import sys

less, more, none = [json.load(open(path)) for path in sys.argv[1:]]
ms = [plan["predicted_step_ms"] for plan in (less, more, none)]
assert ms[1] < ms[2], f"a plan with the budget should be faster than {ms[2]} ms, got {ms[1]} ms"
assert ms[1] <= 1.01 * ms[0], f"the larger budget is slower: {ms[1]} ms instead of {ms[0]} ms"
assert more["host_arena_bytes"] > 0, "the host updates nothing"
bound = more["lower_bound_ms"]
assert bound <= min(ms), f"the lower bound of {bound} ms is above a plan of {min(ms)} ms"
