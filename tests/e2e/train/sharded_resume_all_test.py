"""All layouts of 4 ranks in all formats, resumed by all layouts: the pairs that the quick test leaves out."""
import unittest

from sharded_run import LAYOUTS, ShardedRun


class ShardedResumeAll(ShardedRun):
    def test_four_ranks(self):
        self.matrix(4, {source: list(LAYOUTS[4]) for source in self.sources(4)})


if __name__ == "__main__":
    unittest.main()
