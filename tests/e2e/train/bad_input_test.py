"""The user's mistakes: one clear line, the right exit code, nothing half-written."""
import json
import shutil
import unittest

from train_harness import BIN, DATA, TrainingTest


class BadInput(TrainingTest):
    def refuse(self, code, *facts, change=(), ranks=1, drop=(), **environment):
        arguments = [a for a in self.arguments_of("single") if not a.startswith(tuple(drop))] + ["--steps=1", *change]
        output, _ = self.train(arguments, ranks=ranks, expect=code, program=BIN / "lr-train", **environment)
        for fact in facts:
            self.assertIn(fact, output)
        self.assertNotIn("Traceback", output)
        self.assertFalse((self.folder / "single" / "checkpoints").exists(), "nothing is half-written")
        return output

    def copy_of_dataset(self, name="dataset_reach"):
        copy = self.folder / "data"
        shutil.copytree(DATA / name, copy)
        return copy

    def test_unknown_flag_names_the_nearest(self):
        self.refuse(2, "--batchsize", "batch_size", change=["--batchsize=4"])

    def test_bad_value_names_flag_value_and_type(self):
        self.refuse(2, "steps", "1e5", change=["--steps=1e5"])

    def test_missing_dataset_lists_the_places(self):
        self.refuse(2, "no_such_dataset", drop=["--dataset.root", "--dataset.repo_id"], change=["--dataset.repo_id=lr/no_such_dataset"],
                    HF_LEROBOT_HOME=str(self.folder / "nowhere"))

    def test_old_dataset_version_names_the_conversion(self):
        data = self.copy_of_dataset()
        info = json.loads((data / "meta/info.json").read_text())
        info["codebase_version"] = "v2.1"
        (data / "meta/info.json").write_text(json.dumps(info))
        self.refuse(2, "v2.1", "convert_dataset_v21_to_v30", change=[f"--dataset.root={data}"])

    def test_missing_video_names_the_file(self):
        data = self.copy_of_dataset()
        shutil.rmtree(data / "videos/observation.images.top")
        self.refuse(2, "observation.images.top", change=[f"--dataset.root={data}"])

    def test_wrong_shape_in_info_names_column_and_sizes(self):
        data = self.copy_of_dataset()
        info = json.loads((data / "meta/info.json").read_text())
        info["features"]["observation.state"]["shape"] = [7]
        (data / "meta/info.json").write_text(json.dumps(info))
        self.refuse(2, "observation.state", "7", "6", change=[f"--dataset.root={data}"])

    def test_existing_output_directory_is_refused_and_untouched(self):
        (self.folder / "single").mkdir()
        (self.folder / "single" / "mine.txt").write_text("keep")
        self.refuse(2, "single", "--resume")
        self.assertEqual([p.name for p in (self.folder / "single").iterdir()], ["mine.txt"])

    def test_unreadable_checkpoint_names_file_and_reason(self):
        self.train([*self.arguments_of("single"), "--steps=1"])
        step = self.folder / "single/checkpoints/000001"
        (step / "pretrained_model/model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{broken}")
        output, _ = self.train(["--resume=true", f"--config_path={step}", "--steps=2"], expect=2)
        self.assertIn("model.safetensors", output)

    def test_features_of_later_releases_are_refused_by_name(self):
        for flag in ("--accelerator.mixed_precision=fp16", "--checkpoint_format=dcp", "--ema.enable=true",
                     "--dataset.streaming=true", "--wandb.enable=true", "--policy.type=diffusion"):
            with self.subTest(flag=flag):
                drop = [flag.split("=")[0]] if flag.startswith("--policy") else []
                if flag == "--policy.type=diffusion":
                    drop = ["--policy."]
                self.refuse(2, flag.split("=")[0].lstrip("-").split(".")[-1], drop=drop, change=[flag])

    def test_foreign_configuration_is_refused_with_78_and_can_be_acknowledged(self):
        self.refuse(78, "ACCELERATE_USE_FSDP", "--parallelism.dp_shard", "LEROBOT_ALLOW_ACCELERATE_ENV", ACCELERATE_USE_FSDP="true")
        output, steps = self.train([*self.arguments_of("single"), "--steps=1"], ACCELERATE_USE_FSDP="true", LEROBOT_ALLOW_ACCELERATE_ENV="1")
        self.assertEqual(len(steps[0]), 1)
        self.assertIn("ACCELERATE_USE_FSDP", output)
        step = json.loads((self.folder / "single/checkpoints/000001/training_state/training_step.json").read_text())
        self.assertIn("ACCELERATE_USE_FSDP", json.dumps(step["environment_overrides_acknowledged"]))

    def test_degrees_that_do_not_fit_echo_all(self):
        output = self.refuse(2, "dp_replicate=3", "WORLD_SIZE=2", change=["--parallelism.dp_replicate=3"], ranks=2)
        said = [line for line in output.splitlines() if line.startswith("[default") and "WORLD_SIZE=2" in line]
        self.assertLessEqual(len(said), 1, "not once per rank; not at all by a first rank that was stopped before it could speak")
        reported = [line for line in output.splitlines() if line.startswith("Most likely cause: rank ")]
        self.assertEqual(len(reported), 1)
        self.assertIn("WORLD_SIZE=2", reported[0], "whichever rank ended first, the launcher knows the reason")

    def test_some_launcher_variables_without_the_others(self):
        self.refuse(2, "WORLD_SIZE", RANK="0", MASTER_ADDR="127.0.0.1")

    def test_help_shows_flags_with_defaults(self):
        output, _ = self.train(["--help"])
        for text in ("--batch_size", "--dataset.repo_id", "--policy.type", "--save_freq", "20000"):
            self.assertIn(text, output)


if __name__ == "__main__":
    unittest.main()
