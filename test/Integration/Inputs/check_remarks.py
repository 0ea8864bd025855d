# ===- check_remarks.py - Remarks against the plan ---------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""check_remarks.py PLAN.json REMARKS.yaml

Checks that every stage of the plan has exactly the remarks for its choice, with the bytes
and times of the plan, and that the plan and the states have theirs. Prints the remarks, one
per line.
"""

import json
import pathlib
import re
import sys

import harness

plan = json.loads(pathlib.Path(sys.argv[1]).read_text())


def read(text: str) -> list[dict]:
    """Parses the subset of YAML that remarks use."""
    remarks = []
    for document in text.split("--- !")[1:]:
        kind, *lines = document.splitlines()
        remark: dict = {"kind": kind, "args": {}, "text": ""}
        for line in lines:
            name = re.match(r"Name: +(\w+)$", line)
            if name:
                remark["name"] = name[1]
            argument = re.match(r"  - (\w+): +(.*)$", line)
            if argument:
                value = argument[2]
                value = value[1:-1].replace("''", "'") if value.startswith("'") else value
                remark["text"] += value
                remark["args"].setdefault(argument[1], value)
        remarks.append(remark)
    return remarks


remarks = read(pathlib.Path(sys.argv[2]).read_text())


def of_stage(name: str, stage: int) -> dict:
    found = [r for r in remarks if r["name"] == name and r["args"].get("Stage") == str(stage)]
    if len(found) > 1:
        harness.fail(f"stage {stage} has {len(found)} remarks '{name}'")
    return found[0]["args"] if found else {}


def expect(where: str, key: str, found: dict, wanted: object) -> None:
    if found.get(key) != str(wanted):
        harness.fail(f"{where}: the remark has {key} {found.get(key)}, the plan {wanted}")


(whole,) = (r["args"] for r in remarks if r["name"] == "Plan")
for key, wanted in [
    ("ArenaBytes", plan["predicted_peak_bytes"]),
    ("HostBytes", plan["host_arena_bytes"]),
    ("UnplannedBytes", plan["unplanned_peak_bytes"]),
    ("BudgetBytes", plan["budget_bytes"]),
    ("Microseconds", round(1000 * plan["predicted_step_ms"])),
    ("BoundMicroseconds", round(1000 * plan["lower_bound_ms"])),
]:
    expect("the plan", key, whole, wanted)

for choice in plan["choices"]:
    stage, where = choice["stage"], f"stage {choice['stage']}"
    repeats = choice["forward_runs"] > 1 or not choice["keeps_input"] or bool(choice["repeats"])
    wanted = {
        "Recompute": repeats,
        "Offload": bool(choice["offloads"]),
        "Keep": not repeats and not choice["offloads"],
    }
    for name, is_wanted in wanted.items():
        if bool(of_stage(name, stage)) != is_wanted:
            harness.fail(f"{where} {'lacks a' if is_wanted else 'has a wrong'} remark '{name}'")
    if repeats:
        remark = of_stage("Recompute", stage)
        expect(where, "Repeats", remark, ", ".join(choice["repeats"]) or "nothing")
        expect(where, "BytesSaved", remark, choice["repeated_bytes"])
        expect(where, "MicrosecondsAdded", remark, round(1000 * choice["repeated_ms"]))
    if choice["offloads"]:
        remark = of_stage("Offload", stage)
        expect(where, "Offloads", remark, ", ".join(choice["offloads"]))
        expect(where, "BytesSaved", remark, choice["offloaded_bytes"])
    if wanted["Keep"]:
        expect(where, "BytesKept", of_stage("Keep", stage), choice["kept_bytes"])

states = [r["args"] for r in remarks if (r["kind"], r["name"]) == ("Passed", "StateOnHost")]
on_host, count = (sum(int(args[key]) for args in states) for key in ("HostBytes", "States"))
if not on_host <= plan["host_state_bytes"] <= on_host + 64 * count:
    harness.fail(f"{on_host} bytes of states are on the host, the plan has {plan['host_state_bytes']}")
for remark in remarks:
    if "  " in remark["text"] or not remark["text"]:
        harness.fail(f"a remark reads '{remark['text']}'")
    print(f"{remark['kind']} {remark['name']}: {remark['text']}")
