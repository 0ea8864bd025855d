"""Checks how much of a step's memory lossy residuals save.

lossy_shares.py EXACT.json FEWBIT.json RMM.json BOTH.json: plans of one model, without encodings, with
each encoding, and with both. The shares of the arena that published measurements of RoBERTa report
are lower bounds: 13.8 % for a GELU of 3 bits, 18.6 % for sketches, 32.7 % for both.
"""

import json
import sys


def arena(path):
    with open(path) as file:
        return json.load(file)["device_arena_bytes"]


exact, *encoded = map(arena, sys.argv[1:])
saved = [exact - each for each in encoded]
for bytes, least in zip(saved, (0.138, 0.186, 0.327)):
    assert bytes >= least * exact, (bytes / exact, least)
assert saved[2] >= 0.97 * (saved[0] + saved[1]), saved
