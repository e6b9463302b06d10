"""Runs of the stand-in trainer (tests/support/saving_train_main.cc) and lr-ctl against them."""
import json
import os
import pathlib
import signal
import subprocess

from launch_harness import BIN, TIMEOUT_S, LaunchTest, free_port, wait_until

TRAINER = BIN / "saving" / "lr-train"


class SavingTest(LaunchTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def train(self, *trainer, nproc=2, options=(), **more):
        """Popen of lr-launch over the stand-in trainer; `trainer`: its arguments."""
        return self.start("--standalone", f"--nproc-per-node={nproc}", f"--log-dir={self.folder}/logs", *options, TRAINER,
                          f"--output_dir={self.out}", *trainer, **more)

    def train_on_two_nodes(self, *trainer, options=(), nnodes="2", ranked=True):
        """Both launchers, each with a state directory of its own, as on two machines."""
        endpoint = f"127.0.0.1:{free_port()}"
        nodes = []
        for node in range(2):
            where = [f"--node-rank={node}"] if ranked else ["--rdzv-backend=c10d", "--rdzv-id=two"]
            nodes.append(self.join_node(node, endpoint, *trainer, options=[*where, *options], nnodes=nnodes))
        return nodes

    def join_node(self, node, endpoint, *trainer, options=(), nnodes="2"):
        state = self.folder / f"state{node}"
        state.mkdir(exist_ok=True)
        return self.start(f"--nnodes={nnodes}", "--nproc-per-node=1", f"--rdzv-endpoint={endpoint}", *options, TRAINER,
                          f"--output_dir={self.out}", *trainer, env={"XDG_STATE_HOME": str(state), "XDG_RUNTIME_DIR": str(state)})

    def wait_steps(self, process, ranks=2):
        """Every rank has finished a step (and waits for nobody any more)."""
        agreed = lambda: len({p.name.split(".")[-1] for p in self.out.glob("agree*/2.*")}) >= ranks
        self.assertTrue(wait_until(lambda: agreed() or process.poll() is not None))
        self.assertTrue(agreed(), "the run ended early")

    def start_ctl(self, *arguments, node=None):
        environment = dict(self.environment)
        if node is not None:
            environment["XDG_STATE_HOME"] = str(self.folder / f"state{node}")
        else:
            arguments = (*arguments[:1], self.run_directory(), *arguments[1:])
        return subprocess.Popen([str(BIN / "lr-ctl"), *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def answer(self, ctl, expect=0):
        """The states that lr-ctl told, as dictionaries."""
        out, err = ctl.communicate(timeout=TIMEOUT_S)
        self.assertEqual(ctl.returncode, expect, out + err)
        return [json.loads(line) for line in out.splitlines()]

    def checkpoint(self, *options, expect=0, node=None):
        return self.answer(self.start_ctl("checkpoint", "--json", *options, node=node), expect)

    def run_directory(self):
        """Once the record of the run is written."""
        told = lambda: [p for p in (self.folder / "logs").glob("*/run.json") if json.loads(p.read_text()).get("state")]
        self.assertTrue(wait_until(told))
        return told()[0].parent

    def record(self):
        return json.loads((self.run_directory() / "run.json").read_text())

    def saves(self, rank):
        """[(step, request)] in order"""
        path = self.out / f"saves.{rank}"
        return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []

    def last(self):
        return int(os.readlink(self.out / "checkpoints" / "last"))

    def workers(self, process):
        """RANK -> pid"""
        found = {}
        for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            try:
                if os.readlink(f"/proc/{pid}/exe") != str(TRAINER.resolve()):
                    continue
                variables = dict(v.split("=", 1) for v in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in v)
            except OSError:
                continue
            found[int(variables["RANK"])] = int(pid)
        return found

    def end(self, process, expect=143):
        process.send_signal(signal.SIGTERM)
        return self.finish(process, expect)
