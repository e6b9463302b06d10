"""What the tests of sharded checkpoints share: short runs in any layout and format, and their continuation."""
from train_harness import TrainingTest

SAVED, LAST = 2, 4
FORMATS = ("safetensors", "dcp", "safetensors_dcp")
LAYOUTS = {1: {"alone": (1, 1)}, 2: {"ddp": (2, 1), "fsdp": (1, 2)}, 4: {"ddp": (4, 1), "fsdp": (1, 4), "hsdp": (2, 2)}}


def degrees(layout):
    return [f"--parallelism.dp_replicate={layout[0]}", f"--parallelism.dp_shard={layout[1]}"]


class ShardedRun(TrainingTest):
    def base(self, name):
        few = [a for a in self.arguments_of("ddp2_torchrun") if not a.startswith(("--output_dir", "--steps", "--save_freq"))]
        return [*few, f"--steps={LAST}", f"--save_freq={SAVED}", f"--output_dir={self.folder}/{name}"]

    def step_of(self, name, step=SAVED):
        return self.folder / name / "checkpoints" / f"{step:06d}"

    def run_whole(self, name, ranks, layout, checkpoint_format="safetensors", extra=()):
        _, steps = self.train([*self.base(name), *degrees(layout), f"--checkpoint_format={checkpoint_format}", *extra], ranks=ranks)
        return [[s["loss"] for s in rank] for rank in steps]

    def resume(self, name, ranks, layout, extra=()):
        # What is saved afterwards may be in any format that the new layout has.
        output, steps = self.train(["--resume=true", f"--config_path={self.step_of(name)}", *degrees(layout), "--save_checkpoint=false",
                                    "--checkpoint_format=safetensors", *extra], ranks=ranks)
        return output, [[s["loss"] for s in rank] for rank in steps]

    def assert_continues(self, ours, whole, exact):
        wanted = [rank[SAVED:] for rank in whole]
        if exact:
            self.assertEqual(ours, wanted)
            return 0.0
        self.assertEqual([len(rank) for rank in ours], [len(rank) for rank in wanted])
        worst = max(abs(a - b) / abs(b) for mine, theirs in zip(ours, wanted) for a, b in zip(mine, theirs))
        self.assertLessEqual(worst, 1e-6)
        return worst

    def sources(self, ranks):
        return [(layout, saved_as) for layout, degree in LAYOUTS[ranks].items() for saved_as in (FORMATS if degree[1] > 1 else FORMATS[:1])]

    def matrix(self, ranks, targets_of):
        """`targets_of`: (layout, format) that saves -> the layouts that resume it."""
        worst = 0.0
        for (source, checkpoint_format), targets in targets_of.items():
            saved_as = LAYOUTS[ranks][source]
            name = f"{source}_{checkpoint_format}"
            whole = self.run_whole(name, ranks, saved_as, checkpoint_format)
            for target in targets:
                layout = LAYOUTS[ranks][target]
                with self.subTest(ranks=ranks, saved=name, resumed=target):
                    output, rest = self.resume(name, ranks, layout)
                    worst = max(worst, self.assert_continues(rest, whole, exact=saved_as == layout))
                    if saved_as != layout:
                        self.assertRegex(output, "Changed since the checkpoint: dp_(shard|replicate): ")
        print(f"{ranks} ranks: largest relative loss difference after a change of layout: {worst:.2e}")
