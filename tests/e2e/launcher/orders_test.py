"""Requested checkpoints: one step for all ranks, states that are told as they are reached, merged and repeated requests (spec 5)."""
import json
import os
import random
import signal
import time
import unittest

from launch_harness import run_side_by_side, wait_until
from saving_harness import SavingTest


class Orders(SavingTest):
    def test_states_are_told_as_they_are_reached_and_kept_in_the_record(self):
        run = self.train("--save_ms=300")
        self.wait_steps(run)
        told = self.checkpoint("--wait")
        self.assertEqual([t["state"] for t in told], ["accepted", "running", "complete"])
        final = told[-1]
        self.assertEqual(final["directory"], f"{self.out}/checkpoints/{final['step']:06d}")
        self.assertEqual((final["bytes"], final["slowest_ranks"], final["write_s"]), (7, [0], 0.3))
        self.assertGreater(final["agree_s"], 0.0)
        self.assertEqual(self.saves(0), self.saves(1))
        self.assertEqual(self.saves(0)[0][0], final["step"])
        self.end(run)
        kept = self.record()["checkpoint_requests"]
        self.assertEqual([(k["id"], k["state"], k["step"]) for k in kept][0], (final["id"], "complete", final["step"]))

    def test_one_id_is_one_checkpoint(self):
        run = self.train()
        self.wait_steps(run)
        first = self.checkpoint("--wait", "--id=nightly")[-1]
        again = self.checkpoint("--wait", "--id=nightly")
        self.assertEqual(again, [first])
        self.assertEqual(len(self.saves(0)), 1)
        self.end(run)

    def test_many_at_once_are_all_answered_by_few_saves(self):
        run = self.train("--step_ms=50")
        self.wait_steps(run)
        asked = [self.start_ctl("checkpoint", "--json", "--wait") for _ in range(8)]
        told = [self.answer(ctl)[-1] for ctl in asked]
        self.assertEqual({t["state"] for t in told}, {"complete"})
        self.assertEqual(len({t["id"] for t in told}), 8)
        steps = [step for step, _ in self.saves(0)]
        self.assertTrue({t["step"] for t in told} <= set(steps))
        self.assertLessEqual(len(steps), 8)
        self.assertEqual(self.saves(0), self.saves(1))
        self.end(run)

    def test_stop_ends_the_run_at_the_step_of_the_checkpoint(self):
        run = self.train()
        self.wait_steps(run)
        final = self.checkpoint("--stop", "--wait")[-1]
        self.assertEqual((final["state"], final["stop"]), ("complete", True))
        self.finish(run, 0)
        self.assertEqual(self.last(), final["step"])

    def test_a_request_before_the_first_step_is_done_after_it_or_refused(self):
        run = self.train("--step_ms=1500")
        self.assertTrue(wait_until(lambda: len(list(self.out.glob("agree*"))) > 0))
        refused = self.checkpoint("--no-wait", "--wait", expect=1)[-1]
        self.assertEqual(refused["state"], "failed")
        self.assertIn("NOT_STARTED", refused["reason"])
        self.assertEqual(self.checkpoint("--wait")[-1]["step"], 2)  # agreed on at the first, acted on at the next
        self.end(run)

    def test_a_request_after_the_last_step_is_answered_by_the_final_checkpoint(self):
        run = self.train("--steps=5", "--save_ms=1500")
        self.assertTrue(wait_until(lambda: len(self.saves(0)) == 1))
        final = self.checkpoint("--wait")[-1]
        self.finish(run, 0)
        self.assertEqual((final["state"], final["step"]), ("complete", 5))

    def test_a_failed_save_is_told_with_its_reason_and_the_run_goes_on(self):
        run = self.train("--step_ms=300", "--fail_save=3")
        self.assertTrue(wait_until(lambda: list(self.out.glob("agree*/1.*"))))
        told = self.checkpoint("--wait", expect=1)
        if told[-1]["step"] == 3:  # else the machine was slow
            self.assertIn("no space left on device", told[-1]["reason"])
        self.assertEqual(self.checkpoint("--wait")[-1]["state"], "complete")
        _, err = self.end(run)
        self.assertIn("no space left on device", err)

    def test_a_signal_to_any_one_rank_asks_all_of_them(self):
        run = self.train("--step_ms=4", "--jitter_ms=8", nproc=4)
        self.wait_steps(run, ranks=4)
        workers = self.workers(run)
        for count in range(1, 41):
            os.kill(workers[random.randrange(4)], signal.SIGUSR1)
            self.assertTrue(wait_until(lambda: all(len(self.saves(rank)) == count for rank in range(4))), self.saves(0))
        for rank in range(4):
            self.assertEqual(self.saves(rank), self.saves(0))
        os.kill(workers[3], signal.SIGUSR2)  # save and stop
        self.finish(run, 0)
        self.assertEqual(self.saves(3), self.saves(0))

    def test_the_launchers_signals_and_the_rules_of_the_user(self):
        run = self.train(options=["--on-signal=USR2:checkpoint,XCPU:checkpoint-stop,HUP:ignore"])
        self.wait_steps(run)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            before = len(self.saves(0))
            run.send_signal(number)
            self.assertTrue(wait_until(lambda: len(self.saves(0)) > before))
        run.send_signal(signal.SIGHUP)
        run.send_signal(signal.SIGXCPU)
        self.finish(run, 0)
        self.assertEqual(len(self.saves(0)), 3)

    def test_what_does_not_fit_into_the_time_is_said_at_once(self):
        run = self.train("--save_ms=800", "--step_ms=20")
        self.wait_steps(run)
        self.checkpoint("--wait")
        self.assertTrue(wait_until(lambda: self.last() > 0))
        tried = self.checkpoint("--wait", "--within=0.5")
        self.assertIn("NOT_ENOUGH_TIME: needed", tried[0]["reason"])
        self.assertEqual(tried[-1]["state"], "complete")
        self.end(run)

    def test_what_does_not_fit_is_skipped_where_the_user_says_so(self):
        run = self.train("--save_ms=800", "--step_ms=20", options=["--checkpoint-when-late=skip"])
        self.wait_steps(run)
        self.checkpoint("--wait")
        skipped = self.checkpoint("--wait", "--within=0.5", expect=1)
        self.assertEqual([t["state"] for t in skipped], ["skipped"])
        self.assertEqual(len(self.saves(0)), 1)
        self.end(run)

    def test_workers_that_die_fail_the_request(self):
        run = self.train("--save_ms=20000", options=["--shutdown-timeout=2"])  # the stand-in waits for dead peers for ever
        self.wait_steps(run)
        asked = self.start_ctl("checkpoint", "--json", "--wait")
        self.assertTrue(wait_until(lambda: len(self.saves(1)) == 1))
        os.kill(self.workers(run)[1], signal.SIGKILL)
        told = self.answer(asked, expect=1)
        self.assertEqual([t["state"] for t in told], ["accepted", "running", "failed"])
        self.finish(run, 137)

    def test_two_nodes_give_the_same_answer(self):
        nodes = self.train_on_two_nodes("--save_ms=200")
        self.wait_steps(nodes[0])
        asked = [self.start_ctl("checkpoint", "--json", "--wait", "--id=both", node=node) for node in range(2)]
        told = [self.answer(ctl)[-1] for ctl in asked]
        self.assertEqual(told[0], told[1])
        self.assertEqual(told[0]["state"], "complete")
        self.assertEqual(self.saves(0), self.saves(1))
        self.assertEqual(len(self.saves(0)), 1)
        nodes[1].send_signal(signal.SIGTERM)
        for node in nodes:
            self.finish(node, 143)


class ForeignPrograms(SavingTest):
    SCRIPT = 'trap "sleep 0.2; date +%s.%N > got$RANK; [ $RANK = 1 ] || echo done > step.done" USR1; touch ready$RANK; until [ -e go ]; do sleep 0.02; done'

    def run_shell(self, *options):
        run = self.start_shell(self.SCRIPT, options=["--ckpt-signal=USR1", f"--log-dir={self.folder}/logs", *options])
        self.wait_ready(2, run)
        return run

    def test_all_ranks_get_the_signal_and_the_marker_says_when_it_is_done(self):
        run = self.run_shell(f"--ckpt-glob={self.folder}/*.done")
        told = self.checkpoint("--wait")[-1]
        self.assertEqual((told["state"], told["directory"]), ("complete", f"{self.folder}/step.done"))
        self.assertIn("the program's affair", told["reason"])
        self.assertTrue(wait_until(lambda: all((self.folder / f"got{rank}").exists() for rank in range(2))))
        times = [float((self.folder / f"got{rank}").read_text()) for rank in range(2)]
        self.assertLess(abs(times[0] - times[1]), 0.5)
        refused = self.checkpoint("--stop", "--wait", expect=1)[-1]
        self.assertIn("then cancel the run", refused["reason"])
        self.file("go", "")
        self.finish(run, 0)

    def test_without_a_marker_the_end_of_the_program_is_waited_for(self):
        run = self.run_shell()
        asked = self.start_ctl("checkpoint", "--json", "--wait")
        self.assertTrue(wait_until(lambda: (self.folder / "got1").exists()))
        self.file("go", "")
        self.finish(run, 0)
        self.assertIn("the program ended well", self.answer(asked)[-1]["reason"])

    def test_a_signal_that_would_kill_is_kept(self):
        run = self.start_shell("touch ready$RANK; until [ -e go ]; do sleep 0.02; done",
                               options=["--ckpt-signal=USR2", f"--log-dir={self.folder}/logs"])
        self.wait_ready(2, run)
        self.assertIn("which would kill it", self.checkpoint("--wait", expect=1)[-1]["reason"])
        self.file("go", "")
        self.finish(run, 0)


class Restarts(SavingTest):
    def test_both_nodes_resume_from_the_newest_checkpoint_that_both_see(self):
        nodes = self.train_on_two_nodes("--save_freq=5", "--steps=60", "--step_ms=30", options=["--max-restarts=1", "--shutdown-timeout=2"])
        self.assertTrue(wait_until(lambda: len(self.saves(0)) >= 2 and len(self.saves(1)) >= 2))
        os.kill(self.workers(nodes[1])[1], signal.SIGKILL)
        told = []
        for node in nodes:
            _, err = self.finish(node, 0)
            self.assertRegex(err, r"restart 1 of 1: resuming from step \d+; \d+ steps? (is|are) lost|restart 1 of 1: resuming from step \d+ ")
            told.append([line for line in err.splitlines() if "resuming from" in line])
        self.assertEqual(told[0], told[1])
        self.assertEqual(self.last(), 60)

    def test_a_checkpoint_that_was_cut_short_is_named_and_skipped(self):
        run = self.train("--save_freq=5", "--steps=60", "--step_ms=30", options=["--max-restarts=1", "--shutdown-timeout=2"])
        self.assertTrue(wait_until(lambda: len(self.saves(0)) >= 3 and self.last() >= 10))
        workers = self.workers(run)
        for pid in workers.values():  # else they save a newer one meanwhile
            os.kill(pid, signal.SIGSTOP)
        newest = max(int(p.name) for p in (self.out / "checkpoints").glob("[0-9]*") if p.name.isdigit() and not p.is_symlink())
        (self.out / "checkpoints" / f"{newest:06d}" / "content").write_text("cut")
        os.kill(workers[1], signal.SIGKILL)
        _, err = self.finish(run, 0)
        self.assertIn(f"checkpoint {newest:06d} is skipped: content has 3 bytes, the manifest says 7", err)
        self.assertRegex(err, rf"resuming from step {newest - 5}\b")


if __name__ == "__main__":
    run_side_by_side()
