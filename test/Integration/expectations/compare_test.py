#!/usr/bin/env python3
# ===- compare_test.py - Faults that compare.py must detect ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Tests compare.py by introducing faults that it must detect."""

import array
import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import compare
import digest
import make_weights

NAME, COUNT = "transformer.h.0.mlp.c_fc.weight", 1500


class Comparison(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "cases").mkdir()
        (self.root / "gradients").mkdir()
        self.data = make_weights.values(NAME, "weight", COUNT)
        self.steps = [
            {"loss": 5.0 - 0.25 * i, "grad_norm": 2.0, "lr": 1e-3} for i in range(3)
        ]
        tensors = {NAME: digest.digest(NAME, self.data, 16)}
        self.write_json("gradients/tiny.json", {"gradients": tensors})
        case = {
            "model": "tiny",
            "compile_flags": ["--clip=on"],
            "steps": self.steps,
            "evaluation": {"first": 5.0, "last": 4.0},
            "weights": tensors,
        }
        self.write_json("cases/tiny.json", case)

    def write_json(self, name, value):
        (self.root / name).write_text(json.dumps(value))

    def compare(self, *flags):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            with contextlib.redirect_stderr(out):
                code = compare.main([str(self.root / "cases/tiny.json"), *flags])
        self.output = out.getvalue()
        return code

    def compare_log(self, steps, evaluation=4.0):
        lines = [{"event": "start"}]
        lines += [{"event": "step", "step": i, **s} for i, s in enumerate(steps)]
        lines += [{"event": "eval", "step": 3, "loss": evaluation}, {"event": "end"}]
        path = self.root / "log.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)) + "\n")
        return self.compare(f"--log={path}")

    def compare_gradients(self, data, name=NAME):
        path = self.root / "g.safetensors"
        make_weights.write_safetensors(path, [(name, [len(data)], data)])
        return self.compare(f"--gradients={path}")

    def changed(self, position, value):
        data = array.array("f", self.data)
        data[position] = value
        return data

    def test_equal_log(self):
        self.assertEqual(self.compare_log(self.steps), 0, self.output)

    def test_wrong_loss(self):
        self.steps[1]["loss"] *= 1 + 1e-5
        self.assertEqual(self.compare_log(self.steps), 1)

    def test_loss_that_is_null(self):
        self.steps[2]["loss"] = None
        self.assertEqual(self.compare_log(self.steps), 1)

    def test_wrong_rate(self):
        self.steps[0]["lr"] *= 1 + 1e-9
        self.assertEqual(self.compare_log(self.steps), 1)

    def test_missing_gradient_norm(self):
        del self.steps[0]["grad_norm"]
        self.assertEqual(self.compare_log(self.steps), 1)

    def test_missing_step(self):
        self.assertEqual(self.compare_log(self.steps[:2]), 1)

    def test_wrong_evaluation(self):
        self.assertEqual(self.compare_log(self.steps, 4.001), 1)

    def test_equal_gradients(self):
        self.assertEqual(self.compare_gradients(self.data), 0, self.output)

    def test_equal_gradients_under_other_names(self):
        for name in ("gradient:" + NAME, NAME.removeprefix("transformer.")):
            self.assertEqual(self.compare_gradients(self.data, name), 0, self.output)

    def test_any_wrong_entry_is_found(self):
        for position in range(0, COUNT, 97):
            wrong = self.data[position] + 0.02
            self.assertEqual(self.compare_gradients(self.changed(position, wrong)), 1)

    def test_swapped_entries_are_found(self):
        data = self.changed(10, self.data[11])
        data[11] = self.data[10]
        self.assertEqual(self.compare_gradients(data), 1)

    def test_nan_is_found(self):
        self.assertEqual(self.compare_gradients(self.changed(700, float("nan"))), 1)

    def test_missing_tensor(self):
        self.assertEqual(self.compare_gradients(self.data, "another"), 1)
        self.assertIn("missing", self.output)

    def test_truncated_file(self):
        path = self.root / "g.safetensors"
        make_weights.write_safetensors(path, [(NAME, [COUNT], self.data)])
        path.write_bytes(path.read_bytes()[:-3])
        self.assertEqual(self.compare(f"--gradients={path}"), 2)

    def test_newest_checkpoint_is_compared(self):
        for step, data in ((9, self.changed(3, 9.0)), (20, self.data)):
            checkpoint = self.root / f"saved/checkpoint-{step}"
            checkpoint.mkdir(parents=True)
            path = checkpoint / "model.safetensors"
            make_weights.write_safetensors(path, [(NAME, [COUNT], data)])
        code = self.compare(f"--weights={self.root / 'saved'}")
        self.assertEqual(code, 0, self.output)

    def test_nothing_to_compare(self):
        self.assertEqual(self.compare(), 2)


if __name__ == "__main__":
    unittest.main()
