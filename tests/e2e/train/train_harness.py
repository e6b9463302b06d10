"""What the training tests share: starting real programs, reading their exact numbers, trees of files."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

DATA = pathlib.Path(os.environ["LR_TEST_DATA"])
BIN = pathlib.Path(os.environ["LR_BIN"])
PROBE = BIN / "lr-train-probe"  # lr-train with an observer that writes every step's exact numbers
LAUNCH = BIN / "lr-launch"
TIMEOUT_S = 240


def clean_environment(**extra):
    """The machine's environment without launcher variables; the reference kernels (AVX2), one thread per rank."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "ACCELERATE_", "TORCHELASTIC_", "LR_"))}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        keep.pop(name, None)
    keep.update(ATEN_CPU_CAPABILITY="avx2", OMP_NUM_THREADS="1", **extra)
    return keep


class TrainingTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lr-train-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def reference(self, name):
        return json.loads((DATA / "train_runs" / name / "run.json").read_text())

    def arguments_of(self, name):
        """The trainer's arguments of a recorded run, with its folders replaced by ours."""
        arguments = []
        for argument in self.reference(name)["command"]:
            if argument.startswith("--") and "=" in argument:
                argument = argument.replace("<fixtures>", str(DATA)).replace("<runs>", str(self.folder))
                arguments.append(argument)
        return [a for a in arguments if not a.startswith("--nproc")]

    def train(self, arguments, ranks=1, expect=0, program=PROBE, **environment):
        """Runs the trainer, alone or under lr-launch; returns (stderr, exact steps per rank)."""
        probe = pathlib.Path(tempfile.mkdtemp(prefix="probe-", dir=self.folder))
        command = [str(program), *arguments]
        if ranks > 1:
            command = [str(LAUNCH), "--standalone", f"--nproc-per-node={ranks}", "--log-prefix=role", "--no-python", *command]
        done = subprocess.run(command, env=clean_environment(LR_PROBE_DIR=str(probe), XDG_STATE_HOME=str(self.folder / "state"), **environment),
                              cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, expect, f"{' '.join(command)}\n{output[-6000:]}")
        steps = []
        for rank in range(ranks):
            path = probe / f"rank{rank}.jsonl"
            steps.append([json.loads(line) for line in path.read_text().splitlines()] if path.exists() else [])
        return output, steps


def read_safetensors(path):
    """name -> (dtype, shape, raw bytes); reads the format by itself, without the product's code."""
    raw = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    start = 8 + size
    return {name: (e["dtype"], e["shape"], raw[start + e["data_offsets"][0]:start + e["data_offsets"][1]]) for name, e in header.items()}
