"""How runs end: codes, failure report, and that nothing of a run is left, whatever ended it."""
import json
import os
import pathlib
import signal
import time
import unittest

from launch_harness import TIMEOUT_S, LaunchTest, plain_build, wait_until


def memory_group(limit):
    """A new control group below our own with this limit, or why there is none."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mount, name = ("/sys/fs/cgroup", "memory.max") if not controllers else ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        if controllers not in ("", "memory"):
            continue
        group = pathlib.Path(mount + path) / f"lr-test-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(str(limit))
            return group
        except OSError as error:
            remove(group)
            reason = f"no control group with a memory limit can be made here: {error}"
    return reason


def remove(group):
    """True while it is still there."""
    try:
        group.rmdir()
    except OSError:
        return group.exists()
    return False


class Endings(LaunchTest):
    def test_success(self):
        _, err = self.shell("exit 0", env={"OMP_NUM_THREADS": "1"})
        self.assertEqual(err, "")

    def test_the_workers_code_is_the_jobs_code(self):
        for code in (1, 2, 42, 255):
            _, err = self.shell(f"[ $RANK = 1 ] && exit {code}; sleep 30", expect=code)
            self.assertIn(f"exitcode  : {code} (pid: ", err)

    def test_signals_give_128_plus_n(self):
        for number, name in ((9, "SIGKILL"), (15, "SIGTERM"), (6, "SIGABRT")):
            _, err = self.shell(f"[ $RANK = 1 ] && kill -{number} $$; sleep 30", expect=128 + number)
            self.assertRegex(err, rf"exitcode  : -{number} \(pid: \d+\) \({name}\)")

    def test_torchruns_code_on_request(self):
        self.shell("exit 7", expect=1, options=["--exit-code=torchrun"])

    def test_a_dying_worker_stops_the_others_at_once(self):
        start = time.monotonic()
        _, err = self.shell("[ $RANK = 1 ] && exit 5; exec sleep 60", nproc=4, expect=5)
        took = time.monotonic() - start
        print(f"one of four workers fails -> run over: {took * 1000:.0f} ms")
        self.assertLess(took, 1.0)
        self.assertEqual(self.survivors(), {})
        self.assertIn("Most likely cause: rank 1", err)

    def test_block_of_torchruns_shape(self):
        _, err = self.shell("[ $RANK = 1 ] && { echo 'ModuleNotFoundError: No module named q' >&2; exit 1; }; sleep 30", expect=1)
        for part in ("/bin/sh FAILED", "Failures:", "Root Cause (first observed failure):", "  time      : ", "  host      : ",
                     "  rank      : 1 (local_rank: 1)", "  exitcode  : 1 (pid: ", "  error_file: <N/A>", "  traceback : ",
                     "Most likely cause: rank 1", "last lines of rank 1", "No module named q"):
            self.assertIn(part, err)

    def test_causes_are_named(self):
        for script, cause in (("echo 'OSError: [Errno 28] No space left on device' >&2; exit 1", "no space left on device, exit code 1"),
                              ("echo 'usage: x [-h]' >&2; exit 2", "usage error of the program"), ("kill -9 $$", "was killed by an unknown sender"),
                              ("exec python3 -c 'import no_such_module'", "import error"), ("exec python3 /no/such.py", "missing file"),
                              ("kill -ILL $$", "illegal instruction"), ("exit 7", "ended with exit code 7, no message")):
            _, err = self.shell(f"[ $RANK = 1 ] || exec sleep 30; {script}", expect=None)
            line = next(line for line in err.splitlines() if line.startswith("Most likely cause: rank 1 "))
            self.assertIn(cause, line)

    def test_consequences_are_not_the_cause(self):
        """Rank 0 notices first that its peer is gone; rank 1 ends later with the reason."""
        _, err = self.shell("trap '' TERM; if [ $RANK = 0 ]; then echo 'Connection reset by peer' >&2; exit 1; fi; until [ -e over ]; do "
                            "sleep 0.05; done & wait; sleep 0.2; exit 1", expect=1, options=["--shutdown-timeout=1"])
        self.assertIn("this looks like a consequence; the first cause was not seen", err)

    @plain_build
    def test_kill_for_lack_of_memory(self):
        """The whole launch runs in a control group with a limit that one worker exceeds."""
        group = memory_group(128 << 20)
        if isinstance(group, str):
            self.skipTest(group)
        self.addCleanup(lambda: wait_until(lambda: not remove(group), 5))
        join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        eat = "exec python3 -c 'x = bytearray(400 << 20)'"
        _, err = self.shell(f"[ $RANK = 1 ] || exec sleep 30; {eat}", expect=137, preexec_fn=join)
        self.assertIn("rank 1 (node 0", err)
        self.assertIn("was killed by the kernel for lack of memory", err)
        self.assertRegex(err, "evidence : 1 kill for lack of memory in control group .*, limit 0.1 GiB, peak 0.1 GiB")

    def test_error_file(self):
        outer = self.folder / "outer.json"
        message = json.dumps({"message": {"message": "boom", "extraInfo": {"py_callstack": "Traceback of rank 1", "timestamp": "1"}}})
        _, err = self.shell(f"[ $RANK = 1 ] || exec sleep 30; echo '{message}' > $TORCHELASTIC_ERROR_FILE; exit 3", expect=3,
                            env={"TORCHELASTIC_ERROR_FILE": str(outer)})
        self.assertIn("traceback : Traceback of rank 1", err)
        self.assertIn("Traceback of rank 1", json.loads(outer.read_text())["message"]["message"])

    def test_damaged_error_file_is_reported(self):
        _, err = self.shell("echo '{' > $TORCHELASTIC_ERROR_FILE; exit 3", nproc=1, expect=3)
        self.assertIn("is not readable", err)

    def test_a_worker_that_ignores_sigterm_is_killed_in_time(self):
        start = time.monotonic()
        _, err = self.shell("[ $RANK = 1 ] && sleep 0.3 && exit 5; trap '' TERM; while :; do sleep 0.1; done", expect=5,
                            options=["--shutdown-timeout=1"])
        self.assertLess(time.monotonic() - start, 4)
        self.assertIn("is killed: still running 1.0 s after SIGTERM", err)

    def test_helpers_that_hide_are_gone(self):
        hide = "env -i LR_TEST_MARK=$LR_TEST_MARK setsid sh -c 'trap \"\" TERM HUP; sleep 60 & sleep 60' >/dev/null 2>&1 &"
        for ending in ("sleep 0.2; exit 0", "sleep 0.2; exit 4"):
            self.shell(f"{hide} {ending}", expect=int(ending[-1]))
            self.assertEqual(self.survivors(), {})

    def test_sigkill_of_the_launcher_leaves_nothing(self):
        hide = "env -i LR_TEST_MARK=$LR_TEST_MARK setsid sh -c 'trap \"\" TERM HUP; sleep 60 & sleep 60' &"
        helper = "setsid sleep 60 & sleep 60 &"
        process = self.start_shell(f"trap '' TERM HUP INT; {hide} {helper} touch ready$RANK; while :; do sleep 0.1; done")
        self.wait_ready(2, process)
        self.assertTrue(wait_until(lambda: len(self.survivors()) >= 12, 5))
        time.sleep(1.5)  # helpers without marker and session are seen once per second
        process.kill()
        start = time.monotonic()
        self.assertTrue(wait_until(lambda: not self.survivors(), 2.0), self.survivors())
        print(f"SIGKILL of lr-launch -> nothing left: {(time.monotonic() - start) * 1000:.0f} ms")

    def test_strangers_survive(self):
        """Only processes of the run are touched, not those around the launcher."""
        marker = {**self.environment, "LR_TEST_MARK": self.mark + "-stranger"}
        stranger = os.posix_spawn("/bin/sleep", ["sleep", "30"], marker, setsid=True)
        try:
            process = self.start_shell("touch ready$RANK; sleep 60")
            self.wait_ready(2, process)
            process.kill()
            self.assertTrue(wait_until(lambda: not self.survivors(), 2.0))
            self.shell("exit 0")
            self.assertEqual(os.waitpid(stranger, os.WNOHANG), (0, 0))
        finally:
            os.kill(stranger, signal.SIGKILL)
            os.waitpid(stranger, 0)

    def test_closed_output_does_not_end_the_run(self):
        read_end, write_end = os.pipe()
        process = self.start_shell("while ! [ -e go ]; do sleep 0.02; done; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; touch done$RANK",
                                   stdout=write_end)
        os.close(write_end)
        os.close(read_end)
        (self.folder / "go").touch()
        self.finish(process, 0)
        self.assertTrue((self.folder / "done1").exists())

    def test_blocked_console_does_not_block_workers(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        process = self.start_shell("head -c 30000000 /dev/zero | tr '\\0' 'x' | fold -w 100; touch done$RANK", stdout=write_end)
        os.close(write_end)
        self.assertTrue(wait_until(lambda: (self.folder / "done0").exists() and (self.folder / "done1").exists(), TIMEOUT_S))
        process.kill()

    def test_output_after_the_pipes_limit_is_dropped_with_a_notice(self):
        read_end, write_end = os.pipe()
        process = self.start_shell("head -c 30000000 /dev/zero | tr '\\0' 'x' | fold -w 100; touch done", nproc=1, stdout=write_end)
        os.close(write_end)
        self.assertTrue(wait_until(lambda: (self.folder / "done").exists(), TIMEOUT_S))
        with os.fdopen(read_end, "rb") as reader:
            text = reader.read()
        self.finish(process, 0)
        self.assertIn(b"lines dropped here", text)


if __name__ == "__main__":
    unittest.main()
