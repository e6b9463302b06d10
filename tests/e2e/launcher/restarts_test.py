"""Runs of several attempts on one node and on two."""
import json
import time
import unittest

from launch_harness import LaunchTest, free_port


class Restarts(LaunchTest):
    def record(self):
        return next((self.folder / "logs").glob("*/run.json")).parent

    def test_a_run_that_fails_once_succeeds_at_the_second_attempt(self):
        # The failing rank waits until the other one has spoken: it is stopped at once.
        script = (f'said={self.folder}/said.$TORCHELASTIC_RESTART_COUNT; '
                  'echo "attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS port $MASTER_PORT"; touch $said.$RANK; '
                  'until [ -e $said.0 ] && [ -e $said.1 ]; do sleep 0.01; done; '
                  '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK = 0 ] || exit 7; exec sleep 0.3')
        out, err = self.shell(script, options=["--max-restarts=2", f"--log-dir={self.folder}/logs"])
        said = [line.split() for line in out.splitlines()]
        self.assertEqual(sorted(word[1] for word in said), ["0", "0", "1", "1"])
        self.assertEqual({word[3] for word in said}, {"2"})
        ports = {(word[1], word[5]) for word in said}
        self.assertEqual(len(ports), 2, "every attempt has its port, the same for all ranks")
        self.assertEqual(len({port for _, port in ports}), 2, "a new port per epoch")
        self.assertIn("next     : restart 1 of 2 in ", err)
        self.assertTrue((self.record() / "attempt_1" / "1").is_dir())
        run = json.loads((self.record() / "run.json").read_text())
        self.assertEqual((run["state"], run["attempt"], run["restarts"]), ("succeeded", 1, 1))

    def test_a_spent_budget_gives_the_workers_code(self):
        _, err = self.shell("exit $((10 + TORCHELASTIC_RESTART_COUNT))", options=["--max-restarts=1"], expect=11)
        self.assertIn("next     : no restart: all 1 are used", err)

    def test_the_same_early_failure_twice_ends_with_93(self):
        _, err = self.shell("[ $RANK = 1 ] && exit 7; exec sleep 60", options=["--max-restarts=5"], expect=93)
        self.assertIn("twice in a row", err)
        self.assertIn("exitcode  : 7", err)

    def test_always_restart_does_not_judge(self):
        _, err = self.shell("exit 7", nproc=1, options=["--max-restarts=2", "--always-restart"], expect=7)
        self.assertIn("all 2 are used", err)

    def test_a_mistake_in_the_command_is_not_repeated(self):
        start = time.monotonic()
        _, err = self.shell("echo 'ModuleNotFoundError: No module named q' >&2; exit 1", options=["--max-restarts=5"], expect=93)
        self.assertLess(time.monotonic() - start, 1.0)
        self.assertIn("another start would end in the same way (import error)", err)

    def test_a_worker_may_ask_for_no_restart(self):
        _, err = self.shell("exit 93", nproc=1, options=["--max-restarts=5", "--always-restart"], expect=93)
        self.assertIn("asked for none", err)

    def test_a_signal_in_the_pause_ends_the_run(self):
        process = self.start_shell("exit 7", nproc=1, options=["--max-restarts=5", "--always-restart"])
        time.sleep(0.5)
        process.terminate()
        self.finish(process, 143)

    def test_two_nodes_restart_together(self):
        endpoint = f"127.0.0.1:{free_port()}"
        script = 'echo "$RANK attempt $TORCHELASTIC_RESTART_COUNT"; [ $RANK = 3 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 7; exec sleep 0.5'
        nodes = [self.start("--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=2", f"--rdzv-endpoint={endpoint}", "--max-restarts=1",
                            "--no-python", "/bin/sh", "-c", script) for rank in range(2)]
        for node in nodes:
            out, err = self.finish(node, 0)
            self.assertEqual(sum("attempt 1" in line for line in out.splitlines()), 2)
            self.assertIn("restart 1 of 1", err)
            self.assertIn("Most likely cause: rank 3 (node 1", err)


if __name__ == "__main__":
    unittest.main()
