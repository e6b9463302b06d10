"""Signals to lr-launch (spec 1.8)."""
import os
import pathlib
import signal
import time
import unittest

from launch_harness import LaunchTest, wait_until

PATIENT = "trap 'echo cleaned; exit {code}' TERM INT HUP QUIT; touch ready$RANK; while :; do sleep 0.02; done"


class Signals(LaunchTest):
    def test_graceful_stop(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            for path in self.folder.glob("ready*"):
                path.unlink()
            process = self.start_shell(PATIENT.format(code=128 + number))
            self.wait_ready(2, process)
            process.send_signal(number)
            out, err = self.finish(process, 128 + number)
            self.assertEqual(sorted(out.splitlines()), ["cleaned", "cleaned"])
            self.assertNotIn("FAILED", err)
            self.assertEqual(self.survivors(), {})

    def test_workers_without_a_handler_end_with_the_signal(self):
        process = self.start_shell("touch ready$RANK; exec sleep 60")
        self.wait_ready(2, process)
        process.send_signal(signal.SIGTERM)
        _, err = self.finish(process, 143)
        self.assertNotIn("FAILED", err)

    def test_shutdown_timeout(self):
        process = self.start_shell("trap '' TERM; touch ready$RANK; while :; do sleep 0.02; done", options=["--shutdown-timeout=0.5"])
        self.wait_ready(2, process)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, err = self.finish(process, 143)
        self.assertLess(time.monotonic() - start, 2.5)
        self.assertIn("--shutdown-timeout", err)

    def test_a_long_save_fits_into_a_long_timeout(self):
        process = self.start_shell("trap 'sleep 2; touch saved$RANK; exit 143' TERM; touch ready$RANK; while :; do sleep 0.02; done",
                                   options=["--shutdown-timeout=10"])
        self.wait_ready(2, process)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 143)
        self.assertTrue((self.folder / "saved1").exists())

    def test_second_signal_kills_at_once(self):
        process = self.start_shell("trap '' TERM; touch ready$RANK; while :; do sleep 0.02; done")
        self.wait_ready(2, process)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.finish(process, 143)
        self.assertLess(time.monotonic() - start, 1.0)
        self.assertEqual(self.survivors(), {})

    def test_nohup(self):
        """A signal ignored at the start stays ignored, here and in the workers."""
        ignored = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        process = self.start_shell("touch ready$RANK; while ! [ -e go ]; do sleep 0.02; done; echo lived", preexec_fn=ignored)
        self.wait_ready(2, process)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        self.assertIsNone(process.poll())
        (self.folder / "go").touch()
        out, _ = self.finish(process, 0)
        self.assertEqual(out.count("lived"), 2)

    def test_user_signals_do_not_kill(self):
        process = self.start_shell("[ $RANK = 0 ] && trap 'echo usr1 seen' USR1; touch ready$RANK; while ! [ -e go ]; do sleep 0.02; done")
        self.wait_ready(2, process)
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        time.sleep(0.3)
        (self.folder / "go").touch()
        out, err = self.finish(process, 0)
        self.assertEqual(out, "usr1 seen\n")
        self.assertIn("SIGUSR2 is kept from the workers", err)

    def test_suspend_and_continue(self):
        process = self.start_shell("touch ready$RANK; i=0; while ! [ -e go ]; do i=$((i+1)); echo $i > count$RANK; sleep 0.02; done",
                                   preexec_fn=os.setsid)
        self.wait_ready(2, process)
        count = lambda: (self.folder / "count1").read_text() if (self.folder / "count1").exists() else ""
        self.assertTrue(wait_until(lambda: count() != "", 5))
        state = lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(lambda: state() == "T", 5))
        time.sleep(0.1)
        before = count()
        time.sleep(0.2)
        self.assertEqual(count(), before)
        process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: count() not in (before, ""), 5))
        (self.folder / "go").touch()
        self.finish(process, 0)

    def test_ctrl_c_of_a_terminal_reaches_workers_once(self):
        """The terminal signals its foreground group; workers are in sessions of their own."""
        process = self.start_shell("trap 'echo int; n=$((n+1))' INT; n=0; touch ready$RANK; while [ $n = 0 ]; do sleep 0.02; done; "
                                   "sleep 0.3; echo seen $n; exit 130", preexec_fn=os.setsid)
        self.wait_ready(2, process)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = self.finish(process, 130)
        self.assertEqual(out.count("seen 1"), 2, out)

    def test_signal_list(self):
        process = self.start_shell(PATIENT.format(code=0), options=["--signals-to-handle=SIGTERM"])
        self.wait_ready(2, process)
        process.send_signal(signal.SIGINT)  # not ours any more: the launcher dies of it, and the run with it
        self.finish(process, -signal.SIGINT)
        self.assertTrue(wait_until(lambda: not self.survivors(), 2.0))


if __name__ == "__main__":
    unittest.main()
