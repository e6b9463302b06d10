"""Hangs, stacks and stragglers across two machines: the host compares the ranks of both."""
import json
import os
import subprocess
import time
import unittest
from pathlib import Path

from machines import LAUNCH, NodesTest

TRAIN = str(LAUNCH.parent / "pretend" / "lr-train")
QUICK = ("--hang-timeout=3", "--shutdown-timeout=1")
WHERE = "lr::worker::StandStillForEver()"


class HangTest(NodesTest):
    def start_both(self, *arguments, options=QUICK):
        return [self.start(machine, [TRAIN, *arguments], *options, node_rank=machine) for machine in (0, 1)]

    def run_directory(self, machine):
        return next(iter((self.folder / f"state{machine}" / "lr" / "runs").glob("*")), Path("/nonexistent"))

    def events(self, machine, name):
        file = self.run_directory(machine) / "events.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def ctl(self, machine, *arguments):
        state = str(self.folder / f"state{machine}")
        done = subprocess.run([str(LAUNCH.parent / "lr-ctl"), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "XDG_STATE_HOME": state, "XDG_RUNTIME_DIR": state})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Hangs(HangTest):
    def test_the_absent_rank_on_the_other_machine_is_named_with_its_stack_on_both(self):
        nodes = self.start_both("--stop=3:8:forward", options=(*QUICK, "--hang-action=stop"))
        for machine, node in enumerate(nodes):
            self.assert_code(node, 1)
            said = node.stderr()
            self.assertIn("rank 3 is absent from all-reduce #9 of group data (4.0 KiB), which ranks 0-2 entered", said)
            self.assertIn("rank 3 (node 1, machineb): step 8, phase forward for", said)
            self.assertIn(WHERE, said)
            stacks = self.run_directory(machine) / "stacks" / self.events(machine, "hang")[0]["id"]
            self.assertIn(WHERE, (stacks / "rank_3.txt").read_text())
            self.assertIn("WaitForTheOthers", (stacks / "rank_0.txt").read_text())

    def test_with_a_restart_both_machines_go_on(self):
        nodes = self.start_both("--stop=2:8:data", "--stop-once", "--steps=40", options=(*QUICK, "--max-restarts=1"))
        for node in nodes:
            self.assert_code(node, 0)
            self.assertIn("rank 2 (node 1, machineb)", node.stderr())
            self.assertIn("restart 1 of 1", node.stderr())

    def test_slow_ranks_a_long_first_step_and_a_long_save_are_no_hang(self):
        nodes = self.start_both("--steps=8", "--step-ms=900", "--slow=3:data:500", "--first-ms=5000", "--save=4:5000",
                                options=(*QUICK, "--hang-action=stop"))
        for machine, node in enumerate(nodes):
            self.assert_code(node, 0)
            self.assertEqual(self.events(machine, "hang"), [])


class Asked(HangTest):
    def test_any_machine_tells_stacks_and_stragglers_of_all(self):
        nodes = self.start_both("--slow=3:data:60", "--step-ms=60")
        for machine, node in enumerate(nodes):
            self.wait_for(lambda: self.events(machine, "started"), "the start")
        time.sleep(4)
        for machine in (0, 1):
            stacks = json.loads(self.ctl(machine, "stacks", "--json"))
            self.assertEqual(sorted(one["rank"] for one in stacks), [0, 1, 2, 3])
            self.assertIn("lr-train", stacks[0]["text"])
            self.assertRegex(self.ctl(machine, "stragglers"), r"rank 3 \(node 1, machineb\): 0\.\d\d, needs .* data")
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait()


if __name__ == "__main__":
    unittest.main()
