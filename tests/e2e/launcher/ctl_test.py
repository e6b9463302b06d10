"""lr-ctl against a running lr-launch and against what a run left: failures, logs, watch, status, cancel."""
import json
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from launch_harness import BIN, TIMEOUT_S, LaunchTest, free_port

WAIT = "touch ready$RANK; until [ -e go ]; do sleep 0.02; done; "


class Ctl(LaunchTest):
    def ctl(self, *arguments, expect=0):
        """(stdout, stderr) of lr-ctl"""
        done = subprocess.run([str(BIN / "lr-ctl"), *map(str, arguments)], env=self.environment, capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def start_ctl(self, *arguments, **options):
        process = subprocess.Popen([str(BIN / "lr-ctl"), *map(str, arguments)], env=self.environment, text=True, **options)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        return process

    def end(self, run, expect=0):
        self.file("go", "")
        return self.finish(run, expect)

    # ---- failures

    def test_failures_of_an_ended_run(self):
        self.shell("test $RANK = 1 || sleep 60; echo 'RuntimeError: CUDA out of memory' >&2; exit 7", expect=7)
        out, _ = self.ctl("failures")
        self.assertRegex(out, r"(?m)^rank 1     20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ, attempt 0, node 0 \(\S+\), exit code 7$")
        self.assertIn("  cause    out of device memory: ", out)
        self.assertIn("  last lines of stderr:\n    RuntimeError: CUDA out of memory", out)
        failures = json.loads(self.ctl("failures", "--json")[0])
        told = {f["rank"]: (f["exit_code"], f["signal"], f["stopped_by_launcher"]) for f in failures}
        self.assertEqual(told, {1: (7, None, False), 0: (None, "SIGTERM", True)})

    def test_failures_of_earlier_attempts_while_the_run_goes_on(self):
        run = self.start_shell("[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 9; " + WAIT, nproc=1, options=["--max-restarts=1"])
        self.wait_ready(1, run)
        failures = json.loads(self.ctl("failures", "--json")[0])
        self.assertEqual([(f["attempt"], f["exit_code"]) for f in failures], [(0, 9)])
        self.end(run)
        self.assertIn("attempt 0", self.ctl("failures")[0])

    def test_no_failures_and_no_run(self):
        self.ctl("failures", expect=3)
        self.shell("exit 0")
        self.assertIn("has no failure on record", self.ctl("failures")[0])
        self.assertEqual(json.loads(self.ctl("failures", "--json")[0]), [])

    # ---- logs

    def test_logs_of_ranks_and_streams(self):
        self.shell("echo out $RANK; echo err $RANK >&2", options=["-r3"])
        self.assertEqual(self.ctl("logs")[0].splitlines(), ["[0 stdout] out 0", "[0 stderr] err 0", "[1 stdout] out 1", "[1 stderr] err 1"])
        self.assertEqual(self.ctl("logs", "--rank", 1, "--stdout")[0], "out 1\n")
        self.assertEqual(self.ctl("logs", "--stderr")[0].splitlines(), ["[0 stderr] err 0", "[1 stderr] err 1"])

    def test_last_lines_of_a_rotated_file(self):
        self.shell("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done", nproc=1, options=["-r1", "--log-max-size=2K"])
        self.assertEqual(self.ctl("logs", "--tail", 300)[0].splitlines(), [f"line {i}" for i in range(200, 500)])

    def test_logs_of_attempts(self):
        self.shell("echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]", nproc=1,
                   options=["-r1", "--max-restarts=1"])
        self.assertEqual(self.ctl("logs")[0], "attempt 1\n")
        self.assertEqual(self.ctl("logs", "--attempt", 0)[0], "attempt 0\n")
        self.assertIn("of attempt 2 on this node, but of 0, 1", self.ctl("logs", "--attempt", 2, expect=1)[1])

    def test_logs_are_followed_through_a_restart_to_the_end(self):
        run = self.start_shell("echo begin $TORCHELASTIC_RESTART_COUNT; " + WAIT + "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 9; printf end",
                               nproc=1, options=["-r1", "--max-restarts=1"])
        self.wait_ready(1, run)
        follow = self.start_ctl("logs", "-f", "--stdout", stdout=subprocess.PIPE)
        self.assertEqual(follow.stdout.readline(), "begin 0\n")
        self.end(run)
        self.assertEqual(follow.communicate(timeout=TIMEOUT_S)[0], "begin 1\nend")
        self.assertEqual(follow.returncode, 0)

    def test_run_without_log_files(self):
        self.shell("exit 0")
        self.assertIn("has no log files on this node; lr-launch writes them with --redirects=3 or --tee=3", self.ctl("logs", expect=1)[1])

    def test_stream_without_a_file(self):
        self.shell("exit 0", options=["-r1"])
        self.assertIn("this output went to no file", self.ctl("logs", "--stderr", expect=1)[1])

    def test_rank_that_does_not_exist(self):
        self.shell("exit 0", options=["-r3"])
        self.assertIn("has no rank 2; it has 2 ranks", self.ctl("logs", "--rank", 2, expect=1)[1])

    # ---- watch

    def test_watch_ends_with_the_code_of_the_run(self):
        run = self.start_shell(WAIT + "exit 7", nproc=1)
        self.wait_ready(1, run)
        watch = self.start_ctl("watch", "--interval", 0.1, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = watch.stdout.readline()
        self.assertRegex(first, r"^\S+ running, 1 rank\n$", "" if first else watch.stderr.read())
        self.end(run, 7)
        out, err = watch.communicate(timeout=TIMEOUT_S)
        self.assertEqual((watch.returncode, err), (7, ""))
        self.assertRegex(out.splitlines()[-1], r" failed, 1 rank: .*exit code 7")
        self.assertNotIn("\x1b", first + out)

    def read_terminal(self, terminal, until):
        text, deadline = "", time.monotonic() + TIMEOUT_S
        while not until(text) and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                text += os.read(terminal, 65536).decode()
        self.assertTrue(until(text), text)
        return text

    def test_watch_on_a_terminal_is_interrupted_cleanly(self):
        run = self.start_shell(WAIT, nproc=1)
        self.wait_ready(1, run)
        ours, other_end = pty.openpty()
        self.addCleanup(os.close, ours)
        watch = self.start_ctl("watch", "--interval", 0.1, stdout=other_end, stderr=other_end)
        os.close(other_end)
        text = self.read_terminal(ours, lambda t: t.count("\x1b[J") >= 2)
        self.assertIn("state      running\r\n", text)
        watch.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(timeout=TIMEOUT_S), 130)
        rest = ""
        while select.select([ours], [], [], 0.2)[0]:
            try:
                rest += os.read(ours, 65536).decode()
            except OSError:
                break
        self.assertTrue((text + rest).endswith("\r\n"))  # complete drawings only, and no mode to undo
        self.assertNotIn("\x1b[?", text + rest)
        self.end(run)

    def test_watch_of_a_launcher_that_is_killed(self):
        run = self.start_shell(WAIT, nproc=1)
        self.wait_ready(1, run)
        watch = self.start_ctl("watch", "--interval", 0.1, stdout=subprocess.PIPE)
        watch.stdout.readline()
        run.kill()
        run.wait()
        out, _ = watch.communicate(timeout=TIMEOUT_S)
        self.assertEqual(watch.returncode, 1)
        self.assertIn(" lost, ", out)

    # ---- a launcher that does not answer

    def test_status_says_that_nobody_answered(self):
        """A program named lr-train is native: its launcher serves lr-ctl."""
        trainer = self.file("lr-train", "#!/bin/sh\n" + WAIT, 0o755)
        run = self.start("--standalone", "--nproc-per-node=1", "--no-python", trainer)
        self.wait_ready(1, run)
        run_id = json.loads(self.ctl("status", "--json")[0])[0]["run_id"]
        self.assertEqual(self.ctl("status", run_id)[1], "")
        run.send_signal(signal.SIGSTOP)
        out, err = self.ctl("status", run_id)
        run.send_signal(signal.SIGCONT)
        self.assertEqual(err, f"lr-ctl: run {run_id}: lr-launch (pid {run.pid}) did not answer within 5 s; this is its record on disk\n")
        self.assertIn("state      running\n", out)
        self.end(run)

    # ---- cancel

    def test_cancel(self):
        run = self.start_shell("trap 'exit 0' TERM; " + WAIT, nproc=1)
        self.wait_ready(1, run)
        run_id = json.loads(self.ctl("status", "--json")[0])[0]["run_id"]
        self.ctl("cancel", run_id)
        self.finish(run)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("already", self.ctl("cancel", run_id, expect=1)[1])


class Nodes(LaunchTest):
    def test_rank_on_another_node(self):
        """Two nodes on this machine, each with a state folder of its own."""
        port = free_port()
        node = lambda rank: self.start("--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1", "--master-addr=127.0.0.1",
                                       f"--master-port={port}", "--no-python", "-r1", "/bin/sh", "-c", "echo rank $RANK",
                                       env={"XDG_STATE_HOME": str(self.folder / f"state{rank}")})
        runs = [node(0), node(1)]
        for run in runs:
            self.finish(run, 0)
        ctl = lambda node, rank: subprocess.run([str(BIN / "lr-ctl"), "logs", "--rank", str(rank)], capture_output=True, text=True,
                                                env={**self.environment, "XDG_STATE_HOME": str(self.folder / f"state{node}")}, check=False)
        self.assertEqual(ctl(1, 1).stdout, "rank 1\n")
        self.assertRegex(ctl(1, 0).stderr, r"rank 0 is on node 0 \(.*\); its log files are there")


if __name__ == "__main__":
    unittest.main()
