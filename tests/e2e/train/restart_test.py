"""Restarts of the real trainer: a worker is killed, the launcher chooses the newest complete checkpoint, and the run ends as if nothing
had happened."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from train_harness import LAUNCH, PROBE, TIMEOUT_S, TrainingTest, clean_environment


class Restart(TrainingTest):
    def setUp(self):
        super().setUp()
        self.trainer = self.folder / "bin" / "lr-train"  # the launcher knows it by its name
        self.trainer.parent.mkdir()
        shutil.copy(PROBE, self.trainer)
        self.probe = self.folder / "probe"
        self.probe.mkdir()
        self.runtime = tempfile.mkdtemp(prefix="lr-rt-")
        self.addCleanup(shutil.rmtree, self.runtime, ignore_errors=True)

    def arguments(self, *extra):
        base = [a for a in self.arguments_of("ddp2_torchrun") if not a.startswith(("--save_freq", "--output_dir"))]
        return [*base, f"--output_dir={self.folder}/run", *extra]

    def start(self, *trainer, launcher=(), standalone=("--standalone",)):
        self.environment = clean_environment(LR_PROBE_DIR=str(self.probe), XDG_STATE_HOME=str(self.folder / "state"),
                                             XDG_RUNTIME_DIR=self.runtime)
        self.log = open(self.folder / "log", "a+b")
        self.addCleanup(self.log.close)
        process = subprocess.Popen([str(LAUNCH), *standalone, "--nproc-per-node=2", *launcher, str(self.trainer), *trainer],
                                   env=self.environment, cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait()))
        return process

    def output(self):
        return (self.folder / "log").read_text(errors="replace")

    def wait_for(self, condition, process):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline or process.poll() is not None:
                self.fail(f"it did not happen:\n{self.output()[-4000:]}")
            time.sleep(0.005)

    def kill_rank(self, process, rank):
        for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"RANK={rank}".encode() in variables and b"LR_EPOCH=1" in variables:
                os.kill(int(pid), signal.SIGKILL)
                return
        self.fail(f"no process of rank {rank}")

    def steps(self, rank):
        """step -> exact numbers; a step that was trained twice counts as in the last attempt"""
        lines = (self.probe / f"rank{rank}.jsonl").read_text().splitlines()
        return {step["step"]: step for step in map(json.loads, lines)}

    def uninterrupted(self):
        _, steps = self.train([*self.arguments_of("ddp2_torchrun")], ranks=2)
        return [{step["step"]: step for step in rank} for rank in steps]

    def published(self, step):
        return os.path.lexists(self.folder / "run" / "checkpoints" / "last") and \
            int(os.readlink(self.folder / "run" / "checkpoints" / "last")) >= step

    def test_a_killed_worker_costs_the_steps_since_the_checkpoint_and_nothing_else(self):
        wanted = self.uninterrupted()
        process = self.start(*self.arguments("--save_freq=2"), launcher=["--max-restarts=1"])
        self.wait_for(lambda: self.published(2), process)
        self.kill_rank(process, 1)
        self.assertEqual(process.wait(TIMEOUT_S), 0, self.output()[-6000:])
        said = re.search(r"restart 1 of 1: resuming from step (\d+)", self.output())
        self.assertIsNotNone(said, self.output()[-4000:])
        self.assertGreaterEqual(int(said.group(1)), 2)
        self.assertIn(f"Resuming from {self.folder}/run/checkpoints/", self.output())
        for rank in range(2):
            self.assertEqual(self.steps(rank), wanted[rank])
        self.assertEqual(os.readlink(self.folder / "run" / "checkpoints" / "last"), "000012")

    def test_a_damaged_checkpoint_is_skipped_aloud_and_kept(self):
        process = self.start(*self.arguments("--save_freq=2"), launcher=["--max-restarts=1"])
        self.wait_for(lambda: self.published(4), process)
        self.kill_rank(process, 1)
        # The pause before the restart is 0.75 s or more: time to damage the newest one.
        newest = os.readlink(self.folder / "run" / "checkpoints" / "last")
        damaged = self.folder / "run" / "checkpoints" / newest / "pretrained_model" / "model.safetensors"
        os.truncate(damaged, 100)
        self.assertEqual(process.wait(TIMEOUT_S), 0, self.output()[-6000:])
        self.assertRegex(self.output(), rf"checkpoint {newest} is skipped: pretrained_model/model.safetensors has 100 bytes")
        chosen = int(re.search(r"resuming from step (\d+)", self.output()).group(1))
        self.assertLess(chosen, int(newest))

    def test_without_a_checkpoint_the_restart_begins_anew_in_its_own_folder(self):
        wanted = self.uninterrupted()
        process = self.start(*self.arguments("--save_freq=0"), launcher=["--max-restarts=1"])
        self.wait_for(lambda: (self.probe / "rank1.jsonl").exists() and "\n" in (self.probe / "rank1.jsonl").read_text(), process)
        self.kill_rank(process, 1)
        self.assertEqual(process.wait(TIMEOUT_S), 0, self.output()[-6000:])
        self.assertIn("restart 1 of 1: there is no complete checkpoint of this run", self.output())
        for rank in range(2):
            self.assertEqual(self.steps(rank), wanted[rank])

    def test_a_job_that_is_queued_again_goes_on(self):
        """The same command line with the same --rdzv-id, after everything was killed."""
        wanted = self.uninterrupted()
        identity = ["--rdzv-id=job-7"]
        process = self.start(*self.arguments("--save_freq=2"), launcher=identity, standalone=())
        self.wait_for(lambda: self.published(2), process)
        process.kill()
        process.wait()
        again = self.start(*self.arguments("--save_freq=2"), launcher=identity, standalone=())
        self.assertEqual(again.wait(TIMEOUT_S), 0, self.output()[-6000:])
        self.assertRegex(self.output(), r"a run that was started before: resuming from step \d+")
        for rank in range(2):
            self.assertEqual(self.steps(rank), wanted[rank])

    def test_another_run_is_refused_the_folder(self):
        first = self.start(*self.arguments("--save_freq=2", "--steps=2"))
        self.assertEqual(first.wait(TIMEOUT_S), 0, self.output()[-6000:])
        second = self.start(*self.arguments("--save_freq=2", "--steps=2"))
        self.assertEqual(second.wait(TIMEOUT_S), 2, self.output()[-6000:])
        self.assertIn("already exists; continue it with --resume=true", self.output())


if __name__ == "__main__":
    unittest.main()
