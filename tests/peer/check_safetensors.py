#!/usr/bin/env python3
"""Reads safetensors files with the reference package (NumPy interface, no torch) and prints, for each tensor in order of
its name, dtype, shape and the SHA-256 of its bytes; then the metadata. With --rewrite DIR each file is written again by
the reference writer and compared: exit status 1 unless all are byte-identical.

    check_safetensors.py [--rewrite DIR] FILE...

Needs: pip install numpy safetensors.
"""
import argparse
import hashlib
import pathlib
import sys

import safetensors
import safetensors.numpy


def describe(path):
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    print(path)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest = hashlib.sha256(tensor.tobytes()).hexdigest()
        print(f"  {name!r} {tensor.dtype} {list(tensor.shape)} {digest}")
    print(f"  metadata {metadata!r}")
    return tensors, metadata


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewrite", type=pathlib.Path, metavar="DIR")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    different = []
    for number, path in enumerate(args.files):
        tensors, metadata = describe(path)
        if args.rewrite:
            copy = args.rewrite / f"{number}_{path.name}"
            safetensors.numpy.save_file(tensors, copy, metadata=metadata)
            if copy.read_bytes() != path.read_bytes():
                different.append(str(path))
    if different:
        sys.exit("not byte-identical to the reference writer's: " + ", ".join(different))


if __name__ == "__main__":
    main()
