"""What workers write and read: prefixes, whole lines, raw bytes, standard input."""
import os
import re
import socket
import subprocess
import time
import unittest

from launch_harness import LaunchTest

HOST = socket.gethostname().split(".")[0]


class Output(LaunchTest):
    def test_prefixes(self):
        show = lambda *options, **more: self.shell("echo out; echo err >&2", nproc=2, options=options, env={"OMP_NUM_THREADS": "1", **more})
        for options, variables, prefixes in (((), {}, ["", ""]), (("--log-prefix=role",), {}, ["[default0]:", "[default1]:"]),
                                             (("--log-prefix=role", "--role=t"), {}, ["[t0]:", "[t1]:"]),
                                             (("--log-prefix=node-rank",), {}, [f"{HOST}:0: ", f"{HOST}:1: "]),
                                             (("--log-prefix=role", "--log-line-prefix-template=${hostname}/$rank "), {}, [f"{HOST}/0 ", f"{HOST}/1 "])):
            out, err = show(*options, **variables)
            self.assertEqual(sorted(out.splitlines()), [f"{prefix}out" for prefix in prefixes])
            self.assertEqual(sorted(err.splitlines()), [f"{prefix}err" for prefix in prefixes])

    def test_one_worker_is_passed_on_byte_for_byte(self):
        out, err = self.launch("--standalone", "--no-python", "/bin/sh", "-c", r"printf '10%%\r20%%\r'; printf '\377\001no newline'; printf err >&2")
        self.assertEqual(out.encode(errors="surrogateescape"), b"10%\r20%\r\xff\x01no newline")
        self.assertEqual(err, "err")

    def test_lines_never_mix(self):
        script = self.file("chatter.py", "import os, sys\nfor i in range(10000):\n  sys.stdout.write(os.environ[\"RANK\"] + ' '); sys.stdout.write('x' * (i % 100)); sys.stdout.write(f' end {os.environ[\"RANK\"]}\\n')\n")
        for options, prefix in (((), ""), (("--log-prefix=role",), r"\[default(\d)\]:")):
            out, _ = self.launch("--standalone", "--nproc-per-node=8", *options, script)
            lines = out.splitlines()
            self.assertEqual(len(lines), 80000)
            self.assertEqual([line for line in lines if not re.fullmatch(prefix + r"(\d) x* end \1", line)], [])

    def test_partial_line_appears(self):
        process = self.start_shell("printf 'question? '; while ! [ -e go ]; do sleep 0.02; done")
        start = time.monotonic()
        text = b""
        while text.count(b"question?") < 2 and time.monotonic() - start < 5:
            text += os.read(process.stdout.fileno(), 1000)
        self.assertEqual(text.count(b"question? "), 2)
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


if __name__ == "__main__":
    unittest.main()
