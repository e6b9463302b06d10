"""Two launchers on two machines: ranks, refusals, failures and losses across a real network."""
import time
import unittest

from machines import ADDRESSES, NodesTest

SAY_RANK = 'echo "$RANK of $WORLD_SIZE on $(cat /proc/sys/kernel/hostname) at $MASTER_ADDR:$MASTER_PORT group $GROUP_RANK"'


def lines(*nodes):
    return sorted(line.split("]:")[-1].strip() for node in nodes for line in node.stdout().splitlines())


class Ranks(NodesTest):
    def check_order(self, first, second):
        nodes = {}
        for machine in (first, second):
            nodes[machine] = self.start(machine, SAY_RANK, node_rank=machine)
            if machine == first:
                time.sleep(1)
        for node in nodes.values():
            self.assert_code(node, 0)
        endpoint = f"{ADDRESSES[0]}:29500"
        self.assertEqual(lines(*nodes.values()), [
            f"0 of 4 on machinea at {endpoint} group 0", f"1 of 4 on machinea at {endpoint} group 0",
            f"2 of 4 on machineb at {endpoint} group 1", f"3 of 4 on machineb at {endpoint} group 1"])

    def test_node_rank_decides_when_node_0_starts_first(self):
        self.check_order(0, 1)

    def test_node_rank_decides_when_node_1_starts_first(self):
        self.check_order(1, 0)

    def test_c10d_needs_no_node_ranks(self):
        nodes = [self.start(machine, SAY_RANK, "--rdzv-backend=c10d", "--rdzv-id=7") for machine in (1, 0)]
        for node in nodes:
            self.assert_code(node, 0)
        self.assertEqual([line.split(" at ")[0] for line in lines(*nodes)],
                         ["0 of 4 on machinea", "1 of 4 on machinea", "2 of 4 on machineb", "3 of 4 on machineb"])

    def test_prefix_tells_node_and_rank(self):
        nodes = [self.start(machine, "echo said", "--log-prefix=node-rank", node_rank=machine) for machine in (0, 1)]
        for node in nodes:
            self.assert_code(node, 0)
        self.assertEqual(lines(*nodes), ["machinea:0: said", "machinea:1: said", "machineb:2: said", "machineb:3: said"])


class Addresses(NodesTest):
    def start_pair(self, *addresses):
        """Machine a serves; machine b has rank 0 and says where it is."""
        options = ("--rdzv-backend=c10d", "--rdzv-id=where")
        return [self.start(1, SAY_RANK, *options, *(f"--local-addr={address}" for address in addresses), nproc=1, node_rank=0),
                self.start(0, SAY_RANK, *options, nproc=1, node_rank=1)]

    def test_the_next_address_is_taken_when_nobody_reaches_the_first(self):
        nodes = self.start_pair("198.51.100.7", ADDRESSES[1])
        for node in nodes:
            self.assert_code(node, 0)
            self.assertIn(f"at {ADDRESSES[1]}:", node.stdout())

    def test_addresses_that_nobody_reaches_are_named_with_who_cannot(self):
        for node in self.start_pair("198.51.100.7", "198.51.100.8"):
            self.assert_code(node, 76)
            for part in ("198.51.100.7", "198.51.100.8", "node 1 (machinea)", "--local-addr"):
                self.assertIn(part, node.stderr())

    def test_an_interface_names_an_address(self):
        nodes = self.start_pair("@eth0")
        for node in nodes:
            self.assert_code(node, 0)
            self.assertIn(f"at {ADDRESSES[1]}:", node.stdout())


class Failures(NodesTest):
    def test_a_failing_worker_on_node_1_ends_both_with_its_code(self):
        trigger = self.folder / "fail"
        script = f'echo started; while :; do [ $RANK = 3 ] && [ -e {trigger} ] && exit 7; sleep 0.02; done'
        nodes = [self.start(machine, script, node_rank=machine) for machine in (0, 1)]
        self.wait_for(lambda: len(lines(*nodes)) == 4, "the start of 4 workers")
        start = time.monotonic()
        trigger.touch()
        for node in nodes:
            self.assert_code(node, 7)
        took = time.monotonic() - start
        print(f"rank 3 exits 7 on machine b -> both launchers have ended: {took * 1000:.0f} ms")
        self.assertLess(took, 1.0)
        for node in nodes:
            self.assertIn("rank 3", node.stderr())
            self.assertIn("machineb", node.stderr())

    def test_a_killed_node_stops_the_other_and_is_named(self):
        nodes = [self.start(machine, "echo started; exec sleep 60", node_rank=machine) for machine in (0, 1)]
        self.wait_for(lambda: len(lines(*nodes)) == 4, "the start of 4 workers")
        nodes[1].kill()
        start = time.monotonic()
        self.assert_code(nodes[0], 75)
        print(f"SIGKILL of node 1's launcher -> node 0 has ended: {(time.monotonic() - start) * 1000:.0f} ms")
        self.assertLess(time.monotonic() - start, 2.0)
        self.assertIn("node 1 (machineb)", nodes[0].stderr())

    def test_a_killed_host_stops_the_other(self):
        nodes = [self.start(machine, "echo started; exec sleep 60", node_rank=machine) for machine in (0, 1)]
        self.wait_for(lambda: len(lines(*nodes)) == 4, "the start of 4 workers")
        nodes[0].kill()
        self.assert_code(nodes[1], 75)
        self.assertIn(ADDRESSES[0], nodes[1].stderr())


class Refusals(NodesTest):
    def test_a_duplicate_node_rank_is_refused_and_both_are_named(self):
        first = self.start(0, "exit 0", "--rdzv-conf=join_timeout=8", node_rank=0)
        self.wait_for(lambda: "machinea" in first.stderr(), "the first status line")
        second = self.start(1, "exit 0", node_rank=0)
        self.assert_code(second, 76)
        for part in ("node rank 0", "machinea", "machineb", "--node-rank"):
            self.assertIn(part, second.stderr())
        self.assert_code(first, 75)

    def test_another_plan_is_refused_with_both_values(self):
        first = self.start(0, "exit 0", "--rdzv-conf=join_timeout=8", node_rank=0)
        self.wait_for(lambda: "machinea" in first.stderr(), "the first status line")
        second = self.start(1, "exit 0 # other", node_rank=1)
        self.assert_code(second, 76)
        for part in ("machinea", "machineb", "plan mismatch"):
            self.assertIn(part, second.stderr())
        self.assert_code(first, 75)

    def test_join_timeout_says_who_is_missing(self):
        node = self.start(0, "exit 0", "--rdzv-conf=join_timeout=2", node_rank=0)
        self.assert_code(node, 75)
        for part in ("timed out after 2 s", "machinea", "node rank 1"):
            self.assertIn(part, node.stderr())

    def test_join_timeout_without_a_host_says_what_was_tried(self):
        node = self.start(1, "exit 0", "--rdzv-conf=join_timeout=12", node_rank=1)
        self.assert_code(node, 75)
        for part in (f"no node serves the rendezvous at {ADDRESSES[0]}", "29501", ADDRESSES[1]):
            self.assertIn(part, node.stderr())


if __name__ == "__main__":
    unittest.main()
