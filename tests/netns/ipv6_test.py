"""Machines that have IPv6 alone, and several runs of one machine at once."""
import ipaddress
import json
import re
import time
import unittest

from machines import NodesTest, ip

SAY = 'echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR $MASTER_PORT"'
STORE = '''
import os, socket, sys, time
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    server = socket.create_server(("", address[1]), family=socket.AF_INET6, dualstack_ipv6=True)
    for _ in range(int(os.environ["WORLD_SIZE"]) - 1):
        server.accept()[0].sendall(b"hello")
else:
    while True:
        try:
            peer = socket.create_connection(address, 5)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    assert peer.recv(5) == b"hello"
print("met at", address[0])
'''


class Ipv6Only(NodesTest):
    ADDRESSES = ("fd77::1", "fd77::2", "fd77::3")
    PREFIX = 64

    def start_pair(self, script, *options, host=None, **more):
        return [self.start(machine, script, *options, host=host, node_rank=machine, **more) for machine in (1, 0)]

    def check(self, nodes, host):
        for node in nodes:
            self.assert_code(node, 0)
        for node in nodes:
            self.assertEqual(set(re.findall(r"at (\S+) \d+", node.stdout())), {host}, node.stdout())

    def test_there_is_no_ipv4(self):
        self.assertEqual(json.loads(ip("-n", self.namespaces[0], "-4", "-j", "addr", "show", "dev", "eth0").stdout or "[]"), [])

    def test_an_address_in_brackets(self):
        self.check(self.start_pair(SAY, host="[fd77::1]"), "fd77::1")

    def test_an_address_written_in_full(self):
        host = ipaddress.ip_address("fd77::1").exploded
        self.check(self.start_pair(SAY, host=f"[{host}]"), host)

    def test_c10d(self):
        nodes = [self.start(machine, SAY, "--rdzv-backend=c10d", "--rdzv-id=six", host="[fd77::1]") for machine in (1, 0)]
        self.check(nodes, "fd77::1")

    def test_the_workers_store_is_reached(self):
        script = self.folder / "store.py"
        script.write_text(STORE)
        nodes = self.start_pair(f"exec python3 {script}", host="[fd77::1]", nproc=2)
        for node in nodes:
            self.assert_code(node, 0)
            self.assertEqual(node.stdout().count("met at fd77::1"), 2)

    def test_link_local_addresses_with_a_zone(self):
        local = [entry["local"] for entry in json.loads(ip("-n", self.namespaces[0], "-6", "-j", "addr", "show", "dev", "eth0").stdout)[0]["addr_info"]
                 if entry["scope"] == "link"][0]
        self.check(self.start_pair(SAY, host=f"[{local}%eth0]"), f"{local}%eth0")

    def test_a_lost_machine_is_noticed(self):
        nodes = self.start_pair(SAY + "; exec sleep 60", host="[fd77::1]", nproc=1)
        for node in nodes:
            self.wait_for(lambda: "rank" in node.stdout(), "the start")
        nodes[0].kill()
        start = time.monotonic()
        self.assert_code(nodes[1], 75)
        self.assertLess(time.monotonic() - start, 2.5)


class SeveralRuns(NodesTest):
    """One machine takes part in many runs; nothing of them collides, and nobody joins the wrong one."""

    def test_static_runs_with_the_same_default_port(self):
        runs = {}
        for run in range(4):
            script = f'echo "run {run} rank $RANK of $WORLD_SIZE port $MASTER_PORT"; while [ $(cat {self.folder}/*.out | grep -c rank) -lt 8 ]; do sleep 0.1; done'
            runs[run] = [self.start(machine, script, f"--rdzv-id=run{run}", nproc=1, node_rank=machine, port=None) for machine in (0, 1)]
        ports = []
        for run, nodes in runs.items():
            for node in nodes:
                self.assert_code(node, 0)
            said = [re.findall(r"run (\d) rank (\d) of 2 port (\d+)", node.stdout())[0] for node in nodes]
            self.assertEqual([line[:2] for line in said], [(str(run), "0"), (str(run), "1")])
            self.assertEqual(said[0][2], said[1][2])
            ports.append(said[0][2])
        self.assertEqual(len(set(ports)), 4, ports)

    def test_c10d_runs_with_the_same_default_port(self):
        runs = {run: [self.start(machine, f'echo "run {run} of $WORLD_SIZE"; sleep 1', "--rdzv-backend=c10d", f"--rdzv-id=run{run}", nproc=1, port=None)
                      for machine in (0, 1)] for run in range(3)}
        for run, nodes in runs.items():
            for node in nodes:
                self.assert_code(node, 0)
                self.assertEqual(node.stdout().split("]:")[-1].strip(), f"run {run} of 2")

    def test_many_standalone_runs(self):
        nodes = [self.start(0, "exit 0", "--standalone", nnodes=1, nproc=2) for _ in range(12)]
        for node in nodes:
            self.assert_code(node, 0)


if __name__ == "__main__":
    unittest.main()
