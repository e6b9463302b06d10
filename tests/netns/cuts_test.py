"""Connections that are reset, hosts that are gone or out of reach: what a run survives, and when it ends (R-27 to R-29)."""
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from machines import ADDRESSES, NodesTest

SAY = 'echo "rank $RANK of $WORLD_SIZE epoch $LR_EPOCH"; '


class CutTest(NodesTest):
    MACHINES = 3

    def until_started(self, *nodes):
        for node in nodes:
            self.wait_for(lambda: "rank" in node.stdout(), f"the start of {node.out.name}")

    def end(self, *nodes):
        (self.folder / "end").touch()
        for node in nodes:
            self.assert_code(node, 0)

    def wait_script(self):
        return SAY + f"while ! [ -e {self.folder}/end ]; do sleep 0.05; done"


class Resets(CutTest):
    """Machine b reaches machine a through a forwarder on machine c alone."""

    def start_proxy(self):
        command = ["ip", "netns", "exec", self.namespaces[2], sys.executable, str(Path(__file__).with_name("cut_proxy.py")),
                   ADDRESSES[2], "29501", ADDRESSES[0]]
        self.proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.proxy.stdout.close)
        self.addCleanup(self.proxy.wait)
        self.addCleanup(self.proxy.kill)
        self.assertEqual(self.proxy.stdout.readline(), "ready\n")

    def start_both(self, *options):
        self.start_proxy()
        nodes = [self.start(0, self.wait_script(), *options, nproc=1, node_rank=0),
                 self.start(1, self.wait_script(), *options, nproc=1, node_rank=1, host=ADDRESSES[2])]
        self.until_started(*nodes)
        return nodes

    def test_a_reset_and_3_s_of_silence_are_invisible(self):
        nodes = self.start_both()
        self.proxy.send_signal(signal.SIGUSR1)
        time.sleep(3)
        self.proxy.send_signal(signal.SIGUSR2)
        self.end(*nodes)
        for node in nodes:
            self.assertEqual(node.stdout().count("rank"), 1)
            self.assertNotIn("lost", node.stderr())

    def test_many_resets_are_invisible(self):
        nodes = self.start_both()
        for _ in range(20):
            self.proxy.send_signal(signal.SIGUSR2)
            time.sleep(0.15)
        self.end(*nodes)
        for node in nodes:
            self.assertEqual(node.stdout().count("rank"), 1)

    def test_a_failure_during_a_cut_is_told_afterwards(self):
        self.start_proxy()
        script = SAY + f'while ! [ -e {self.folder}/fail ]; do sleep 0.05; done; [ $RANK = 1 ] && exit 42; exec sleep 60'
        nodes = [self.start(0, script, nproc=1, node_rank=0), self.start(1, script, nproc=1, node_rank=1, host=ADDRESSES[2])]
        self.until_started(*nodes)
        self.proxy.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        (self.folder / "fail").touch()
        time.sleep(1.5)
        self.assertTrue(nodes[0].running())
        self.proxy.send_signal(signal.SIGUSR2)
        for node in nodes:
            self.assert_code(node, 42)
            self.assertIn("rank 1", node.stderr())

    def test_silence_of_more_than_the_limit_is_a_loss(self):
        limits = "--rdzv-conf=suspect_timeout=2,lost_timeout=4,host_lost_timeout=6"
        nodes = self.start_both(limits)
        self.proxy.send_signal(signal.SIGUSR1)
        start = time.monotonic()
        self.assert_code(nodes[0], 75)
        took = time.monotonic() - start
        self.assertGreater(took, 3)
        self.assertLess(took, 7)
        self.assertIn("silent for", nodes[0].stderr())
        self.assert_code(nodes[1], 75)


class HostLoss(CutTest):
    MACHINES = 2

    def test_a_killed_host_ends_everything_at_once_with_75(self):
        nodes = [self.start(machine, SAY + "exec sleep 60", nproc=1, node_rank=machine) for machine in (0, 1)]
        self.until_started(*nodes)
        nodes[0].kill()
        start = time.monotonic()
        self.assert_code(nodes[1], 75)
        took = time.monotonic() - start
        print(f"SIGKILL of the host's launcher -> the other has ended: {took * 1000:.0f} ms")
        self.assertLess(took, 2.5)
        for part in ("is lost", ADDRESSES[0], "nobody serves there any more"):
            self.assertIn(part, nodes[1].stderr())

    def test_a_node_out_of_reach_keeps_its_workers_then_fences_itself(self):
        trap = f'trap "touch {self.folder}/stopped$RANK; exit 0" TERM; {SAY} while :; do sleep 0.05; done'
        limits = "--rdzv-conf=host_lost_timeout=4,lost_timeout=60"
        nodes = [self.start(machine, trap, limits, nproc=1, node_rank=machine) for machine in (0, 1)]
        self.until_started(*nodes)
        self.cut(1)
        start = time.monotonic()
        time.sleep(2.5)
        self.assertFalse((self.folder / "stopped1").exists(), "stopped before the limit")
        self.assertTrue(nodes[1].running())
        self.wait_for((self.folder / "stopped1").exists, "the fence")
        fenced = time.monotonic() - start
        self.assertGreater(fenced, 3.5)
        self.assertLess(fenced, 7)
        self.assert_code(nodes[1], 75)
        self.assertIn("silent for more than 4 s", nodes[1].stderr())
        self.assertTrue(nodes[0].running())  # it may wait for 60 s
        self.mend(1)
        self.assert_code(nodes[0], 75)
        self.assertIn("node 1 (machineb)", nodes[0].stderr())

    def test_no_node_forms_a_world_alone(self):
        options = ("--rdzv-backend=c10d", "--rdzv-id=alone", "--rdzv-conf=last_call_timeout=1,reform_last_call_timeout=1")
        nodes = [self.start(machine, SAY + "exec sleep 60", *options, nnodes="1:2", nproc=1) for machine in (0, 1)]
        for node in nodes:
            self.wait_for(lambda: "of 2" in node.stdout(), "the start of both")
        nodes[0].kill()
        self.assert_code(nodes[1], 75)
        self.assertNotIn("of 1", nodes[1].stdout().split("of 2", 1)[1])


if __name__ == "__main__":
    unittest.main()
