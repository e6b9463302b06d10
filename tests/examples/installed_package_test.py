"""The example loops, built as a user's project against the installed package: how much the port changes, and that it trains the same."""
import difflib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ["LR_BIN"])
TORCH = pathlib.Path(os.environ["LR_TORCH_ROOT"])
ROWS = 24  # of one update of the plain loop
EPOCHS, UPDATES = 3, 12  # 96 rows an epoch


def run(*command, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "ACCELERATE_", "TORCHELASTIC_", "LR_"))}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        kept.pop(name, None)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, check=False,
                          env={**kept, "OMP_NUM_THREADS": "1", **environment})
    return done.returncode, done.stdout, done.stdout + done.stderr


class InstalledPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lr-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.prefix = cls.folder / "prefix"
        cls.must("cmake", "--install", BIN.parent, "--prefix", cls.prefix, "--component", "library")
        project = cls.folder / "project"  # outside of the tree: nothing is found by accident
        project.mkdir()
        for file in ("CMakeLists.txt", "plain.cc", "ported.cc"):
            shutil.copy(SOURCE / file, project)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        cls.build = cls.folder / "build"
        cls.must("cmake", "-G", "Ninja", "-S", project, "-B", cls.build, f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DLR_TORCH_ROOT={TORCH}",
                 *launcher)
        cls.must("cmake", "--build", cls.build)

    @classmethod
    def must(cls, *command):
        code, _, output = run(*command)
        if code != 0:
            raise AssertionError(f"{' '.join(str(word) for word in command)}\n{output[-6000:]}")
        return output

    def losses_of(self, ranks, accumulation, shard):
        """Mean over ranks and accumulated passes, by update."""
        rows = ROWS // ranks // accumulation
        arguments = (self.build / "ported", rows, 3 * ranks, accumulation, shard)
        if ranks == 1:
            code, output, everything = run(*arguments)
            self.assertEqual(code, 0, everything)
            by_rank = [output]
        else:
            logs = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            code, _, everything = run(BIN / "lr-launch", "--standalone", f"--nproc-per-node={ranks}", f"--log-dir={logs}", "--redirects=1",
                                      "--no-python", *arguments, XDG_STATE_HOME=str(self.folder / "state"))
            self.assertEqual(code, 0, everything)
            by_rank = [path.read_text() for path in sorted(logs.glob("**/stdout.log"))]
        self.assertEqual(len(by_rank), ranks)
        losses = [[float(line) for line in text.split()] for text in by_rank]
        self.assertEqual({len(one) for one in losses}, {UPDATES * accumulation})
        passes = [sum(of_pass) / ranks for of_pass in zip(*losses)]
        return [sum(passes[i:i + accumulation]) / accumulation for i in range(0, len(passes), accumulation)]

    def test_the_port_changes_fewer_than_ten_lines(self):
        plain, ported = ((SOURCE / name).read_text().splitlines() for name in ("plain.cc", "ported.cc"))
        changed = [line for line in difflib.ndiff(plain, ported) if line.startswith("+ ")]
        self.assertLess(len(changed), 10, "\n".join(changed))

    def test_the_port_trains_like_the_plain_loop(self):
        plain = [float(line) for line in self.must(self.build / "plain", ROWS, 3).split()]
        self.assertEqual(len(plain), UPDATES)
        self.assertLess(plain[-1], plain[0] / 2)
        worst = 0.0
        for ranks in (1, 2, 4):
            for shard in (1, -1):
                for accumulation in (1, 2):
                    with self.subTest(ranks=ranks, shard=shard, accumulation=accumulation):
                        ported = self.losses_of(ranks, accumulation, shard)
                        difference = max(abs(a - b) / abs(a) for a, b in zip(plain, ported))
                        worst = max(worst, difference)
                        self.assertLess(difference, 1e-5)
        print(f"largest relative difference of a loss to the plain loop: {worst:.1e}")

    def test_a_missing_libtorch_is_named(self):
        code, _, output = run("cmake", "-G", "Ninja", "-S", self.folder / "project", "-B", self.folder / "without",
                              f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertNotEqual(code, 0)
        self.assertIn("set LR_TORCH_ROOT to its folder", " ".join(output.split()))

    def test_refusals_name_the_way_out(self):
        code, _, output = run(self.build / "ported", 4, 1, 0)
        self.assertNotEqual(code, 0)
        self.assertIn("gradient_accumulation.steps=0: must be at least 1", output)


if __name__ == "__main__":
    unittest.main()
