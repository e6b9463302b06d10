"""What lr-train publishes, by a stand-in for `hf`: the whole model whatever the checkpoints hold, once at the end or after
saves; what fails ends no training, and what to type later is said."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

from hub_stand_in import write_hf
from train_harness import LAUNCH, PROBE, TIMEOUT_S, TrainingTest, clean_environment, read_safetensors

PUBLISHED = ["README.md", "config.json", "model.safetensors", "policy_postprocessor.json",
             "policy_postprocessor_step_0_unnormalizer_processor.safetensors", "policy_preprocessor.json",
             "policy_preprocessor_step_3_normalizer_processor.safetensors", "train_config.json"]


class PublishTest(TrainingTest):
    def setUp(self):
        super().setUp()
        (self.folder / "tmp").mkdir()
        self.hub = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HF_TOKEN": "hf_secret", "HOME": str(self.folder),
                    "HF_ENDPOINT": "http://hub.example", "TMPDIR": str(self.folder / "tmp")}
        self.out = self.folder / "run"
        self.base = [a for a in self.arguments_of("ddp2_torchrun")
                     if not a.startswith(("--output_dir", "--steps", "--save_freq", "--policy.push_to_hub"))]

    def arguments(self, *more, steps=2, explicit=True):
        return [*self.base, f"--steps={steps}", f"--save_freq={steps}", f"--output_dir={self.out}", "--policy.repo_id=me/act",
                *(["--policy.push_to_hub=true"] if explicit else []), *more]

    def publish(self, *more, ranks=1, expect=0, explicit=True, steps=2, **environment):
        output, trained = self.train(self.arguments(*more, steps=steps, explicit=explicit), ranks=ranks, expect=expect,
                                     **{**self.hub, **environment})
        self.assertNotIn("hf_secret", output)
        self.assertEqual([len(rank) for rank in trained], [steps] * ranks)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return output

    def model_of(self, step):
        return self.out / f"checkpoints/{step:06d}/pretrained_model"

    def assert_published(self):
        self.assertEqual(sorted((self.folder / "files").read_text().split()), PUBLISHED)
        return read_safetensors(self.folder / "uploaded/model.safetensors")

    def test_the_last_checkpoint_is_pushed_at_the_end_by_default(self):
        write_hf(self.folder, "exit 0")
        output = self.publish("--policy.private=true", ranks=2, explicit=False)
        self.assertIn("Model pushed to http://hub.example/me/act", output)
        self.assertRegex((self.folder / "arguments").read_text(), r"^upload me/act \S+ \. --repo-type model .*--private$")
        self.assertEqual(self.assert_published(), read_safetensors(self.model_of(2) / "model.safetensors"))

    def test_shards_alone_are_gathered_for_it(self):
        write_hf(self.folder, "exit 0")
        layout = ["--parallelism.dp_replicate=1", "--parallelism.dp_shard=2"]
        self.publish(*layout, "--checkpoint_format=dcp", ranks=2)
        self.assertFalse((self.model_of(2) / "model.safetensors").exists())
        gathered = self.assert_published()
        self.assertFalse((self.out / "to_publish").exists())
        self.out = self.folder / "both"
        self.publish(*layout, "--checkpoint_format=safetensors_dcp", ranks=2)
        self.assertEqual(gathered, read_safetensors(self.model_of(2) / "model.safetensors"))

    def test_without_checkpoints_the_model_is_kept_when_the_upload_fails(self):
        write_hf(self.folder, "exit 1")
        output = self.publish("--save_checkpoint=false", expect=74)
        kept = self.out / "to_publish/pretrained_model"
        self.assertIn(f"lerobot-convert-dcp --checkpoint_dir={kept} --push_to_hub=me/act", output)
        self.assertTrue((kept / "model.safetensors").exists())

    def test_a_failure_is_74_only_for_those_who_asked_in_so_many_words(self):
        write_hf(self.folder, "echo 401 Unauthorized >&2; exit 1")
        for explicit, code in ((True, 74), (False, 0)):
            with self.subTest(explicit=explicit):
                self.out = self.folder / f"run{code}"
                output = self.publish(ranks=2, explicit=explicit, expect=code)
                self.assertIn("401 Unauthorized", output)
                self.assertIn(f"lerobot-convert-dcp --checkpoint_dir={self.model_of(2)} --push_to_hub=me/act", output)
                self.assertTrue((self.model_of(2) / "model.safetensors").exists())

    def test_what_is_missing_is_said_before_the_first_step(self):
        output = self.publish(expect=74, HF_HUB_OFFLINE="1")
        warning = output.index("nothing will be published as things are: ")
        self.assertLess(warning, output.index("Effective batch size"))
        self.assertIn("HF_HUB_OFFLINE", output[warning:])

    def test_checkpoints_are_published_beside_the_training(self):
        write_hf(self.folder, f"echo $(readlink -f $3/model.safetensors) >> {self.folder}/order")
        self.publish("--save_checkpoint_to_hub=true", "--save_freq=2", steps=6)
        order = [pathlib.Path(line).parts[-3] for line in (self.folder / "order").read_text().split()]
        self.assertEqual(order[0], "000002")
        self.assertEqual(order[-1], "000006")
        self.assertEqual(order, sorted(set(order)))

    def test_a_signal_ends_a_hanging_upload_and_nothing_else_is_lost(self):
        write_hf(self.folder, f"touch {self.folder}/hanging; exec sleep 1000")
        run = subprocess.Popen([LAUNCH, "--standalone", "--nproc-per-node=2", "--no-python", PROBE, *self.arguments()],
                               env=clean_environment(LR_PROBE_DIR=str(self.folder), XDG_STATE_HOME=str(self.folder / "state"), **self.hub),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        limit = time.monotonic() + TIMEOUT_S
        while not (self.folder / "hanging").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        output, _ = run.communicate(timeout=TIMEOUT_S)
        self.assertNotEqual(run.returncode, 0, output)
        self.assertIn(f"lerobot-convert-dcp --checkpoint_dir={self.model_of(2)} --push_to_hub=me/act", output)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
