# ===- check_report.py - Reports against the plan ----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""check_report.py PLAN.json SUMMARY.txt PAGE.html SNAPSHOT.snapshot.json

Checks that the summary and the page show the figures of the plan, that the page is
well-formed and loads no files, and that the snapshot contains the bytes of the plan when it
is replayed like in PyTorch's viewer.
"""

import html.parser
import json
import pathlib
import re
import sys

import harness

plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
summary, page = (pathlib.Path(name).read_text() for name in sys.argv[2:4])
snapshot = json.loads(pathlib.Path(sys.argv[4]).read_text())
arena, states = plan["predicted_peak_bytes"], plan["state_bytes"]
worst = plan["programs"][plan["program"]]
most = states + worst["max_live_bytes"]
peak = worst["peak_command"]

# The summary.
for text in [f"({arena:,} bytes)", f"peak: command {peak} of {worst['commands']} in @{plan['program']}"]:
    if text not in summary:
        harness.fail(f"the summary does not say '{text}'")
if plan["choices"] and "choices" not in summary:
    harness.fail("the summary has no choices")

# The host: its arena, the time of its peak, and the copies.
hosted = [buffer for buffer in plan["buffers"] if buffer.get("arena") == "host"]
names = {"parameter": "parameters", "gradient": "gradients", "activation": "activations"}


def alive(command: int) -> list[dict]:
    states = plan["host_state_bytes"]
    return [b for b in hosted if b["offset"] < states or b["first"] <= command <= b["last"]]


on_host: dict[str, int] = {}
moments = [sum((b["bytes"] + 63) // 64 * 64 for b in alive(i)) for i in range(worst["commands"])]
for buffer in alive(moments.index(max(moments))):
    name = names.get(buffer["class"], buffer["class"])
    on_host[name] = on_host.get(name, 0) + buffer["bytes"]
host_texts = [f"{plan['host_arena_bytes']:,} bytes"] if hosted else []
for text in [*host_texts, *(["copies in a step: "] if "link" in plan else [])]:
    if text not in summary:
        harness.fail(f"the summary does not say '{text}'")
if not hosted and "host" in summary:
    harness.fail("the summary speaks of a host that has nothing")


# The page.
class Page(html.parser.HTMLParser):
    """Tracks the open elements, and the text of elements with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if {"src", "href"} & {name for name, _ in attributes}:
            harness.fail(f"the page loads something: <{tag} {attributes}>")
        if tag not in ("meta", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            harness.fail(f"the page closes <{tag}>, which is not the innermost open element")

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.text).append(data)


parsed = Page()
parsed.feed(page)
if parsed.open:
    harness.fail(f"the page leaves {parsed.open} open")
if re.search(r"\b(nan|inf)\b", page, re.IGNORECASE):
    harness.fail("the page has a figure that is no number")
text = "".join(parsed.text)
host_texts += [f"{bytes_:,}" for bytes_ in on_host.values()]
if "link" in plan:
    host_texts.append("A step copies ")
for figure in [f"{arena:,} bytes", f"Command {peak} of {worst['commands']}", *host_texts]:
    if figure not in text:
        harness.fail(f"the page does not say '{figure}'")
for bytes_ in plan["by_class"].values():
    if bytes_ and f"{bytes_:,}" not in text:
        harness.fail(f"the page does not say '{bytes_:,}'")
rows = json.loads(parsed.scripts[0])["rows"]
highest = max(rows, key=lambda row: sum(row[2:]))
if sum(highest[2:]) != most or highest[0] != peak:
    harness.fail(f"the page's timeline has {sum(highest[2:])} bytes at {highest[0]}, the plan {most} at {peak}")
if highest[1] != plan["command_names"][peak]:
    harness.fail(f"the peak is at '{highest[1]}' in the page, '{plan['command_names'][peak]}' in the plan")

# The snapshot, replayed forwards from an empty arena.
(segment,), (trace,) = snapshot["segments"], snapshot["device_traces"]
reserved = allocated = highest = 0
live: dict[int, int] = {}
for event in trace:
    start, size = event["addr"], event["size"]
    if event["action"] == "segment_alloc":
        reserved += size
        base = start
    elif event["action"] == "alloc":
        if not base <= start <= start + size <= base + reserved:
            harness.fail(f"{event} is outside of the arena")
        for other, bytes_ in live.items():
            if start < other + bytes_ and other < start + size:
                harness.fail(f"{event} overlaps an allocation at {other}")
        live[start] = size
        allocated += size
    elif event["action"] == "free_completed":
        if live.pop(start, None) != size:
            harness.fail(f"{event} frees what is not allocated")
        allocated -= size
    highest = max(highest, allocated)
if reserved != arena or segment["total_size"] != arena:
    harness.fail(f"the snapshot reserves {reserved} bytes, the plan {arena}")
if highest != most:
    harness.fail(f"the snapshot allocates at most {highest} bytes, the plan {most}")
blocks = segment["blocks"]
active = {block["address"]: block["size"] for block in blocks if block["state"] == "active_allocated"}
if active != live or allocated != segment["allocated_size"]:
    harness.fail("what is left allocated is not what the segment has")
end = segment["address"]
for block in blocks:
    if block["address"] != end:
        harness.fail(f"{block} does not begin where the block before ends, {end}")
    end += block["size"]
if end != segment["address"] + segment["total_size"]:
    harness.fail("the blocks do not fill the segment")
print(f"{arena} + {plan['host_arena_bytes']} bytes in all reports")
