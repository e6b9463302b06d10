"""Every layout of 2 and of 4 ranks is resumed from every other one, in every format."""
import unittest

from sharded_run import FORMATS, LAYOUTS, ShardedRun


class ShardedResume(ShardedRun):
    def matrix(self, ranks):
        worst = 0.0
        for source, saved_as in LAYOUTS[ranks].items():
            for checkpoint_format in FORMATS if saved_as[1] > 1 else FORMATS[:1]:
                name = f"{source}_{checkpoint_format}"
                whole = self.run_whole(name, ranks, saved_as, checkpoint_format)
                for target, layout in LAYOUTS[ranks].items():
                    with self.subTest(ranks=ranks, saved=name, resumed=target):
                        output, rest = self.resume(name, ranks, layout)
                        worst = max(worst, self.assert_continues(rest, whole, exact=saved_as == layout))
                        if saved_as != layout:
                            self.assertIn(f"dp_shard: {saved_as[1]} -> {layout[1]}", output)
        print(f"{ranks} ranks: largest relative loss difference after a change of layout: {worst:.2e}")

    def test_every_layout_of_two_ranks_resumes_every_other(self):
        self.matrix(2)

    def test_every_layout_of_four_ranks_resumes_every_other(self):
        self.matrix(4)


if __name__ == "__main__":
    unittest.main()
