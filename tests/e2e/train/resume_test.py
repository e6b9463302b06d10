"""Resuming: a run of 12 steps equals 6 + resume + 6, at one and two ranks; other rank counts continue at the right sample."""
import unittest

from train_harness import TrainingTest, read_safetensors


class Resume(TrainingTest):
    def config_of(self, run, step="000006"):
        return self.folder / run / "checkpoints" / step / "pretrained_model" / "train_config.json"

    def weights(self, run, step):
        return read_safetensors(self.folder / run / "checkpoints" / step / "pretrained_model" / "model.safetensors")

    def exact(self, ranks, reference, extra=()):
        base = [*self.arguments_of(reference), *extra]
        _, whole = self.train(base, ranks=ranks)
        stopped = [a for a in base if not a.startswith("--output_dir")] + [f"--output_dir={self.folder}/half", "--steps=6"]
        self.train(stopped, ranks=ranks)
        output, rest = self.train(["--resume=true", f"--config_path={self.config_of('half')}", "--steps=12"], ranks=ranks)
        for rank in range(ranks):
            self.assertEqual(rest[rank], whole[rank][6:], f"rank {rank}: losses, norms and frames after the resume")
        self.assertEqual(self.weights("half", "000012"), self.weights(reference, "000012"), "final weights")
        return output

    def test_one_rank_continues_bit_for_bit(self):
        output = self.exact(1, "single")
        self.assertIn("Resuming data order at epoch 0, sample 24", output)

    def test_two_ranks_continue_bit_for_bit(self):
        self.exact(2, "ddp2_torchrun")

    def test_accumulation_keeps_its_phase(self):
        self.exact(1, "single_accum2")

    def test_schedule_and_own_optimizer_continue(self):
        # Half of the schedule must be that of the whole run: --steps changes the cosine, so the stop comes from a checkpoint.
        arguments = self.arguments_of("presets_off_adamw_cosine")
        _, whole = self.train(arguments)
        _, rest = self.train(["--resume=true", f"--config_path={self.config_of('presets_off_adamw_cosine')}",
                              f"--output_dir={self.folder}/presets_off_adamw_cosine"])
        self.assertEqual(rest[0], whole[0][6:])

    def test_loader_threads_do_not_change_anything(self):
        self.exact(1, "single", extra=["--num_workers=2"])

    def test_later_epochs_resume_in_their_own_order(self):
        arguments = self.arguments_of("order_2ranks_ep2")
        _, whole = self.train(arguments, ranks=2)
        _, rest = self.train(["--resume=true", f"--config_path={self.config_of('order_2ranks_ep2', '000005')}"], ranks=2)
        self.assertEqual([s["index"] for s in rest[0]], [s["index"] for s in whole[0][5:]])
        self.assertEqual([s["index"] for s in rest[1]], [s["index"] for s in whole[1][5:]])
        self.assertEqual(rest, [whole[0][5:], whole[1][5:]])

    def test_another_number_of_ranks_warns_and_continues_at_the_right_sample(self):
        self.train(self.arguments_of("ddp2_torchrun"), ranks=2)
        output, steps = self.train(["--resume=true", f"--config_path={self.config_of('ddp2_torchrun')}"])
        self.assertIn("dp_replicate: 2 -> 1", output)
        self.assertIn("Resuming data order at epoch 0, sample 48", output)
        self.assertRegex(output, r"WARNING .*sample-exact")
        wanted = self.reference("ddp2_to_single_resume6_degree1")["steps_exact_per_rank"]
        self.assertEqual([s["index"] for s in steps[0]], [s["index"] for s in wanted[0]])

    def test_last_folder_and_output_dir_are_accepted_as_well(self):
        self.train([*self.arguments_of("single"), "--steps=2", "--save_freq=1"])
        run = self.folder / "single"
        for way, last, wanted in ((f"--config_path={run}/checkpoints/last", 3, [3]),
                                  (f"--config_path={run}/checkpoints/000002/pretrained_model", 4, [3, 4]),
                                  (f"--output_dir={run}", 5, [5])):
            _, steps = self.train(["--resume=true", way, f"--steps={last}"])
            self.assertEqual([s["step"] for s in steps[0]], wanted, way)

    def test_a_finished_run_has_nothing_to_do(self):
        self.train([*self.arguments_of("single"), "--steps=1"])
        output, steps = self.train(["--resume=true", f"--config_path={self.config_of('single', '000001')}"])
        self.assertEqual(steps, [[]])
        self.assertIn("nothing to do", output)

    def test_an_explicit_learning_rate_wins_after_loading(self):
        self.train([*self.arguments_of("single"), "--steps=2"])
        output, steps = self.train(["--resume=true", f"--config_path={self.config_of('single', '000002')}", "--steps=3", "--optimizer.lr=5e-4"])
        self.assertEqual(steps[0][0]["lr"], 5e-4)
        self.assertIn("optimizer.lr", output)


if __name__ == "__main__":
    unittest.main()
