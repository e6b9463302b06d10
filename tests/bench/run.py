#!/usr/bin/env python3
"""Measures the built programs and prints ratios; against the Python trainer when its environment is given.

    tests/bench/run.py [--build build/release] [--peer-python PATH/bin/python] [--only NAME …] [--json FILE]

Absolute figures are those of this machine at this moment: quote the ratios. Each figure is the median of --repeat runs;
ours and the peer's alternate, so that both see the same machine. Bounds are those of design section 8.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATASET = ROOT / "tests/data/dataset_reach"
SMALL = ["--policy.dim_model=32", "--policy.n_heads=2", "--policy.dim_feedforward=64", "--policy.n_encoder_layers=2",
         "--policy.n_vae_encoder_layers=1", "--policy.chunk_size=8", "--policy.n_action_steps=8", "--policy.latent_dim=8"]
COMMON = ["--dataset.repo_id=lr/reach", f"--dataset.root={DATASET}", "--policy.type=act", "--policy.device=cpu",
          "--policy.push_to_hub=false", "--policy.pretrained_backbone_weights=null", "--batch_size=8", "--log_freq=1", "--seed=1000"]


def run(command, env=None, until=None):
    """Runs a command to its end; (seconds, seconds until a line matched `until`, peak MiB of the largest process, stderr)."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **(env or {})}
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    text, seen = [], None
    for line in process.stderr:
        if until and seen is None and re.search(until, line):
            seen = time.perf_counter() - start
        text.append(line)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    output = "".join(text)
    if process.returncode != 0:
        sys.exit(f"bench: exit {process.returncode}: {' '.join(map(str, command))}\n{output[-3000:]}")
    return seconds, seen, usage.ru_maxrss / 1024, output


class Bench:
    def __init__(self, options):
        self.bin = pathlib.Path(options.build) / "bin"
        self.peer = pathlib.Path(options.peer_python).parent if options.peer_python else None
        self.peer_arguments = options.peer_arguments.split()
        self.repeat = options.repeat
        self.rows = []

    def report(self, name, unit, ours, peer=None, bound="", smaller_is_better=True):
        mine = statistics.median(ours)
        row = {"name": name, "unit": unit, "ours": mine, "peer": statistics.median(peer) if peer else None, "bound": bound}
        ratio = ""
        if peer:
            row["ratio"] = row["peer"] / mine if smaller_is_better else mine / row["peer"]
            ratio = f"{row['ratio']:6.2f} x better than Python ({row['peer']:.4g})"
        self.rows.append(row)
        print(f"{name:<52} {mine:10.4g} {unit:<10} {ratio:<40} {bound}", flush=True)

    def trainer(self, ranks, python):
        if python:
            program = str(self.peer / "lerobot-train")
            return [program] if ranks == 1 else [str(self.peer / "torchrun"), "--standalone", f"--nproc-per-node={ranks}", program]
        program = str(self.bin / "lr-train")
        return [program] if ranks == 1 else [str(self.bin / "lr-launch"), "--standalone", f"--nproc-per-node={ranks}", program]

    def train(self, ranks, python, extra, steps):
        folder = tempfile.mkdtemp(prefix="lr-bench-")
        try:
            return run([*self.trainer(ranks, python), *COMMON, *extra, *(self.peer_arguments if python else []), f"--steps={steps}", "--save_checkpoint=false",
                        f"--output_dir={folder}/run"], {"XDG_STATE_HOME": folder}, r" step:1 ")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def pairs(self, ours, theirs):
        mine, peer = [], []
        for _ in range(self.repeat):
            mine.append(ours())
            if self.peer:
                peer.append(theirs())
        return mine, peer

    def launch(self):
        arguments = ["--standalone", "--nproc-per-node=2", "--no-python", "/bin/true"]
        folder = tempfile.mkdtemp(prefix="lr-bench-")
        mine, peer = self.pairs(lambda: run([str(self.bin / "lr-launch"), *arguments], {"XDG_STATE_HOME": folder}),
                                lambda: run([str(self.peer / "torchrun"), *arguments]))
        shutil.rmtree(folder, ignore_errors=True)
        self.report("launch two /bin/true, start to end", "ms", [r[0] * 1e3 for r in mine], [r[0] * 1e3 for r in peer], "<= 100 ms, >= 20 x")
        self.report("launch two /bin/true, peak memory", "MiB", [r[2] for r in mine], [r[2] for r in peer], "<= 20 MB")

    def logs(self):
        """Bytes of a worker through the launcher into its log file, against `cat | cat` of the same bytes; nothing may be missing."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lr-bench-"))
        text, size = folder / "text", 400_000_000
        with open(text, "wb") as out:
            block = b"".join(b"step %6d loss 0.%04d of a line as trainers write them, about a hundred bytes long, so that lines count\n" % (i, i % 9999)
                             for i in range(10_000))
            while out.tell() < size:
                out.write(block)
        size = text.stat().st_size

        def through_launcher():
            logs = folder / "logs"
            launch = [str(self.bin / "lr-launch"), "--standalone", "--no-python", "-r1", f"--log-dir={logs}", "/bin/cat", str(text)]
            seconds = run(launch, {"XDG_STATE_HOME": str(folder)})[0]
            written = next(logs.rglob("stdout.log"))
            if subprocess.run(["cmp", "-s", str(text), str(written)], check=False).returncode != 0:
                sys.exit(f"bench: {written} differs from what the worker wrote")
            shutil.rmtree(logs)
            return size / seconds / 1e6

        def through_cat():
            start = time.perf_counter()
            subprocess.run(["/bin/sh", "-c", 'cat "$0" | cat > "$1"', str(text), str(folder / "copy")], check=True)
            seconds = time.perf_counter() - start
            (folder / "copy").unlink()
            return size / seconds / 1e6

        mine, cat = [], []
        for _ in range(self.repeat):
            cat.append(through_cat())
            mine.append(through_launcher())
        shutil.rmtree(folder)
        self.report("log path: worker to file", "MB/s", mine, None, ">= 200 MB/s (Q-6)")
        print(f"{'':<52} {statistics.median(mine) / statistics.median(cat):10.2f} x cat | cat of the same bytes")

    def training(self, name, extra, steps, ranks):
        mine, peer = self.pairs(lambda: self.train(ranks, False, extra, steps), lambda: self.train(ranks, True, extra, steps))

        def rate(output):  # samples/s from the mean step time without the first two steps
            times = [float(t) for t in re.findall(r" step_s:([0-9.]+)", output)][2:]
            if not times:  # older releases print only the parts
                times = [float(a) + float(b) for a, b in re.findall(r" updt_s:([0-9.]+) data_s:([0-9.]+)", output)][2:]
            return 8 * ranks / statistics.mean(times)

        self.report(f"{name}, {ranks} rank(s): command to first step", "s", [r[1] for r in mine], [r[1] for r in peer], ">= 5 x")
        self.report(f"{name}, {ranks} rank(s): throughput", "samples/s", [rate(r[3]) for r in mine], [rate(r[3]) for r in peer], ">= 1.15 x",
                    smaller_is_better=False)
        self.report(f"{name}, {ranks} rank(s): peak memory per rank", "MiB", [r[2] for r in mine], [r[2] for r in peer], "<= 0.6 x Python")

    def small(self):
        for ranks in (1, 2):
            self.training("ACT small", SMALL, 14, ranks)

    def default(self):
        for ranks in (1, 2):
            self.training("ACT default", [], 8, ranks)

    def loader(self):
        program = self.bin / "lr-bench-loader"
        if not program.exists():
            print("loader: build with the preset 'bench' (-DLR_BENCH=ON)")
            return
        def rate(command):
            done = subprocess.run([*map(str, command)], env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=True)
            return float(re.search(r"([0-9.]+) items/s", done.stdout).group(1))

        script = pathlib.Path(__file__).with_name("peer_loader.py")
        for workers in (0, 2):
            mine, peer = self.pairs(lambda w=workers: rate([program, DATASET, w]),
                                    lambda w=workers: rate([self.peer / "python", script, DATASET, w]))
            self.report(f"loader, two cameras, {workers} workers", "items/s", mine, peer, ">= 2 x", smaller_is_better=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--peer-python", help="python of an environment that has lerobot and torch installed")
    parser.add_argument("--peer-arguments", default="", help="further trainer flags for the peer, for example --dataset.video_backend=pyav")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=["launch", "logs", "small", "default", "loader"])
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    bench = Bench(options)
    for name in options.only or ["launch", "logs", "small", "default", "loader"]:
        getattr(bench, name)()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(bench.rows, indent=1))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
