"""What workers write and read: prefixes, whole lines, raw bytes, standard input."""
import os
import subprocess
import time
import unittest

from launch_harness import LaunchTest


class Output(LaunchTest):
    def test_prefixes(self):
        out, err = self.shell("echo out; echo err >&2", nproc=3, env={"OMP_NUM_THREADS": "1"})
        self.assertEqual(sorted(out.splitlines()), [f"[default{i}]:out" for i in range(3)])
        self.assertEqual(sorted(err.splitlines()), [f"[default{i}]:err" for i in range(3)])

    def test_one_worker_is_passed_on_byte_for_byte(self):
        out, err = self.launch("--standalone", "--no-python", "/bin/sh", "-c", r"printf '10%%\r20%%\r'; printf '\377\001no newline'; printf err >&2")
        self.assertEqual(out.encode(errors="surrogateescape"), b"10%\r20%\r\xff\x01no newline")
        self.assertEqual(err, "err")

    def test_lines_never_mix(self):
        script = self.file("chatter.py", "import os, sys\nfor i in range(5000):\n  sys.stdout.write('x' * (i % 200)); sys.stdout.write(f' end {os.environ[\"RANK\"]}\\n')\n")
        out, _ = self.launch("--standalone", "--nproc-per-node=4", script)
        lines = out.splitlines()
        self.assertEqual(len(lines), 20000)
        for line in lines:
            self.assertRegex(line, r"^\[default(\d)\]:x* end \1$")

    def test_partial_line_appears(self):
        process = self.start_shell("printf 'question? '; while ! [ -e go ]; do sleep 0.02; done")
        start = time.monotonic()
        text = b""
        while text.count(b"question?") < 2 and time.monotonic() - start < 5:
            text += os.read(process.stdout.fileno(), 1000)
        self.assertIn(b"[default0]:question? ", text)
        self.assertIn(b"[default1]:question? ", text)
        (self.folder / "go").touch()
        self.finish(process, 0)

    def test_stdin_of_one_worker(self):
        process = self.start("--standalone", "--no-python", "/bin/cat", stdin=subprocess.PIPE)
        out, _ = process.communicate(b"typed\n", timeout=30)
        self.assertEqual((process.returncode, out), (0, b"typed\n"))

    def test_several_workers_read_nothing(self):
        process = self.start("--standalone", "--nproc-per-node=2", "--no-python", "/bin/cat", stdin=subprocess.PIPE)
        out, _ = process.communicate(b"typed\n", timeout=30)
        self.assertEqual((process.returncode, out), (0, b""))

    def test_volume(self):
        start = time.monotonic()
        process = self.start_shell("head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 200 > big; cat big", nproc=1, stdout=subprocess.DEVNULL)
        self.finish(process, 0)
        print(f"100 MB through the launcher, with making them: {time.monotonic() - start:.2f} s")

    def test_log_directory(self):
        write = "echo '{\"message\": \"m\"}' > $TORCHELASTIC_ERROR_FILE; touch wrote.$LOCAL_RANK; "
        wait = "until [ -e wrote.0 ] && [ -e wrote.1 ]; do sleep 0.01; done; "  # the first failure stops the other
        self.shell(write + wait + "exit 1", expect=1, options=["--log-dir=logs", "--rdzv-id=ignored"])
        files = sorted(str(p.relative_to(self.folder / "logs")) for p in (self.folder / "logs").rglob("error.json"))
        self.assertEqual([f.split("/", 1)[1] for f in files], ["attempt_0/0/error.json", "attempt_0/1/error.json"])


if __name__ == "__main__":
    unittest.main()
