"""Requests to a running trainer: signals to one rank, lr-ctl, a lost control stream; all ranks act at one step."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from train_harness import BIN, LAUNCH, TIMEOUT_S, TrainingTest, clean_environment


class Requests(TrainingTest):
    STEPS = 100000

    def start(self, ranks, *extra, launcher=True):
        arguments = [str(BIN / "lr-train"), *[a for a in self.arguments_of("single") if not a.startswith(("--steps", "--save_freq"))],
                     f"--steps={self.STEPS}", "--save_freq=0", "--log_freq=1", *extra]
        if launcher:
            arguments = [str(LAUNCH), "--standalone", f"--nproc-per-node={ranks}", *arguments]
        self.log = open(self.folder / "log", "w+b")
        self.addCleanup(self.log.close)
        self.runtime = tempfile.mkdtemp(prefix="lr-rt-")
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.runtime], check=False))
        self.environment = clean_environment(XDG_STATE_HOME=str(self.folder / "state"), XDG_RUNTIME_DIR=self.runtime)
        process = subprocess.Popen(arguments, env=self.environment, cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait()))
        return process

    def output(self):
        return (self.folder / "log").read_text(errors="replace")

    def wait_for(self, pattern, process=None, count=1):
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if len(re.findall(pattern, self.output())) >= count:
                return
            if process is not None and process.poll() is not None:
                break
            time.sleep(0.05)
        self.fail(f"no '{pattern}' in:\n{self.output()[-4000:]}")

    def workers(self, process):
        """pid -> RANK of the launcher's children that are lr-train."""
        found = {}
        for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            try:
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "lr-train":
                    continue
                variables = dict(v.split("=", 1) for v in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in v)
            except OSError:
                continue
            found[int(pid)] = int(variables["RANK"])
        return found

    def checkpoints(self):
        folder = self.folder / "single" / "checkpoints"
        return sorted(p.name for p in folder.iterdir() if not p.is_symlink()) if folder.exists() else []

    def lr_ctl(self, *arguments, expect=0):
        done = subprocess.run([str(BIN / "lr-ctl"), *arguments], env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout

    def test_a_signal_to_one_rank_saves_one_step_on_all_and_goes_on(self):
        process = self.start(2)
        self.wait_for(r" step:3 ", process)
        pid = next(pid for pid, rank in self.workers(process).items() if rank == 1)
        os.kill(pid, signal.SIGUSR1)
        self.wait_for(r"All ranks agreed at step \d+: save a checkpoint\.", process)
        self.wait_for(r"Checkpoint of step \d+ is complete", process)
        step = int(re.search(r"agreed at step (\d+)", self.output()).group(1))
        self.assertEqual(self.checkpoints(), [f"{step:06d}"])
        self.wait_for(rf" step:{step + 2} ", process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), 143)

    def test_sigterm_to_the_launcher_saves_and_stops_with_143(self):
        process = self.start(2)
        self.wait_for(r" step:2 ", process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), 143, self.output()[-3000:])
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertIn("save a checkpoint and stop", self.output())

    def test_ctrl_c_without_a_launcher(self):
        process = self.start(1, launcher=False)
        self.wait_for(r" step:2 ", process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT_S), 130, self.output()[-3000:])
        self.assertEqual(len(self.checkpoints()), 1)

    def test_lr_ctl_status_and_checkpoint(self):
        process = self.start(2)
        self.wait_for(r" step:2 ", process)
        runs = json.loads(self.lr_ctl("status", "--json"))
        text = self.lr_ctl("status")
        self.assertRegex(text, r"(?i)running")
        run = re.search(r'"run_id": ?"([^"]+)"', json.dumps(runs)).group(1)
        detail = self.lr_ctl("status", run)
        self.assertRegex(detail, r"(?i)step")
        result = self.lr_ctl("checkpoint", run, "--wait", "--json")
        self.assertIn("complete", result)
        self.assertEqual(len(self.checkpoints()), 1)
        self.lr_ctl("checkpoint", run, "--stop", "--wait")
        self.assertEqual(process.wait(TIMEOUT_S), 0, self.output()[-3000:])
        self.assertEqual(len(self.checkpoints()), 2)
        self.assertRegex(self.lr_ctl("status", run), r"(?i)(finished|succeeded|stopped|closed|done)")

    def test_usr2_to_one_rank_saves_and_ends_the_run_well(self):
        process = self.start(2)
        self.wait_for(r" step:2 ", process)
        pid = next(pid for pid, rank in self.workers(process).items() if rank == 1)
        os.kill(pid, signal.SIGUSR2)
        self.assertEqual(process.wait(TIMEOUT_S), 0, self.output()[-3000:])
        self.assertEqual(len(self.checkpoints()), 1)

    def test_one_id_is_one_checkpoint_and_tells_its_figures(self):
        process = self.start(2)
        self.wait_for(r" step:2 ", process)
        told = [json.loads(line) for line in self.lr_ctl("checkpoint", "--wait", "--json", "--id=nightly").splitlines()]
        self.assertEqual([t["state"] for t in told], ["accepted", "running", "complete"])
        final = told[-1]
        self.assertGreater(min(final["bytes"], final["write_s"], final["publish_s"], final["agree_s"]), 0)
        self.assertEqual(final["slowest_ranks"], [0])  # the one that writes
        self.assertEqual(json.loads(self.lr_ctl("checkpoint", "--wait", "--json", "--id=nightly")), final)
        self.assertEqual(self.checkpoints(), [os.path.basename(final["directory"])])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), 143)

    def test_the_end_of_the_job_saves_and_asks_for_another_turn(self):
        os.environ["SLURM_JOB_END_TIME"] = str(int(time.time()) + 35)
        self.addCleanup(os.environ.pop, "SLURM_JOB_END_TIME")
        process = self.start(2)
        self.assertEqual(process.wait(TIMEOUT_S), 85, self.output()[-3000:])
        self.assertEqual(len(self.checkpoints()), 1)

    def test_a_dead_worker_ends_the_run_with_its_code(self):
        process = self.start(2)
        self.wait_for(r" step:2 ", process)
        pid = next(pid for pid, rank in self.workers(process).items() if rank == 1)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(process.wait(60), 137, self.output()[-3000:])
        self.assertIn("rank 1", self.output())


if __name__ == "__main__":
    unittest.main()
