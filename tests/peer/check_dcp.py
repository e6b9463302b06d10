#!/usr/bin/env python3
"""Reads distributed checkpoints that our code wrote with real torch and compares them, bit for bit, with the recorded values.

    LR_DCP_OUT=DIR build/release/bin/sharded_state_test --gtest_also_run_disabled_tests --gtest_filter='*WritesForThePeer'
    check_dcp.py DIR [--data tests/data/checkpoints/dcp] [--ranks 3]

Three readers: torch's own into full tensors; torch's conversion to one file; --ranks processes (gloo) whose tensors are
sharded on dim 0, as FSDP2 shards them. Exit status 1 unless everything is equal.

Needs: pip install torch numpy safetensors.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

warnings.filterwarnings("ignore")
DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "checkpoints" / "dcp"


def template(directory, place):
    """The nested state that the metadata describes, filled with zeros."""
    metadata = dcp.FileSystemReader(directory).read_metadata()
    state = {}
    for key, entry in metadata.state_dict_metadata.items():
        value = None
        if isinstance(entry, TensorStorageMetadata):
            value = place(torch.zeros(entry.size, dtype=entry.properties.dtype))
        set_element(state, metadata.planner_data[key], value)
    return metadata, state


def leaf(state, path):
    for part in path:
        state = state[part]
    return state


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(
        a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def compare(directory, data, load, place=lambda t: t):
    """Number of differences; prints them."""
    metadata, state = template(directory, place)
    load(state)
    tensors = load_file(data / "expected.safetensors")
    values = json.loads((data / "expected_values.json").read_text())
    bad = []
    for key, entry in metadata.state_dict_metadata.items():
        value = leaf(state, metadata.planner_data[key])
        if isinstance(entry, TensorStorageMetadata):
            value = value.full_tensor() if isinstance(value, DTensor) else value
            equal = same(value, tensors.pop(key))
        else:
            value = {"tuple": list(value)} if isinstance(value, tuple) else value
            equal = value == values[key] and type(value) is type(values[key])
        if not equal:
            bad.append(f"{directory}: {key} differs")
    kind = "model." if directory.endswith("pytorch_model_fsdp_0") else "optimizer."
    bad += [f"{directory}: {key} is missing" for key in tensors if key.startswith(kind)]
    print("\n".join(bad) or f"equal: {directory}", flush=True)
    return len(bad)


def rank_main(rank, ranks, port, directories, data, failures):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (ranks,))

    def place(tensor):
        return distribute_tensor(tensor, mesh, [Shard(0)]) if tensor.dim() > 0 else tensor

    for directory in directories:
        bad = compare(directory, data, lambda s: dcp.load(s, storage_reader=dcp.FileSystemReader(directory)), place)
        failures.put(bad)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    parser.add_argument("--ranks", type=int, default=3)
    args = parser.parse_args()
    directories = sorted(str(path.parent) for path in args.root.rglob(".metadata"))
    print(f"torch {torch.__version__}, {len(directories)} checkpoints")
    bad = 0 if directories else 1
    for directory in directories:
        bad += compare(directory, args.data, lambda s: dcp.load(s, storage_reader=dcp.FileSystemReader(directory)))
        with tempfile.TemporaryDirectory() as folder:
            dcp_to_torch_save(directory, os.path.join(folder, "x.pt"))
            torch.load(os.path.join(folder, "x.pt"), weights_only=False)
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    port = free_port()
    ranks = [context.Process(target=rank_main, args=(r, args.ranks, port, directories, args.data, failures))
             for r in range(args.ranks)]
    for process in ranks:
        process.start()
    bad += sum(failures.get(timeout=300) for _ in range(len(directories) * args.ranks)) if directories else 0
    for process in ranks:
        process.join()
        bad += process.exitcode != 0
    print("all equal" if not bad else f"{bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
