"""A run's output folder against the one the reference trainer wrote for the same command: file by file, key by key.

Intended differences, all listed here: training_state/manifest.json and the extra keys of training_step.json (ours; the
reference ignores both), the output folder's lock file, and rng_state's Python and NumPy words (freshly seeded).
"""
import json
import os
import stat
import unittest

import numpy_free
from train_harness import DATA, TrainingTest, read_safetensors

DTYPES = {"F32": "float32", "I64": "int64", "U8": "uint8", "BOOL": "bool", "F16": "float16", "BF16": "bfloat16"}
OURS = {"training_state/manifest.json"}
OUR_STEP_KEYS = {"mixed_precision", "dataset_frames", "dataset_episodes", "sampler_positions"}


class CheckpointTree(TrainingTest):
    def scrub(self, value):
        return json.loads(json.dumps(value).replace(str(DATA), "<fixtures>").replace(str(self.folder), "<runs>"))

    def check_json(self, path, name, wanted):
        text = path.read_text()
        ours = self.scrub(json.loads(text))
        if name.endswith("training_step.json"):
            self.assertEqual(set(ours) - set(wanted), OUR_STEP_KEYS)
            ours = {k: v for k, v in ours.items() if k in wanted}
        self.assertEqual(json.dumps(ours, indent=1), json.dumps(wanted, indent=1), name)  # text: order and number types too
        self.assertFalse(text.endswith("\n"), name)
        self.assertEqual(text.split("\n")[1].index('"' if text[0] == "{" else "{"), 2 if "processor.json" in name else 4, name)

    def check_tensors(self, path, name, wanted, tolerance):
        ours = read_safetensors(path)
        self.assertEqual(sorted(ours), sorted(wanted["tensors"]), name)
        for key, theirs in wanted["tensors"].items():
            dtype, shape, raw = ours[key]
            if isinstance(theirs, list):
                self.assertEqual([shape, DTYPES[dtype]], theirs, f"{name} {key}")
                continue
            self.assertEqual((shape, DTYPES[dtype]), (theirs["shape"], theirs["dtype"]), f"{name} {key}")
            if name.endswith("model.safetensors") and dtype == "F32":
                total, absolute = numpy_free.sums_float32(raw)
                # Relative, plus ten single Adam steps: the signs of tiny gradients follow rounding.
                allowed = tolerance * theirs["abs_sum"] + 10 * 1e-5
                self.assertLessEqual(abs(total - theirs["sum"]), allowed, f"{name} {key}: sum")
                self.assertLessEqual(abs(absolute - theirs["abs_sum"]), allowed, f"{name} {key}: abs_sum")

    def compare(self, run, tolerance=2e-3):
        self.train(self.arguments_of(run), ranks=2 if run.startswith("ddp2") else 1)
        wanted = json.loads((DATA / "train_runs" / run / "tree.json").read_text())
        root = self.folder / run
        found = {p.relative_to(root).as_posix() for p in (root / "checkpoints").rglob("*") if p.is_file() and "last" not in p.parts}
        ours = {f"checkpoints/{step}/{name}" for step in ("000006", "000012") for name in OURS}
        self.assertEqual(found - ours, set(wanted) - {"checkpoints/last"})
        self.assertEqual(os.readlink(root / "checkpoints/last"), wanted["checkpoints/last"]["symlink_to"])
        for name, entry in wanted.items():
            path = root / name
            with self.subTest(file=name):
                if "json" in entry:
                    self.check_json(path, name, entry["json"])
                elif "tensors" in entry:
                    self.check_tensors(path, name, entry, tolerance)
                    self.assertEqual(path.stat().st_size, entry["size"], f"{name}: size")
                if path.is_file():
                    self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o444, 0o444, f"{name}: readable by all")

    def test_single(self):
        self.compare("single")

    def test_two_ranks(self):
        self.compare("ddp2_torchrun")

    def test_with_a_schedule(self):
        self.compare("presets_off_adamw_cosine", tolerance=0.1)  # rate 1e-3: Adam turns rounding noise into steps


if __name__ == "__main__":
    unittest.main()
