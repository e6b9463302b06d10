"""Sharded training of the real trainer: the recorded DDP runs with other layouts, mixed precision, what is refused."""
import unittest

from train_harness import TrainingTest

SHARDED = ["--save_checkpoint=false"]


class Sharded(TrainingTest):
    def losses(self, steps):
        return [[step["loss"] for step in rank] for rank in steps]

    def assert_close(self, ours, wanted, tolerance):
        worst = max(abs(a - b) / abs(b) for mine, theirs in zip(ours, wanted) for a, b in zip(mine, theirs))
        print(f"largest relative loss difference: {worst:.2e}")
        self.assertEqual([len(rank) for rank in ours], [len(rank) for rank in wanted])
        self.assertLessEqual(worst, tolerance)

    def test_two_shards_train_like_the_recorded_two_replicas(self):
        output, steps = self.train([*self.arguments_of("ddp2_torchrun"), *SHARDED, "--parallelism.dp_shard=2"], ranks=2)
        self.assert_close(self.losses(steps), self.losses(self.reference("ddp2_torchrun")["steps_exact_per_rank"]), 2e-4)
        self.assertIn("(topology: dp_replicate=1, dp_shard=2)", output)
        self.assertIn("blocks of ACTEncoderLayer, ACTDecoderLayer and the root", output)

    def test_accumulation_over_shards(self):
        _, steps = self.train([*self.arguments_of("ddp2_accum2"), *SHARDED, "--parallelism.dp_shard=-1"], ranks=2)
        self.assert_close(self.losses(steps), self.losses(self.reference("ddp2_accum2")["steps_exact_per_rank"]), 2e-4)

    def test_accumulation_in_the_shards_gives_the_same(self):
        arguments = [*self.arguments_of("ddp2_accum2"), *SHARDED, "--parallelism.dp_shard=-1"]
        output, whole = self.train(arguments, ranks=2)
        self.assertIn("Gradients between updates: whole on every rank", output)
        output, shards = self.train([*arguments, "--accelerator.gradient_accumulation.mode=shard", "--output_dir=shards"], ranks=2)
        self.assertIn("Gradients between updates: reduced into the shards", output)
        self.assert_close(self.losses(shards), self.losses(whole), 1e-6)

    def test_two_replicas_of_two_shards_train_like_four_replicas(self):
        few = [*self.arguments_of("ddp2_torchrun"), *SHARDED, "--steps=3"]
        _, replicas = self.train(few, ranks=4)
        _, mesh = self.train([*few, "--parallelism.dp_replicate=2", "--parallelism.dp_shard=2", "--output_dir=mesh"], ranks=4)
        self.assert_close(self.losses(mesh), self.losses(replicas), 1e-5)

    def test_bf16_stays_near(self):
        bf16 = [*self.arguments_of("ddp2_torchrun"), *SHARDED, "--accelerator.mixed_precision=bf16"]
        wanted = self.losses(self.reference("ddp2_torchrun")["steps_exact_per_rank"])
        output, steps = self.train([*bf16, "--parallelism.dp_shard=2"], ranks=2)
        self.assertIn("Precision: autocast BFloat16, parameters BFloat16, reduction BFloat16, outputs BFloat16", output)
        self.assert_close(self.losses(steps), wanted, 3e-2)
        _, steps = self.train([*bf16, "--output_dir=replicas"], ranks=2)
        self.assert_close(self.losses(steps), wanted, 3e-2)

    def test_unknown_blocks_are_named(self):
        output, _ = self.train([*self.arguments_of("single"), *SHARDED, "--parallelism.dp_shard=-1",
                                '--accelerator.fsdp.wrap_modules=["ACTLayer"]'], expect=2)
        self.assertIn("ACTLayer", output)
        self.assertIn("ACTDecoderLayer", output)


if __name__ == "__main__":
    unittest.main()
