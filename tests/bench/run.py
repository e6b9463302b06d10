#!/usr/bin/env python3
"""Measures the built programs and prints ratios; against the Python trainer when its environment is given.

    tests/bench/run.py [--build build/release] [--peer-python PATH/bin/python] [--only NAME …] [--json FILE]

Absolute figures are those of this machine at this moment: quote the ratios. Each figure is the median of --repeat runs unless it
says otherwise; ours and the peer's alternate, so that both see the same machine. Each line ends with the bounds (those of the design) and
whether they held. launch, propagation, rendezvous, control and logs need no LibTorch (preset `control`); small and default do, loader
the preset `bench`. The peer of launch and propagation is torchrun.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import socket
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


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bench:
    NAMES = ["launch", "propagation", "rendezvous", "control", "logs", "small", "default", "loader"]

    def __init__(self, options):
        self.bin = pathlib.Path(options.build) / "bin"
        self.peer = pathlib.Path(options.peer_python).parent if options.peer_python else None
        self.peer_arguments = options.peer_arguments.split()
        self.repeat = options.repeat
        self.rows = []

    def report(self, name, unit, ours, peer=None, limit=None, ratio_limit=None, smaller_is_better=True):
        """Prints and keeps one figure: the median, its bound, the ratio to the peer and that one's bound."""
        mine = statistics.median(ours)
        row = {"name": name, "unit": unit, "ours": mine, "peer": statistics.median(peer) if peer else None, "limit": limit, "ratio_limit": ratio_limit}
        told, held = [], []
        if limit is not None:
            told.append(f"{'<=' if smaller_is_better else '>='} {limit:g} {unit}")
            held.append(mine <= limit if smaller_is_better else mine >= limit)
        if ratio_limit is not None:
            told.append(f">= {ratio_limit:g} x")
        ratio = ""
        if peer:
            row["ratio"] = row["peer"] / mine if smaller_is_better else mine / row["peer"]
            ratio = f"{row['ratio']:6.2f} x better than Python ({row['peer']:.4g})"
            held += [row["ratio"] >= ratio_limit] if ratio_limit is not None else []
        row["held"] = all(held) if held else None
        self.rows.append(row)
        verdict = {None: "", True: "held", False: "MISSED"}[row["held"]]
        print(f"{name:<62} {mine:10.4g} {unit:<10} {ratio:<40} {', '.join(told)} {verdict}", flush=True)

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
        self.report("launch two /bin/true, start to end", "ms", [r[0] * 1e3 for r in mine], [r[0] * 1e3 for r in peer], limit=100, ratio_limit=20)
        self.report("launch two /bin/true, peak memory", "MiB", [r[2] for r in mine], [r[2] for r in peer], limit=20e6 / 2**20)

    def propagation(self):
        """A rank fails while the others wait for it: from its end to the end of every launcher, whose workers are gone by then."""
        for nodes, limit in ((1, 200), (2, 1000)):
            times = [self.fail_once(nodes) for _ in range(10 * self.repeat)]
            peer = [self.fail_once(1, self.peer / "torchrun") for _ in range(self.repeat)] if self.peer and nodes == 1 else None
            self.report(f"a rank fails -> all ended, {nodes} node(s) of 2 ranks", "ms", times, peer, limit=limit)
            self.report(f"a rank fails -> all ended, {nodes} node(s), worst of {len(times)}", "ms", [max(times)], limit=limit)

    def fail_once(self, nodes, launcher=None):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lr-bench-"))
        script = f"touch {folder}/here$RANK; [ $RANK = 1 ] || exec sleep 60; until [ -e {folder}/go ]; do sleep 0.02; done; date +%s%N > {folder}/died; exit 7"
        try:
            port = free_port()
            places = [["--standalone"]] if nodes == 1 else [[f"--nnodes={nodes}", f"--node-rank={rank}", f"--rdzv-endpoint=127.0.0.1:{port}"] for rank in range(nodes)]
            started = [subprocess.Popen([str(launcher or self.bin / "lr-launch"), *place, "--nproc-per-node=2", "--no-python", "/bin/sh", "-c", script],
                                        env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": f"{folder}/state{node}"},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for node, place in enumerate(places)]
            while len(list(folder.glob("here*"))) < 2 * nodes:
                time.sleep(0.01)
            (folder / "go").touch()
            for process in started:
                process.wait()
            return (time.time_ns() - int((folder / "died").read_text())) / 1e6
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def rendezvous(self):
        """Simulated nodes: the host's decisions alone, and real streams of one process that is the host and all nodes at once. Streams of
        10,000 nodes would need more descriptors and processors than one machine has for both sides.
        """
        told = subprocess.run([str(self.bin / "run_scale_test")], capture_output=True, text=True, check=False).stdout
        for nodes, limit in ((1000, 1000), (10_000, 10_000)):
            rows = {name: float(ms) for name, ms in re.findall(rf"^{nodes} nodes, (.*): ([0-9.e+-]+) ms$", told, re.M)}
            self.report(f"{nodes} nodes, decisions: last join -> go for all", "ms", [rows["last join -> GO for all"]], limit=limit)
            self.report(f"{nodes} nodes, decisions: a node is lost -> stop for all", "ms", [rows["a node is lost -> STOP for all"]], limit=1000 if nodes == 1000 else 2000)
        forms, stops = [], []
        for _ in range(self.repeat):
            told = subprocess.run([str(self.bin / "many_nodes_test")], env={**os.environ, "LR_NODES": "1000"}, capture_output=True, text=True, check=False).stdout
            form, stop = (re.search(rf"{words} all 1000 nodes: ([0-9.e+]+) ms", told) for words in ("last join -> go on", "a rank ends -> stop on"))
            if not form or not stop:
                sys.exit(f"bench: 1000 nodes did not form\n{told[-3000:]}")
            forms.append(float(form.group(1)))
            stops.append(float(stop.group(1)))
        self.report(f"1000 nodes, streams: last join -> go on all, best of {self.repeat}", "ms", [min(forms)], limit=1000)
        self.report(f"1000 nodes, streams: a rank ends -> stop on all, best of {self.repeat}", "ms", [min(stops)], limit=1000)

    def control(self):
        """Steps of 9 ms of the stand-in trainer, two ranks, with and without the stream to the launcher."""
        trainer, steps = [str(self.bin / "pretend/lr-train"), "--steps=420", "--step-ms=9", "--measure"], {}
        for _ in range(self.repeat):
            for name, program in (("with", trainer), ("without", ["/usr/bin/env", "-u", "LR_CONTROL_SOCKET", *trainer])):
                folder = tempfile.mkdtemp(prefix="lr-bench-")
                done = subprocess.run([str(self.bin / "lr-launch"), "--standalone", "--nproc-per-node=2", *program], capture_output=True, text=True, check=True,
                                      env={**os.environ, "XDG_STATE_HOME": folder, "XDG_RUNTIME_DIR": folder})
                shutil.rmtree(folder, ignore_errors=True)
                steps.setdefault(name, []).extend(tuple(map(float, told)) for told in re.findall(r"step ([0-9.]+) us, processor ([0-9.]+) us", done.stdout))
        for index, what in enumerate(("time of a step", "processor time of a worker")):
            alone, told = (statistics.median(step[index] for step in steps[name]) for name in ("without", "with"))
            self.report(f"control stream, {what}, added to steps of 9 ms", "%", [(told - alone) / 9000 * 100], limit=1)

    def logs(self):
        """Bytes of a worker through the launcher, against `cat | cat` of the same bytes; nothing may be missing in the files."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lr-bench-"))
        text = folder / "text"
        block = b"".join(b"step %6d loss 0.%04d of a line as trainers write them, about a hundred bytes long, so that lines count\n" % (i, i % 9999)
                         for i in range(10_000))
        text.write_bytes(block * (400_000_000 // len(block)))
        size = text.stat().st_size

        def through_launcher(*options):
            logs = folder / "logs"
            launch = [str(self.bin / "lr-launch"), "--standalone", "--no-python", *options, f"--log-dir={logs}", "/bin/cat", str(text)]
            start, shown = time.perf_counter(), 0
            with subprocess.Popen(launch, env={**os.environ, "XDG_STATE_HOME": str(folder)}, stdout=subprocess.PIPE, bufsize=0) as process:
                while part := process.stdout.read(1 << 20):
                    shown += len(part)
            seconds = time.perf_counter() - start
            for written in logs.rglob("stdout.log"):
                if subprocess.run(["cmp", "-s", str(text), str(written)], check=False).returncode != 0:
                    sys.exit(f"bench: {written} differs from what the worker wrote")
            shutil.rmtree(logs)
            return size / seconds / 1e6, shown / size

        def through_cat():
            start = time.perf_counter()
            subprocess.run(["/bin/sh", "-c", 'cat "$0" | cat > "$1"', str(text), str(folder / "copy")], check=True)
            seconds = time.perf_counter() - start
            (folder / "copy").unlink()
            return size / seconds / 1e6

        for name, option in (("file", "-r1"), ("terminal", "-r0"), ("file and terminal", "-t1")):
            mine, cat = [], []
            for _ in range(self.repeat):
                cat.append(through_cat())
                mine.append(through_launcher(option))
            self.report(f"log path: worker to {name}", "MB/s", [speed for speed, _ in mine], limit=200, smaller_is_better=False)
            told = f"{statistics.median(speed for speed, _ in mine) / statistics.median(cat):.2f} x cat | cat of the same bytes"
            print(f"{'':<62} {told}; of them on the terminal: {min(shown for _, shown in mine):.2f} x")
        shutil.rmtree(folder)

    def training(self, name, extra, steps, ranks):
        mine, peer = self.pairs(lambda: self.train(ranks, False, extra, steps), lambda: self.train(ranks, True, extra, steps))

        def rate(output):  # samples/s from the mean step time without the first two steps
            times = [float(t) for t in re.findall(r" step_s:([0-9.]+)", output)][2:]
            if not times:  # older releases print only the parts
                times = [float(a) + float(b) for a, b in re.findall(r" updt_s:([0-9.]+) data_s:([0-9.]+)", output)][2:]
            return 8 * ranks / statistics.mean(times)

        self.report(f"{name}, {ranks} rank(s): command to first step", "s", [r[1] for r in mine], [r[1] for r in peer], ratio_limit=5)
        self.report(f"{name}, {ranks} rank(s): throughput", "samples/s", [rate(r[3]) for r in mine], [rate(r[3]) for r in peer], ratio_limit=1.15,
                    smaller_is_better=False)
        self.report(f"{name}, {ranks} rank(s): peak memory per rank", "MiB", [r[2] for r in mine], [r[2] for r in peer], ratio_limit=1 / 0.6)

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
            self.report(f"loader, two cameras, {workers} workers", "items/s", mine, peer, ratio_limit=2, smaller_is_better=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--peer-python", help="python of an environment that has lerobot and torch installed")
    parser.add_argument("--peer-arguments", default="", help="further trainer flags for the peer, for example --dataset.video_backend=pyav")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=Bench.NAMES)
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    bench = Bench(options)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the first figure")
    for name in options.only or Bench.NAMES:
        getattr(bench, name)()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(bench.rows, indent=1))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
