"""Several nodes, played by several launchers on the loopback address."""
import json
import signal
import time
import unittest

from launch_harness import LaunchTest, free_port, wait_until

SHOW = "import json, os\nprint(json.dumps({k: os.environ[k] for k in ('RANK', 'GROUP_RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT')}))\n"


class Nodes(LaunchTest):
    def start_node(self, rank, nodes, endpoint, *program, nproc=2):
        return self.start(f"--nnodes={nodes}", f"--node-rank={rank}", f"--nproc-per-node={nproc}", f"--rdzv-endpoint={endpoint}", *program)

    def test_ranks_follow_node_rank_whatever_the_start_order(self):
        script = self.file("show.py", SHOW)
        endpoint = f"127.0.0.1:{free_port()}"
        nodes = {}
        for rank in (2, 0, 1):
            nodes[rank] = self.start_node(rank, 3, endpoint, script)
            time.sleep(0.1)
        seen = {}
        for rank, process in nodes.items():
            out, _ = self.finish(process, 0)
            for line in out.splitlines():
                worker = json.loads(line)
                self.assertEqual(worker["GROUP_RANK"], str(rank))
                self.assertEqual(worker["WORLD_SIZE"], "6")
                self.assertEqual(int(worker["RANK"]), rank * 2 + int(worker["LOCAL_RANK"]))
                self.assertEqual(f"{worker['MASTER_ADDR']}:{worker['MASTER_PORT']}", endpoint)
                seen[worker["RANK"]] = worker
        self.assertEqual(len(seen), 6)

    def test_failure_on_one_node_ends_all_with_its_code(self):
        endpoint = f"127.0.0.1:{free_port()}"
        script = "touch ready$RANK; if [ $RANK = 3 ]; then while ! [ -e go ]; do sleep 0.01; done; echo 'the reason' >&2; exit 42; fi; exec sleep 60"
        nodes = [self.start_node(rank, 2, endpoint, "--no-python", "/bin/sh", "-c", script) for rank in range(2)]
        self.wait_ready(4, nodes[0])
        start = time.monotonic()
        (self.folder / "go").touch()
        errors = [self.finish(node, 42)[1] for node in nodes]
        took = time.monotonic() - start
        print(f"a worker of node 1 fails -> both launchers over: {took * 1000:.0f} ms")
        self.assertLess(took, 1.5)
        for err in errors:
            self.assertIn("Most likely cause: rank 3 (node 1", err)
            self.assertIn("the reason", err)
        self.assertEqual(self.survivors(), {})

    def test_signal_to_one_node_stops_all(self):
        endpoint = f"127.0.0.1:{free_port()}"
        nodes = [self.start_node(rank, 2, endpoint, "--no-python", "/bin/sh", "-c", "touch ready$RANK; exec sleep 60") for rank in range(2)]
        self.wait_ready(4, nodes[0])
        nodes[1].terminate()
        for node in nodes:
            _, err = self.finish(node, 143)
            self.assertNotIn("FAILED", err)

    def test_two_nodes_with_one_rank_are_refused_by_name(self):
        endpoint = f"127.0.0.1:{free_port()}"
        first = self.start_node(0, 2, endpoint, "/bin/true")
        time.sleep(0.3)
        second = self.start_node(0, 2, endpoint, "/bin/true")
        done = lambda: first.poll() is not None or second.poll() is not None
        self.assertTrue(wait_until(done, 20))
        refused = second if second.poll() is not None else first
        _, err = self.finish(refused, 76)
        self.assertIn("rank 0", err)
        for node in (first, second):
            node.terminate()
            node.communicate()

    def test_different_arguments_are_refused(self):
        endpoint = f"127.0.0.1:{free_port()}"
        first = self.start_node(0, 2, endpoint, "--no-python", "/bin/echo", "a")
        time.sleep(0.3)
        second = self.start_node(1, 2, endpoint, "--no-python", "/bin/echo", "b")
        _, err = self.finish(second, 76)
        self.assertIn("arguments", err)
        first.terminate()
        first.communicate()

    def test_signal_during_the_rendezvous(self):
        process = self.start("--nnodes=2", "--node-rank=0", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "/bin/true")
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.finish(process, 130)
        self.assertLess(time.monotonic() - start, 2.0)

    def test_lost_launcher_ends_the_run_on_the_others(self):
        endpoint = f"127.0.0.1:{free_port()}"
        for victim in (1, 0):
            for path in self.folder.glob("ready*"):
                path.unlink()
            nodes = [self.start_node(rank, 2, endpoint, "--no-python", "/bin/sh", "-c", "touch ready$RANK; exec sleep 60") for rank in range(2)]
            self.wait_ready(4, nodes[0])
            nodes[victim].kill()
            self.finish(nodes[victim], -9)
            start = time.monotonic()
            self.finish(nodes[1 - victim], timeout=30)
            print(f"launcher of node {victim} killed -> the other over: {(time.monotonic() - start) * 1000:.0f} ms")
            self.assertNotEqual(nodes[1 - victim].returncode, 0)
            self.assertTrue(wait_until(lambda: not self.survivors(), 2.0), self.survivors())


if __name__ == "__main__":
    unittest.main()
