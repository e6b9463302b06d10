"""Hangs, stacks and stragglers: native workers that stop, lag or are slow where they are told (tests/support/pretend_train_main.cc)."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from launch_harness import BIN, TIMEOUT_S, LaunchTest, run_side_by_side, wait_until

TRAIN = BIN / "pretend" / "lr-train"
QUICK = ("--hang-timeout=3", "--shutdown-timeout=1")
WHERE = "lr::worker::StandStillForEver()"  # the function in which a worker stands still


class HangTest(LaunchTest):
    def train(self, *arguments, nproc=3, options=QUICK):
        return self.start("--standalone", f"--nproc-per-node={nproc}", *options, TRAIN, *arguments)

    def ctl(self, *arguments, expect=0):
        done = subprocess.run([str(BIN / "lr-ctl"), *map(str, arguments)], env=self.environment, capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def record(self):
        files = list(self.folder.glob("state/lr/runs/*/run.json"))
        return json.loads(files[0].read_text()) if files else {}

    def events(self, name):
        lines = [line for file in self.folder.glob("state/lr/runs/*/events.jsonl") for line in file.read_text().splitlines()]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait_event(self, name):
        self.assertTrue(wait_until(lambda: self.events(name)), f"no event '{name}'")
        return self.events(name)[0]


class Hangs(HangTest):
    def test_the_absent_rank_is_named_with_its_stack_and_the_run_is_stopped(self):
        _, err = self.finish(self.train("--stop=2:8:forward", options=(*QUICK, "--hang-action=stop")), 1)
        self.assertRegex(err, r"hang: no progress of ranks 0-2 for [3-6]\.\d s \(limit 3 s: --hang-timeout\): rank 2 is absent from all-reduce #9 "
                              r"of group data \(4\.0 KiB\), which ranks 0-1 entered")
        self.assertRegex(err, r"rank 2 \(node 0, \S+\): step 8, phase forward for")
        self.assertIn(WHERE, err.split("stopping:")[0])
        self.assertIn(WHERE, err.split("is killed")[-1])  # once more in the report at the end
        self.assertIn("--hang-action=stop", err)
        event = self.events("hang")[0]
        self.assertEqual(event["ranks"], [2])
        folder = self.folder / "state/lr/runs" / self.record()["run_id"] / "stacks" / event["id"]
        self.assertIn(WHERE, (folder / "rank_2.txt").read_text())
        self.assertIn("WaitForTheOthers", (folder / "rank_0.txt").read_text())
        self.assertIn("by the kernel: ", (folder / "rank_0.txt").read_text())
        out, err = self.ctl("stacks")
        self.assertIn(WHERE, out)
        self.assertRegex(err, r"collected at 20.*Z \(hang-1-1\)")
        self.assertEqual([one["rank"] for one in json.loads(self.ctl("stacks", "--rank", 1, "--json")[0])], [1])

    def test_without_a_restart_it_is_reported_once_and_the_run_goes_on(self):
        run = self.train("--stop=1:6:data")
        event = self.wait_event("hang")
        self.assertEqual(event["ranks"], [1])
        self.assertIn("left alone: no restart is left", event["reason"])
        time.sleep(5)  # longer than the limit
        self.assertEqual(len(self.events("hang")), 1)
        self.assertIsNone(run.poll())
        self.assertIn("hang       no progress of ranks 0-2", self.ctl("status", self.record()["run_id"])[0])
        run.kill()

    def test_with_a_restart_the_workers_are_restarted_and_succeed(self):
        run = self.train("--stop=0:7:backward", "--stop-once", "--steps=40", options=(*QUICK, "--max-restarts=1"))
        _, err = self.finish(run, 0)
        self.assertIn("the workers are stopped for a restart", err)
        self.assertIn("restart 1 of 1", err)
        self.assertEqual(self.record()["restarts"], 1)
        self.assertIsNone(self.record()["hang"])  # of the attempt that went on

    def test_a_rank_that_lags_in_the_collectives_alone_is_found_by_their_numbers(self):
        _, err = self.finish(self.train("--collective-lag=1:7", options=(*QUICK, "--hang-action=stop")), 1)
        self.assertIn("rank 1 is absent from all-reduce #8 of group data (4.0 KiB), which ranks 0,2 entered", err)

    def test_the_first_step_has_its_own_limit(self):
        _, err = self.finish(self.train("--stop=2:0:data", options=(*QUICK, "--hang-first-step=4", "--hang-action=stop")), 1)
        self.assertIn("(limit 4 s: for the first step)", err)
        self.assertIn("rank 2", err)


class NoHangs(HangTest):
    """Beyond --hang-timeout, and yet no hang."""

    def check_quiet(self, *arguments, options=QUICK, nproc=2):
        start = time.monotonic()
        _, err = self.finish(self.train(*arguments, nproc=nproc, options=(*options, "--hang-action=stop")), 0)
        self.assertGreater(time.monotonic() - start, 5)
        self.assertNotIn("hang", err)
        self.assertEqual(self.events("hang"), [])

    def test_slow_but_progressing(self):
        self.check_quiet("--steps=4", "--step-ms=1800", "--slow=1:data:1000")

    def test_steps_as_slow_as_the_ones_before(self):
        self.check_quiet("--steps=3", "--step-ms=900", "--slow=1:forward:3800", nproc=2)

    def test_a_long_first_step(self):
        self.check_quiet("--steps=20", "--first-ms=6000")

    def test_a_long_checkpoint(self):
        self.check_quiet("--steps=12", "--save=8:6000")

    def test_switched_off(self):
        run = self.train("--stop=1:3:data", options=("--hang-timeout=off", "--shutdown-timeout=1"))
        time.sleep(6)
        self.assertEqual(self.events("hang"), [])
        self.assertIsNone(run.poll())
        run.kill()

    def test_a_launcher_and_workers_that_were_stopped_meanwhile(self):
        run = self.train("--steps=150", nproc=2, options=(*QUICK, "--hang-action=stop"))
        self.assertTrue(wait_until(lambda: self.events("started")))
        time.sleep(1)
        run.send_signal(signal.SIGTSTP)
        time.sleep(6)
        run.send_signal(signal.SIGCONT)
        _, err = self.finish(run, 0)
        self.assertEqual(self.events("hang"), [])

    def test_limits_too_short_to_be_looked_at_are_refused(self):
        for option in ("--hang-timeout", "--hang-first-step", "--hang-checkpoint"):
            _, err = self.finish(self.train(options=(f"{option}=2",)), 2)
            self.assertIn(f"{option}=2: 2 s is too short", err)
        _, err = self.finish(self.train(options=("--hang-action=pray",)), 2)
        self.assertIn("--hang-action", err)


class Asked(HangTest):
    def test_stacks_of_a_running_run(self):
        run = self.train("--stop=1:3:data", options=("--hang-timeout=off", "--shutdown-timeout=1"))
        self.assertTrue(wait_until(lambda: self.events("started")))
        time.sleep(1.5)
        out, _ = self.ctl("stacks")
        self.assertIn(WHERE, out)
        self.assertRegex(out, r"(?m)^rank 1 \(local rank 1, pid \d+\): step 3, phase data for")
        only = json.loads(self.ctl("stacks", "--rank", 1, "--json")[0])
        self.assertEqual([one["rank"] for one in only], [1])
        self.assertIn("has no stacks of rank 7", self.ctl("stacks", "--rank", 7, expect=1)[1])
        self.assertRegex(self.ctl("status", self.record()["run_id"])[0], r"(?m)^rank 1 +data for \d+ s +step 3/")
        run.kill()

    def test_stacks_of_a_worker_that_is_frozen(self):
        run = self.train(nproc=2)
        self.assertTrue(wait_until(lambda: self.events("started")))
        self.assertTrue(wait_until(lambda: "run_id" in self.record()))
        self.assertTrue(wait_until(lambda: re.search(r"(?m)^rank 1 .* step [1-9]", self.ctl("status", self.record()["run_id"])[0])))
        os.kill(self.workers()[1], signal.SIGSTOP)
        out, _ = self.ctl("stacks", "--rank", 1)
        self.assertIn("did not answer within 10 s", out)
        self.assertRegex(out, r"lr-train \d+: T \(stopped\)")
        run.kill()

    def workers(self):
        found = {}
        for pid, command in self.survivors().items():
            if str(TRAIN) in command.split()[:1]:
                environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                found.update({int(v[5:]): pid for v in environ if v.startswith(b"RANK=")})
        return found

    def test_stragglers(self):
        run = self.train("--slow=2:data:40", "--step-ms=60")
        self.assertTrue(wait_until(lambda: "run_id" in self.record()))
        self.assertTrue(wait_until(lambda: self.ctl("stragglers")[0].startswith("1 of 3")))
        out, _ = self.ctl("stragglers")
        self.assertRegex(out, r"rank 2 \(node 0, \S+\): 0\.\d\d, needs .* ms of each step for itself, the fastest .*: data")
        self.assertEqual(json.loads(self.ctl("stragglers", "--json")[0])["ranks"], [2])
        run.kill()

    def test_a_run_that_was_never_asked(self):
        self.shell("exit 0")
        self.assertIn("no stacks were collected while it ran", self.ctl("stacks", expect=1)[1])
        self.assertIn("no report was made while it ran", self.ctl("stragglers", expect=1)[1])


if __name__ == "__main__":
    run_side_by_side(lanes=8)
