"""Machines that are wanted back (spec 5.1): notices from signals, commands and the clock; exit codes 85 and 86."""
import os
import signal
import time
import unittest

from launch_harness import free_port, run_side_by_side, wait_until
from saving_harness import SavingTest

NOTICE = "--on-signal=USR1:preempt"


class Preemption(SavingTest):
    def test_a_notice_saves_stops_and_asks_for_another_turn(self):
        run = self.train("--save_ms=200", options=[NOTICE])
        self.wait_steps(run)
        run.send_signal(signal.SIGUSR1)
        _, err = self.finish(run, 85)
        self.assertIn("a new checkpoint is complete; please queue the run again", err)
        self.assertEqual(self.saves(0), self.saves(1))
        self.assertEqual(self.last(), self.saves(0)[-1][0])
        self.assertEqual(self.record()["exit_code"], 85)

    def test_the_same_command_goes_on_at_its_next_turn(self):
        options = ["--rdzv-id=job-1", "--nproc-per-node=2"]
        trainer = ["--steps=60", "--step_ms=20"]
        run = self.again(options + [NOTICE], trainer)
        self.wait_steps(run)
        run.send_signal(signal.SIGUSR1)
        self.finish(run, 85)
        stopped = self.last()
        _, err = self.finish(self.again(options, trainer), 0)
        self.assertIn(f"a run that was started before: resuming from step {stopped} ", err)
        self.assertEqual(self.last(), 60)

    def again(self, options, trainer):
        from saving_harness import TRAINER
        for old in self.out.glob("agree*/*"):
            old.unlink()  # the stand-in's meeting place knows epochs, not launches
        return self.start(*options, TRAINER, f"--output_dir={self.out}", *trainer)

    def test_without_a_new_checkpoint_it_says_so(self):
        run = self.start_shell("trap 'exit 0' TERM; touch ready$RANK; while :; do sleep 0.02; done", options=[NOTICE])
        self.wait_ready(2, run)
        run.send_signal(signal.SIGUSR1)
        _, err = self.finish(run, 86)
        self.assertIn("there is no complete new checkpoint", err)

    def test_notices_use_no_restart(self):
        run = self.train(options=[NOTICE, "--max-restarts=3"])
        self.wait_steps(run)
        run.send_signal(signal.SIGUSR1)
        _, err = self.finish(run, 85)
        self.assertNotIn("restart", err)

    def test_the_end_of_the_job_is_known(self):
        start = time.monotonic()
        _, err = self.finish(self.train("--save_ms=100", options=["--time-limit=4"]), 85)
        self.assertLess(time.monotonic() - start, 4.0)
        self.assertIn("the time limit of the job", err)
        self.assertEqual(self.saves(0), self.saves(1))

    def test_slurm_says_when_the_job_ends(self):
        end = str(int(time.time()) + 4)
        _, err = self.finish(self.train(env={"SLURM_JOB_END_TIME": end}), 85)
        self.assertIn("the time limit of the job", err)

    def test_a_command_watches_for_notices(self):
        run = self.train(options=["--preempt-watch=while ! [ -e notice ]; do sleep 0.05; done; echo 60 spot; sleep 60"])
        self.wait_steps(run)
        self.file("notice", "")
        _, err = self.finish(run, 85)
        self.assertIn("--preempt-watch gave notice: 60 spot", err)
        self.assertEqual(self.survivors(), {})

    def test_a_command_that_ends_well_is_a_notice_and_one_that_fails_is_not(self):
        self.finish(self.train(options=["--preempt-watch=sleep 0.5"]), 85)
        self.out = self.folder / "another"
        _, err = self.finish(self.train("--steps=50", options=["--preempt-watch=no-such-command-here", f"--log-dir={self.folder}/other"]), 0)
        self.assertIn("ended with exit code 127: further notices are not seen", err)

    def test_a_save_that_cannot_fit_is_skipped_where_the_user_says_so(self):
        run = self.train("--save_ms=2000", options=["--checkpoint-when-late=skip",
                                                    "--preempt-watch=while ! [ -e notice ]; do sleep 0.05; done; echo 1 soon"])
        self.wait_steps(run)
        self.checkpoint("--wait")
        self.file("notice", "")
        start = time.monotonic()
        _, err = self.finish(run, 86)
        self.assertLess(time.monotonic() - start, 2.0)
        self.assertIn("NOT_ENOUGH_TIME", err)
        self.assertEqual(len(self.saves(0)), 1)

    def test_grace_follows_what_the_scheduler_grants(self):
        script = "trap 'sleep 2; touch saved$RANK; exit 143' TERM; touch ready$RANK; while :; do sleep 0.02; done"
        for grace, saved in ((10, True), (2, False)):  # 5 s are used, and 1 s
            for path in [*self.folder.glob("ready*"), *self.folder.glob("saved*")]:
                path.unlink()
            run = self.start_shell(script, options=["--shutdown-timeout=auto", f"--grace={grace}"])
            self.wait_ready(2, run)
            run.send_signal(signal.SIGTERM)
            self.finish(run, 143)
            self.assertEqual((self.folder / "saved1").exists(), saved, grace)

    def test_lost_machines_cost_no_restart_and_failures_do(self):
        """Three notices to one node of an elastic run, then two failures: the first is restarted, the second ends the run."""
        endpoint = f"127.0.0.1:{free_port()}"
        trainer = ["--step_ms=20", "--save_freq=10"]
        options = lambda host: ["--rdzv-backend=c10d", "--rdzv-id=spot", "--max-restarts=1", NOTICE,
                                f"--rdzv-conf=is_host={host},last_call_timeout=1,reform_last_call_timeout=1"]
        stays = self.join_node(0, endpoint, *trainer, options=options(1), nnodes="1:2")
        for turn in range(3):
            comes = self.join_node(1, endpoint, *trainer, options=options(0), nnodes="1:2")
            self.assertTrue(wait_until(lambda: sum(self.steps_told(1, epoch) > 3 for epoch in self.epochs()) > turn), f"turn {turn}")
            comes.send_signal(signal.SIGUSR1)
            self.finish(comes, 85)
        for failure in range(2):
            before = self.epochs()
            self.assertTrue(wait_until(lambda: 0 in self.workers(stays) and self.steps_told(0, before[-1]) > 3))
            os.kill(self.workers(stays)[0], signal.SIGKILL)
            if failure == 0:
                self.assertTrue(wait_until(lambda: len(self.epochs()) > len(before)))
        _, err = self.finish(stays, 137)
        self.assertIn("restart 1 of 1", err)
        self.assertEqual(err.count("a new start after a pre-emption, which uses no restart"), 3)

    def epochs(self):
        return sorted(int(p.name[len("agree"):]) for p in self.out.glob("agree*"))

    def steps_told(self, rank, epoch):
        return len(list(self.out.glob(f"agree{epoch}/*.{rank}")))


if __name__ == "__main__":
    run_side_by_side()
