"""What the launcher's tests share: running lr-launch with small programs and looking at the processes it leaves."""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

BIN = pathlib.Path(os.environ["LR_BIN"])
LAUNCH = BIN / "lr-launch"
TIMEOUT_S = 60


def clean_environment(**extra):
    """The machine's environment without what another launcher or a tool may have left in it."""
    foreign = ("PET_", "ACCELERATE_", "TORCHELASTIC_", "LR_", "SLURM_", "FSDP_")
    keep = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHON_EXEC"):
        keep.pop(name, None)
    keep.update(extra)
    return keep


def wait_until(condition, timeout=TIMEOUT_S):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

# Time and memory of a build with sanitizers are not the product's.
plain_build = unittest.skipIf(os.environ.get("LR_SANITIZE"), "a bound of builds without sanitizers")


class LaunchTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lr-launch-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.mark = uuid.uuid4().hex  # in the environment of everything a test starts
        self.environment = clean_environment(XDG_STATE_HOME=str(self.folder / "state"), XDG_RUNTIME_DIR=str(self.folder),
                                             LR_TEST_MARK=self.mark)
        self.addCleanup(self.kill_survivors)

    def survivors(self):
        """pid -> command line of living processes that carry this test's mark, the launcher included."""
        found = {}
        needle = f"LR_TEST_MARK={self.mark}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if needle in (entry / "environ").read_bytes().split(b"\0"):
                    state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                    if state not in "ZX":
                        found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
        return found

    def kill_survivors(self):
        for pid in self.survivors():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def file(self, name, text, mode=0o644):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def start(self, *arguments, **options):
        """Popen of lr-launch; a test that waits reads the pipes."""
        environment = {**self.environment, **options.pop("env", {})}
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([str(LAUNCH), *map(str, arguments)], env=environment, cwd=self.folder, **options)

        def stop():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(stop)
        return process

    def finish(self, process, expect=None, timeout=TIMEOUT_S):
        out, err = process.communicate(timeout=timeout)
        out, err = (t.decode(errors="surrogateescape") if t is not None else "" for t in (out, err))
        if expect is not None:
            self.assertEqual(process.returncode, expect, f"{process.args}\n--- stdout\n{out}\n--- stderr\n{err}")
        return out, err

    def launch(self, *arguments, expect=0, **options):
        """Runs lr-launch to its end; returns (stdout, stderr)."""
        return self.finish(self.start(*arguments, **options), expect)

    def shell(self, script, *, nproc=2, expect=0, options=(), **more):
        """Runs a /bin/sh script as the workers."""
        return self.launch("--standalone", f"--nproc-per-node={nproc}", "--no-python", *options, "/bin/sh", "-c", script, expect=expect, **more)

    def start_shell(self, script, *, nproc=2, options=(), **more):
        return self.start("--standalone", f"--nproc-per-node={nproc}", "--no-python", *options, "/bin/sh", "-c", script, **more)

    def wait_ready(self, count, process=None):
        """Workers that run `touch ready$RANK` are there."""
        done = lambda: len(list(self.folder.glob("ready*"))) >= count or (process is not None and process.poll() is not None)
        self.assertTrue(wait_until(done), "the workers did not start")
        if len(list(self.folder.glob("ready*"))) < count:
            self.fail(f"the launcher ended early: {process.communicate()}")


def tests_of(suite):
    for part in suite:
        yield from tests_of(part) if isinstance(part, unittest.TestSuite) else [part]


def run_side_by_side(lanes=4):
    """unittest.main() for a file whose tests mostly wait: so many of them at a time, each told when it ends. Arguments: names of tests.

    A test has its own object, folder and mark, so it needs to know nothing of the others.
    """
    loader = unittest.defaultTestLoader
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    module = sys.modules["__main__"]
    tests = list(tests_of(loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)))

    def run_one(test):
        result, start = unittest.TestResult(), time.monotonic()
        test.run(result)
        wrong = [text for _, text in [*result.failures, *result.errors]] + [f"{one}: passes, but was expected to fail" for one in result.unexpectedSuccesses]
        skipped = "".join(f"skipped: {why}" for _, why in result.skipped)
        print(f"{test.id().removeprefix('__main__.')} ... {'FAILED' if wrong else skipped or 'ok'} ({time.monotonic() - start:.1f} s)", flush=True)
        return "".join(f"{'=' * 70}\n{test.id()}\n{text}\n" for text in wrong)

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        wrong = [text for text in pool.map(run_one, tests) if text]
    print(f"{''.join(wrong)}{len(tests)} tests in {time.monotonic() - start:.1f} s: {f'{len(wrong)} FAILED' if wrong else 'ok'}")
    sys.exit(1 if wrong or not tests else 0)


PYTHON = sys.executable
