"""Several machines on one: network namespaces on one bridge, each with its own host name.

Made once per test class and removed with it. Where namespaces cannot be made (no CAP_SYS_ADMIN, no `ip`) the tests are skipped and
say why.
"""
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

LAUNCH = Path(os.environ.get("LR_BIN", "build/release/bin")) / "lr-launch"
TIMEOUT_S = 30
ADDRESSES = ("10.213.77.1", "10.213.77.2", "10.213.77.3")
STORE_PORT = 29500


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10)


def why_not():
    """None, or the reason why there cannot be namespaces here."""
    if shutil.which("ip") is None:
        return "the command `ip` (iproute2) is missing"
    name = f"lr-try-{os.getpid()}"
    made = ip("netns", "add", name)
    if made.returncode != 0:
        return f"`ip netns add` is impossible here: {made.stderr.strip()}"
    ip("netns", "del", name)
    return None


class Node:
    """One lr-launch in one namespace; output goes to files, so that no pipe can fill up."""

    def __init__(self, namespace, host_name, folder, arguments, environment):
        self.out, self.err = folder / f"{host_name}-{time.monotonic_ns()}.out", folder / f"{host_name}-{time.monotonic_ns()}.err"
        rename = 'echo "$1" > /proc/sys/kernel/hostname; shift; exec "$@"'
        command = ["ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", rename, "sh", host_name, str(LAUNCH), *arguments]
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment)

    def wait(self, timeout=TIMEOUT_S):
        return self.process.wait(timeout)

    def running(self):
        return self.process.poll() is None

    def terminate(self):
        self.process.terminate()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def stdout(self):
        return self.out.read_text()

    def stderr(self):
        return self.err.read_text()


class NodesTest(unittest.TestCase):
    MACHINES = 2
    ADDRESSES = ADDRESSES
    PREFIX = 24

    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason is not None:
            raise unittest.SkipTest(reason)
        sides = "abc"[:cls.MACHINES]
        cls.namespaces = [f"lr-{os.getpid()}-{side}" for side in sides]
        cls.switch = f"lr-{os.getpid()}-sw"  # the bridge has its own namespace, so nothing of the host is touched
        cls.ends = [f"lr{os.getpid() % 100000}{side}" for side in sides]  # at the switch; eth0 on each machine
        steps = [["netns", "add", name] for name in (*cls.namespaces, cls.switch)]
        steps += [["-n", cls.switch, "link", "add", "br0", "type", "bridge"], ["-n", cls.switch, "link", "set", "br0", "up"]]
        for name, end, address in zip(cls.namespaces, cls.ends, cls.ADDRESSES):
            steps += [["link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", end, "netns", cls.switch],
                      ["-n", cls.switch, "link", "set", end, "master", "br0"], ["-n", cls.switch, "link", "set", end, "up"],
                      ["-n", name, "addr", "add", f"{address}/{cls.PREFIX}", "dev", "eth0", *(["nodad"] if ":" in address else [])], ["-n", name, "link", "set", "eth0", "up"],
                      ["-n", name, "link", "set", "lo", "up"]]
        for step in steps:
            done = ip(*step)
            if done.returncode != 0:
                cls.tearDownClass()
                raise unittest.SkipTest(f"`ip {' '.join(step)}` failed: {done.stderr.strip()}")

    @classmethod
    def tearDownClass(cls):
        for name in (*cls.namespaces, cls.switch):
            ip("netns", "del", name)

    def cut(self, machine):
        """Pulls the machine's cable at the switch: nothing is reset, packets just vanish."""
        ip("-n", self.switch, "link", "set", self.ends[machine], "nomaster")

    def mend(self, machine):
        ip("-n", self.switch, "link", "set", self.ends[machine], "master", "br0")

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lr-netns-"))
        self.nodes = []

    def tearDown(self):
        for node in self.nodes:
            if node.running():
                node.kill()
                node.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, machine, script, *options, nnodes=2, nproc=2, node_rank=None, host=None, port=STORE_PORT, name=None):
        """lr-launch on a machine; the workers run `script` in sh, or a list as program and arguments."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("PET_", "SLURM_", "ACCELERATE_", "TORCHELASTIC_"))}
        environment["XDG_STATE_HOME"] = environment["XDG_RUNTIME_DIR"] = str(self.folder / f"state{machine}")
        environment["OMP_NUM_THREADS"] = "1"
        arguments = [f"--nnodes={nnodes}", f"--nproc-per-node={nproc}", f"--rdzv-endpoint={host or self.ADDRESSES[0]}" + (f":{port}" if port else "")]
        if node_rank is not None:
            arguments.append(f"--node-rank={node_rank}")
        node = Node(self.namespaces[machine], name or f"machine{'abc'[machine]}", self.folder,
                    [*arguments, *options, "--no-python", *(["/bin/sh", "-c", script] if isinstance(script, str) else script)], environment)
        self.nodes.append(node)
        return node

    def wait_for(self, condition, what, timeout=TIMEOUT_S):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                texts = "".join(f"\n--- {node.err.name}\n{node.stderr()}" for node in self.nodes)
                self.fail(f"{what} did not happen within {timeout} s{texts}")
            time.sleep(0.01)

    def assert_code(self, node, code):
        try:
            ended = node.wait()
        except subprocess.TimeoutExpired:
            ended = f"nothing within {TIMEOUT_S} s"
        self.assertEqual(ended, code, f"stdout:\n{node.stdout()}\nstderr:\n{node.stderr()}")
