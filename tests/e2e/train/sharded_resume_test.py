"""Every layout of 2 and of 4 ranks, saved in every format, goes on in another layout or its own as if nothing had happened.

At 4 ranks each layout and format is resumed by one layout, so that each of them appears on both sides; all pairs are the slow
label's (sharded_resume_all_test.py).
"""
import unittest

from sharded_run import LAYOUTS, ShardedRun

AT_FOUR = {("ddp", "safetensors"): ["hsdp"], ("fsdp", "safetensors"): ["ddp"], ("fsdp", "dcp"): ["fsdp"], ("fsdp", "safetensors_dcp"): ["hsdp"],
           ("hsdp", "safetensors"): ["fsdp"], ("hsdp", "dcp"): ["hsdp"], ("hsdp", "safetensors_dcp"): ["ddp"]}


class ShardedResume(ShardedRun):
    def test_two_ranks(self):
        self.matrix(2, {source: list(LAYOUTS[2]) for source in self.sources(2)})

    def test_four_ranks(self):
        self.assertEqual(set(AT_FOUR), set(self.sources(4)))
        self.matrix(4, AT_FOUR)


if __name__ == "__main__":
    unittest.main()
