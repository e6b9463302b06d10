"""The files of workers: torchrun's log tree, tee and redirects, filters, rotation, full and slow disks."""
import fcntl
import os
import pathlib
import pty
import signal
import struct
import subprocess
import termios
import unittest

from launch_harness import LAUNCH, TIMEOUT_S, LaunchTest, wait_until

TALK = "echo out $RANK; echo err $RANK >&2; "


class LogTree(LaunchTest):
    def tree(self, base="logs"):
        """path below the run's directory -> content"""
        runs = list((self.folder / base).iterdir())
        self.assertEqual(len(runs), 1, runs)
        return {str(p.relative_to(runs[0])): p.read_text(errors="replace") for p in runs[0].rglob("*") if p.is_file()}

    def logged(self, script, *options, nproc=2, **more):
        """(stdout, stderr, files of the attempt) of a run with --log-dir=logs"""
        out, err = self.shell(script, nproc=nproc, options=["--log-dir=logs", *options],
                              env={"OMP_NUM_THREADS": "1", **more.pop("env", {})}, **more)
        return out, err, {k: v for k, v in self.tree().items() if k.startswith("attempt_")}

    def test_layout(self):
        wait = "touch wrote.$LOCAL_RANK; until [ -e wrote.0 ] && [ -e wrote.1 ]; do sleep 0.01; done; "  # the first failure stops the other
        out, err, files = self.logged(TALK + "echo '{\"message\": \"m\"}' > $TORCHELASTIC_ERROR_FILE; " + wait + "exit 1", "-r3", expect=1)
        self.assertEqual(sorted(files), sorted(f"attempt_0/{rank}/{name}" for rank in "01" for name in ("stdout.log", "stderr.log", "error.json")))
        self.assertEqual(files["attempt_0/1/stdout.log"], "out 1\n")
        self.assertEqual(files["attempt_0/1/stderr.log"], "err 1\n")
        self.assertEqual(out, "")
        self.assertRegex(next((self.folder / "logs").iterdir()).name, r"^[A-Za-z0-9._-]+_[0-9a-f]{8}$")

    def test_tee_and_redirects(self):
        out, err, files = self.logged(TALK, "--redirects=0:3,1:1", "--tee=1:2", nproc=3)
        self.assertEqual(sorted(out.splitlines()), ["out 2"])
        self.assertEqual(sorted(err.splitlines()), ["[default1]:err 1", "err 2"])
        self.assertEqual(files, {"attempt_0/0/stdout.log": "out 0\n", "attempt_0/0/stderr.log": "err 0\n",
                                 "attempt_0/1/stdout.log": "out 1\n", "attempt_0/1/stderr.log": "err 1\n"})

    def test_many_ranks(self):
        out, _, files = self.logged("echo out", "-r", "0-9:1,*:0", "-t10:1", nproc=12)
        self.assertEqual(sorted(out.splitlines()), ["[default10]:out", "out"])
        self.assertEqual(sorted(files), sorted(f"attempt_0/{rank}/stdout.log" for rank in range(11)))

    def test_variables(self):
        out, err, files = self.logged(TALK, env={"PET_REDIRECTS": "2", "PET_TEE": "0:1", "PET_LOG_LINE_PREFIX_TEMPLATE": "<${rank}> "})
        self.assertEqual(sorted(out.splitlines()), ["<0> out 0", "out 1"])
        self.assertEqual(err, "")
        self.assertEqual(len(files), 3)

    def test_rank_filters(self):
        for option in ("--local-ranks-filter=1", "--ranks-filter=1"):
            out, _ = self.shell("echo out $RANK", options=[option])
            self.assertEqual(out, "out 1\n")

    def test_copies_of_matching_lines(self):
        _, _, files = self.logged("echo loss=$RANK, done; echo other; echo 'bad, very' >&2", "--duplicate-stdout-filters=loss,none",
                                  "--duplicate-stderr-filters=d,, v")
        self.assertEqual(sorted(files["attempt_0/filtered_stdout.log"].splitlines()), ["[default0]:loss=0, done", "[default1]:loss=1, done"])
        self.assertEqual(sorted(files["attempt_0/filtered_stderr.log"].splitlines()), ["[default0]:bad, very", "[default1]:bad, very"])

    def test_temporary_directory_is_named_once(self):
        _, err = self.shell(TALK, options=["-r3"], env={"TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1"})
        lines = [line for line in err.splitlines() if "log directory: " in line]
        self.assertEqual(len(lines), 1, err)
        path = pathlib.Path(lines[0].split("log directory: ")[1])
        self.assertRegex(path.parent.name, r"^torchelastic_\w{8}$")
        self.assertEqual((path / "attempt_0/0/stdout.log").read_text(), "out 0\n")

    def test_null_device_discards(self):
        out, err = self.shell(TALK, options=["-r1", "--log-dir=/dev/null"], env={"OMP_NUM_THREADS": "1"})
        self.assertEqual((out, sorted(err.splitlines())), ("", ["err 0", "err 1"]))

    def test_rotation(self):
        script = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"
        _, _, files = self.logged(script, "-r1", "--log-max-size=4K", "--log-keep=2", nproc=1)
        self.assertEqual(sorted(files), [f"attempt_0/0/stdout.log{end}" for end in ("", ".1", ".2")])
        newest = "".join(files[f"attempt_0/0/stdout.log{end}"] for end in (".2", ".1", "")).splitlines()
        self.assertTrue(all(len(text) <= 4096 for text in files.values()))
        self.assertEqual(newest, [f"line {i}" for i in range(3000 - len(newest), 3000)])

    def test_terminal_of_rank_0(self):
        out, _ = self.shell("test -t 1 && test -t 2 && echo rank $RANK has a terminal; printf 'a\\nb\\n'", options=["--tty"])
        self.assertEqual(sorted(out.splitlines()), ["a", "a", "b", "b", "rank 0 has a terminal"])

    def test_terminal_follows_the_size_of_ours(self):
        ours, other_end = pty.openpty()
        self.addCleanup(os.close, ours)
        resize = lambda rows, columns: fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        resize(30, 100)
        process = self.start_shell("stty size <&1; trap 'stty size <&1; exit 0' WINCH; touch ready; while :; do sleep 0.05; done", nproc=1,
                                   options=["--tty"], stderr=other_end)
        os.close(other_end)
        self.wait_ready(1, process)
        resize(40, 120)
        process.send_signal(signal.SIGWINCH)
        out, _ = self.finish(process, 0)
        self.assertEqual(out, "30 100\n40 120\n")

    def test_files_are_complete_while_the_console_is_blocked(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        process = self.start_shell("head -c 30000000 /dev/zero | tr '\\0' 'x' | fold -w 99; touch done$RANK", options=["-t1", "--log-dir=logs"],
                                   stdout=write_end)
        os.close(write_end)
        self.assertTrue(wait_until(lambda: len(list(self.folder.glob("done*"))) == 2, TIMEOUT_S))
        size = lambda: sum(p.stat().st_size for p in (self.folder / "logs").rglob("stdout.log"))
        self.assertTrue(wait_until(lambda: size() >= 2 * 30000000, TIMEOUT_S), size())
        process.kill()
        for path in (self.folder / "logs").rglob("stdout.log"):
            self.assertNotIn(b"dropped", path.read_bytes())

    def test_full_disk(self):
        """A tmpfs of 1 MiB, mounted in a namespace of its own, is filled by the log files."""
        namespace = ["unshare", "--map-root-user", "--mount"]
        probe = subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest(f"no mount namespace here: {probe.stderr.strip()}")
        (self.folder / "small").mkdir()
        work = "head -c 5000000 /dev/zero | tr '\\0' 'x' | fold -w 99; touch done$RANK; echo still here >&2"
        script = (f"mount -t tmpfs -o size=1m none small && \"$0\" --standalone --nproc-per-node=2 --no-python -r1 --log-dir=small /bin/sh -c \"$1\" && "
                  "ls small/*/attempt_0/0/stdout.log")
        done = subprocess.run([*namespace, "/bin/sh", "-c", script, str(LAUNCH), work], cwd=self.folder, capture_output=True, text=True,
                              env=self.environment, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list(self.folder.glob("done*"))), 2)
        self.assertEqual(done.stderr.count("still here"), 2)
        self.assertEqual(done.stderr.count("log files end here, the run goes on without them"), 1, done.stderr)
        self.assertIn("No space left on device", done.stderr)


if __name__ == "__main__":
    unittest.main()
