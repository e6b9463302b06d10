"""The documented command lines (spec 1.9) as far as the launcher goes: a small program stands in for the trainer, under
the documented names. lerobot-train is the script that is installed: shell and Python text alike, marked as ours."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from launch_harness import LAUNCH, LaunchTest, free_port

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAINER = f"#!{sys.executable}\n" + """
import json, os, sys
rank = os.environ["RANK"]
with open(f"seen.{rank}", "w") as file:
    json.dump({"arguments": sys.argv[1:], "variables": dict(os.environ)}, file)
"""
FLAGS = ["--dataset.repo_id=me/my_dataset", "--policy.type=act", "--policy.repo_id=me/my_trained_policy",
         "--output_dir=outputs/train/act_multi_gpu", "--job_name=act_multi_gpu", "--trackio.enable=true"]
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_NAME")


class DocumentedLines(LaunchTest):
    def setUp(self):
        super().setUp()
        bin = self.folder / "bin"
        bin.mkdir()
        script = (ROOT / "tools/native_script.in").read_text().replace("@NATIVE@", "lr-train")
        for name, text in (("lerobot-train", script), ("lr-train", TRAINER)):
            (bin / name).write_text(text)
            (bin / name).chmod(0o755)
        for name in ("torchrun", "accelerate", "accelerate-launch", "lr-launch"):
            (bin / name).symlink_to(LAUNCH)
        self.environment["PATH"] = f"{bin}:{os.environ['PATH']}"
        self.environment["HF_HOME"] = str(self.folder / "hf")

    def line(self, text, *arguments, expect=0, env=None):
        """Runs a line of the documentation in a shell, as people do; returns (what each rank saw, stderr)."""
        for old in self.folder.glob("seen.*"):
            old.unlink()
        result = subprocess.run(["bash", "-c", text + ' "$@"', "bash", *arguments], cwd=self.folder, env={**self.environment, **(env or {})},
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return self.seen(), result.stderr

    def seen(self):
        files = sorted(self.folder.glob("seen.*"), key=lambda path: int(path.suffix[1:]))
        return [json.loads(path.read_text()) for path in files]

    def check_two_ranks(self, seen, flags=FLAGS):
        self.assertEqual(len(seen), 2)
        for rank, worker in enumerate(seen):
            self.assertEqual(worker["arguments"], list(flags))
            self.assertEqual([worker["variables"][name] for name in RANKS], [str(rank), str(rank), "2", "2", "0", "default"])
            self.assertTrue(worker["variables"]["LR_CONTROL_SOCKET"], "it is treated as our trainer")

    def test_k1(self):
        for launcher in ("torchrun", "lr-launch"):
            seen, _ = self.line(f"{launcher} --nproc-per-node=2 $(which lerobot-train)", *FLAGS)
            self.check_two_ranks(seen)

    def test_k2(self):
        for launcher in ("accelerate launch", "accelerate-launch", "lr-launch launch", "lr-launch --dialect=accelerate"):
            seen, err = self.line(f"{launcher} --num_processes=2 $(which lerobot-train)", *FLAGS)
            self.check_two_ranks(seen)
            self.assertEqual(err, "", "nothing to complain about")
            self.assertEqual(seen[0]["variables"]["OMP_NUM_THREADS"], "1")

    def test_k2_with_the_variables_that_every_accelerate_launch_sets(self):
        neutral = {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "NO", "ACCELERATE_DYNAMO_MODE": "default",
                   "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False", "ACCELERATE_DYNAMO_USE_DYNAMIC": "False"}
        seen, err = self.line("accelerate launch --num_processes=2 --mixed_precision=no $(which lerobot-train)", *FLAGS, env=neutral)
        self.check_two_ranks(seen)
        self.assertEqual(err, "")

    def test_k3(self):
        flags = ["--batch_size=8", "--accelerator.gradient_accumulation.steps=4"]
        seen, _ = self.line("torchrun --nproc-per-node=2 $(which lerobot-train)", *flags)
        self.check_two_ranks(seen, flags)

    def two_machines(self, line):
        """The same line on two launchers of this machine, `{}` being the machine's index."""
        runs = [subprocess.Popen(["bash", "-c", line.format(index)], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for index in (1, 0)]
        for run in runs:
            out, err = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 0, out + err)
        return [[worker["variables"][name] for name in RANKS[:5]] for worker in self.seen()]

    def test_k7_without_naming_a_backend(self):
        expected = [[str(rank), str(rank % 2), "4", "2", str(rank // 2)] for rank in range(4)]
        port = free_port()
        self.assertEqual(self.two_machines(f"torchrun --nnodes=2 --node-rank={{}} --nproc-per-node=2 --rdzv-endpoint=127.0.0.1:{port} lerobot-train"),
                         expected)
        for path in self.folder.glob("seen.*"):
            path.unlink()
        port = free_port()
        self.assertEqual(self.two_machines(f"accelerate launch --num_machines=2 --num_processes=4 --machine_rank={{}} --main_process_ip=127.0.0.1 "
                                           f"--main_process_port={port} lerobot-train"), expected)

    def test_k12_configuration_is_refused(self):
        seen, err = self.line("accelerate launch --config_file some.yaml lerobot-train", *FLAGS, expect=78)
        self.assertEqual(seen, [])
        self.assertIn("--config_file=some.yaml: configuration files are not read", err)
        _, err = self.line("accelerate config", expect=78)
        self.assertIn("--parallelism.*", err)
        _, err = self.line("accelerate launch --use_fsdp --fsdp_sharding_strategy 1 --mixed_precision bf16 --fp8_use_autocast_during_eval "
                           "--gradient_accumulation_steps=4 lerobot-train", expect=78)
        for replacement in ("--parallelism.dp_shard=N", "--accelerator.mixed_precision", "--accelerator.gradient_accumulation.steps"):
            self.assertIn(replacement, err)

    def test_default_configuration_file_is_ignored_in_one_line(self):
        config = self.folder / "hf/accelerate/default_config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("num_processes: 7\n")
        seen, err = self.line("accelerate launch --num_processes=2 lerobot-train", *FLAGS)
        self.check_two_ranks(seen)
        self.assertEqual(err, f"lr-launch: note: {config} is ignored: configuration files of accelerate are not read\n")

    def test_arithmetic_of_machines(self):
        _, err = self.line("accelerate launch --num_machines=2 --num_processes=3 --machine_rank=0 --main_process_ip=127.0.0.1 lerobot-train", expect=2)
        self.assertIn("3 / 2 machines = 1, 1 left over", err)

    def test_quiet_keeps_the_code(self):
        _, err = self.line("accelerate launch -q --num_processes=1 --no_python /bin/sh -c 'exit 7'", expect=7)
        self.assertNotIn("FAILED", err)


if __name__ == "__main__":
    unittest.main()
