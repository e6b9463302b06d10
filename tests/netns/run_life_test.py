"""Runs of several epochs across machines: restarts, nodes that come, go, are cut off and come back."""
import re
import time
import unittest

from machines import ADDRESSES, NodesTest

ELASTIC = ("--rdzv-backend=c10d", "--rdzv-id=life", "--rdzv-conf=last_call_timeout=1,reform_last_call_timeout=1")
SAY = 'echo "epoch $LR_EPOCH rank $RANK of $WORLD_SIZE on $(cat /proc/sys/kernel/hostname) attempt $TORCHELASTIC_RESTART_COUNT"; '


class LifeTest(NodesTest):
    def said(self, node, pattern):
        return re.findall(pattern, node.stdout())

    def until_said(self, node, pattern, count=1, timeout=30):
        self.wait_for(lambda: len(self.said(node, pattern)) >= count, f"{count} x '{pattern}' of {node.out.name}", timeout)

    def start_all(self, script, *options, machines=(0, 1), **more):
        return [self.start(machine, script, *options, nnodes=more.get("nnodes", len(machines)), nproc=1,
                           node_rank=machine if more.get("ranked") else None) for machine in machines]

    def fail_once(self, rank, world):
        """Says who it is; `rank` fails in the first attempt once everybody has said so."""
        here = f"{self.folder}/here"
        return (SAY + f'touch {here}$RANK; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; [ $RANK = {rank} ] || exec sleep 60; '
                f'while [ $(ls {self.folder} | grep -c here) -lt {world} ]; do sleep 0.05; done; exit 7')

    def end(self, nodes):
        (self.folder / "end").touch()
        for node in nodes:
            self.assert_code(node, 0)

    def wait_script(self):
        return SAY + f"while ! [ -e {self.folder}/end ]; do sleep 0.05; done"


class Restarts(LifeTest):
    def test_two_machines_restart_together(self):
        nodes = self.start_all(self.fail_once(1, 2), "--max-restarts=1", ranked=True)
        for machine, node in enumerate(nodes):
            self.assert_code(node, 0)
            self.assertEqual(self.said(node, r"epoch (\d) rank (\d) of 2 .* attempt (\d)"),
                             [("1", str(machine), "0"), ("2", str(machine), "1")])
            self.assertIn("restart 1 of 1", node.stderr())
            self.assertIn("machineb", node.stderr())

    def test_the_workers_code_is_everybodys(self):
        nodes = self.start_all("[ $RANK = 1 ] && exit 42; exec sleep 60", ranked=True)
        for node in nodes:
            self.assert_code(node, 42)
        nodes = self.start_all("[ $RANK = 1 ] && exit 42; exec sleep 60", "--exit-code=torchrun", ranked=True)
        for node in nodes:
            self.assert_code(node, 1)


class Elastic(LifeTest):
    MACHINES = 3

    def test_a_killed_machine_is_done_without(self):
        nodes = self.start_all(self.wait_script(), *ELASTIC, machines=(0, 1, 2), nnodes="2:3")
        for node in nodes:
            self.until_said(node, "epoch 1 rank . of 3")
        start = time.monotonic()
        nodes[1].kill()
        for node in (nodes[0], nodes[2]):
            self.until_said(node, "epoch 2 rank . of 2 .* attempt 0")
        print(f"a launcher of 3 is killed -> 2 run again, last call of 1 s included: {time.monotonic() - start:.2f} s")
        self.assertEqual(self.said(nodes[0], "rank (.) of 2"), ["0"])
        self.end((nodes[0], nodes[2]))

    def test_a_late_machine_joins(self):
        first = self.start_all(self.wait_script(), *ELASTIC, machines=(0,), nnodes="1:2")[0]
        self.until_said(first, "epoch 1 rank 0 of 1")
        second = self.start_all(self.wait_script(), *ELASTIC, machines=(1,), nnodes="1:2")[0]
        for node in (first, second):
            self.until_said(node, "epoch 2 rank . of 2 .* attempt 0")
        self.end((first, second))

    def test_a_machine_leaves_and_joins_again(self):
        nodes = self.start_all(self.wait_script(), *ELASTIC, nnodes="1:2")
        for node in nodes:
            self.until_said(node, "epoch 1 rank . of 2")
        nodes[1].terminate()
        self.assert_code(nodes[1], 143)
        self.assertIn("which goes on", nodes[1].stderr())
        self.until_said(nodes[0], "epoch 2 rank 0 of 1")
        again = self.start_all(self.wait_script(), *ELASTIC, machines=(1,), nnodes="1:2")[0]
        for node in (nodes[0], again):
            self.until_said(node, "epoch 3 rank . of 2")
        self.end((nodes[0], again))

    def test_a_surplus_machine_waits_and_ends_with_the_run(self):
        nodes = self.start_all(self.wait_script(), *ELASTIC, nnodes="1:2")
        for node in nodes:
            self.until_said(node, "epoch 1 rank . of 2")
        spare = self.start_all(self.wait_script(), *ELASTIC, machines=(2,), nnodes="1:2")[0]
        self.wait_for(lambda: "spare" in spare.stderr(), "the spare's line")
        self.end([*nodes, spare])
        self.assertEqual(spare.stdout(), "")

    def test_a_killed_host_ends_the_run(self):
        nodes = self.start_all(self.wait_script(), *ELASTIC, nnodes="1:2")
        for node in nodes:
            self.until_said(node, "epoch 1 rank . of 2")
        nodes[0].kill()
        self.assert_code(nodes[1], 75)
        self.assertIn(ADDRESSES[0], nodes[1].stderr())


class Cuts(LifeTest):
    def test_a_cut_of_3_s_is_invisible(self):
        nodes = self.start_all(self.wait_script(), ranked=True)
        for node in nodes:
            self.until_said(node, "epoch 1 rank . of 2")
        self.cut(1)
        time.sleep(3)
        self.mend(1)
        self.end(nodes)
        for node in nodes:
            self.assertEqual(len(self.said(node, "epoch")), 1)
            self.assertEqual(node.stderr().count("lost"), 0)

    def test_a_machine_cut_off_for_20_s_is_lost_fenced_and_comes_back(self):
        nodes = self.start_all(self.wait_script(), *ELASTIC, nnodes="1:2")
        for node in nodes:
            self.until_said(node, "epoch 1 rank . of 2")
        self.cut(1)
        start = time.monotonic()
        self.until_said(nodes[0], "epoch 2 rank 0 of 1")
        lost = time.monotonic() - start
        self.assertGreater(lost, 14)
        self.assertLess(lost, 19)
        self.assertIn("silent for", nodes[0].stderr())
        self.assertEqual(len(self.said(nodes[1], "epoch")), 1)
        time.sleep(max(0.0, 20 - lost))
        self.mend(1)
        for node in nodes:
            self.until_said(node, "epoch 3 rank . of 2", timeout=60)
        self.assertIn("back in the run", nodes[1].stderr())
        self.end(nodes)


class Order(LifeTest):
    def test_twelve_launchers_in_natural_order_and_again_after_a_restart(self):
        script = self.fail_once(5, 12)
        names = [f"node{number}" for number in (12, 3, 10, 1, 11, 2, 9, 4, 8, 5, 7, 6)]
        nodes = [self.start(0, script, "--rdzv-backend=c10d", "--rdzv-id=order", "--max-restarts=1", nnodes=12, nproc=1, name=name) for name in names]
        for node in nodes:
            self.assert_code(node, 0)
        ranks = {0: {}, 1: {}}
        for name, node in zip(names, nodes):
            for rank, attempt in self.said(node, r"rank (\d+) of 12 .* attempt (\d)"):
                ranks[int(attempt)][int(rank)] = name
        self.assertEqual(len(ranks[0]), 12)
        self.assertEqual(ranks[0], ranks[1])
        others = [ranks[0][rank] for rank in range(1, 12)]  # the one that serves comes first
        self.assertEqual(others, sorted(others, key=lambda name: int(name[4:])))

    def test_explicit_ranks_win_over_names(self):
        names = ("node3", "node2", "node1")
        nodes = [self.start(0, SAY, nnodes=3, nproc=1, node_rank=rank, name=name) for rank, name in enumerate(names)]
        for rank, node in enumerate(nodes):
            self.assert_code(node, 0)
            self.assertEqual(self.said(node, r"rank (\d) of 3"), [str(rank)])


class Plans(LifeTest):
    def test_different_process_counts_are_refused_with_both_values(self):
        first = self.start(0, "exit 0", "--rdzv-conf=join_timeout=6", nproc=2, node_rank=0)
        self.wait_for(lambda: "machinea" in first.stderr(), "the first status line")
        second = self.start(1, "exit 0", nproc=3, node_rank=1)
        self.assert_code(second, 76)
        for part in ("--nproc-per-node", "'2'", "'3'", "machinea", "machineb"):
            self.assertIn(part, second.stderr())
        self.assert_code(first, 75)


if __name__ == "__main__":
    unittest.main()
