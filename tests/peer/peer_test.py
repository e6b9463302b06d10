"""What we write, read by the real Python libraries, bit for bit. Label `peer`: builds a throw-away environment of its own.

    tools/test.sh -L peer                             (torch and safetensors from the package index, once, into the build folder)
    LR_PEER_PYTHON=/venv/bin/python tools/test.sh -L peer      an environment that is there
"""
import os
import pathlib
import subprocess
import sys
import unittest

from peer_environment import peer_python

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "train"))
from sharded_run import SAVED, ShardedRun  # noqa: E402
from train_harness import BIN  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = None

# Loads a directory with torch's own reader into full tensors; compares those that a safetensors file has, bit for bit.
READ_BACK = """
import sys, torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
directory, prefix, reference = sys.argv[1:4]
metadata = dcp.FileSystemReader(directory).read_metadata().state_dict_metadata
state = {k: torch.zeros(v.size, dtype=v.properties.dtype) for k, v in metadata.items() if hasattr(v, "size")}
dcp.load(state, storage_reader=dcp.FileSystemReader(directory))
if reference:
    wanted = {prefix + k: v for k, v in load_file(reference).items()}
    assert set(wanted) == set(state), set(wanted) ^ set(state)
    for key, tensor in wanted.items():
        assert torch.equal(tensor.view(torch.uint8).reshape(-1) if tensor.dim() else tensor, state[key].view(torch.uint8).reshape(-1) if tensor.dim() else state[key]), key
for key, tensor in state.items():
    assert torch.isfinite(tensor.float()).all(), key
print(len(state), sorted({k.split(".")[-1] for k in state if k.startswith("optimizer.state")}))
"""


def setUpModule():
    global PYTHON
    PYTHON = peer_python()


class Peer(ShardedRun):
    def python(self, *arguments):
        done = subprocess.run([PYTHON, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-4000:])
        return done.stdout

    def test_torch_reads_the_shards_of_a_training_run(self):
        for ranks, layout in ((2, (1, 2)), (3, (1, 3)), (4, (1, 4)), (4, (2, 2))):
            with self.subTest(layout=layout):
                name = f"{layout[0]}x{layout[1]}"
                self.run_whole(name, ranks, layout, "safetensors_dcp")
                step = self.step_of(name, SAVED)
                model = step / "pretrained_model"
                self.python("-c", READ_BACK, model / "pytorch_model_fsdp_0", "model.", model / "model.safetensors")
                told = self.python("-c", READ_BACK, step / "training_state/optimizer_0", "", "")
                self.assertIn("['exp_avg', 'exp_avg_sq', 'step']", told)

    def test_safetensors_files_are_the_reference_writers(self):
        self.run_whole("alone", 1, (1, 1))
        step = self.step_of("alone", SAVED)
        self.python(HERE / "check_safetensors.py", "--rewrite", self.folder, *step.rglob("*.safetensors"))

    def test_dcp_directories_of_one_to_four_ranks(self):
        out = self.folder / "dcp"
        out.mkdir()
        subprocess.run([str(BIN / "sharded_state_test"), "--gtest_also_run_disabled_tests", "--gtest_filter=*WritesForThePeer"],
                       env={**os.environ, "LR_DCP_OUT": str(out)}, check=True, capture_output=True, timeout=300)
        self.python(HERE / "check_dcp.py", out)


if __name__ == "__main__":
    unittest.main()
