"""SIGKILL at random moments, of launchers, workers and sweepers, on one and two nodes: nothing is left, nobody starts twice, everybody ends.

LR_KILL_ROUNDS sets the number of rounds, LR_KILL_SEED repeats those of a run that failed.
"""
import collections
import os
import pathlib
import random
import signal
import time
import unittest

from launch_harness import LAUNCH, LaunchTest, free_port, wait_until

ROUNDS = int(os.environ.get("LR_KILL_ROUNDS", "200"))
SEED = int(os.environ.get("LR_KILL_SEED", str(time.time_ns() % 1_000_000_000)))
END_LIMIT_S = 10.0  # from the last signal to the end of every launcher, on a machine that does other things, too
GONE_LIMIT_S = 2.0  # from the end of the launchers to the end of everything that they started

# What dies at once. Sweepers come in twos; a launcher that loses both has nobody left to clean up after it but the kernel.
KINDS = ("launcher", "worker", "worker", "launcher, worker", "sweeper", "launcher, sweeper", "worker, sweeper", "sweepers", "launcher, sweepers")

# A worker and a helper of it; both hold the lock of their rank, and a start is noted once per epoch. With $APART one more helper, in
# a session of its own: the kernel alone does not end that.
WORKER = '''
exec 9>lock$RANK
flock -n 9 || touch double-lock-$RANK-$LR_EPOCH
( set -C; : > start-$LR_EPOCH-$RANK ) 2>/dev/null || touch double-start-$RANK-$LR_EPOCH
trap 'exit 143' TERM
[ -z "$APART" ] || setsid sh -c 'trap "" TERM; sleep 1000' &
( trap '' TERM; sleep 1000 ) &
wait
exit 9  # its helper was killed
'''


class Kills(LaunchTest):
    def launch_run(self, mode):
        """The launchers of one run; each with its own working directory's marks, all in one folder."""
        script = ("--no-python", "/bin/sh", "-c", WORKER)
        stop = "--shutdown-timeout=2"
        if mode == "one":
            return [self.start("--standalone", "--nproc-per-node=2", stop, *script)]
        if mode == "one, restarts":
            return [self.start("--standalone", "--nproc-per-node=2", "--max-restarts=3", "--always-restart", stop, *script)]
        endpoint = f"--rdzv-endpoint=127.0.0.1:{free_port()}"
        if mode == "two":
            return [self.start("--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=2", endpoint, stop, *script) for rank in range(2)]
        assert mode == "two, elastic"
        return [self.start("--nnodes=1:2", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-id=kill", endpoint, stop, "--max-restarts=2",
                           "--always-restart", "--rdzv-conf=last_call_timeout=0.3,reform_last_call_timeout=0.3", *script) for _ in range(2)]

    def sweepers(self, launcher):
        """pids, the elder first"""
        parents, found = {}, []
        for pid in self.survivors():
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            parents[pid] = int(fields.rsplit(")", 1)[1].split()[1])
            if "(lr-sweeper)" in fields:
                found.append(pid)
        below = lambda pid: pid == launcher or (pid in parents and below(parents[pid]))
        return [pid for pid in sorted(found) if below(pid)]

    def victims(self, launchers, kind, chance):
        """One launcher with what is its own, any worker or helper of one; the launcher last: what dies before it is not replaced in time."""
        chosen = []
        alive = [process.pid for process in launchers if process.poll() is None]
        started = [pid for pid, command in self.survivors().items() if not command.startswith(str(LAUNCH))]
        words = kind.split(", ")
        if "worker" in words and started:
            chosen.append(chance.choice(sorted(started)))
        if alive and words != ["worker"]:
            launcher = chance.choice(alive)
            own = self.sweepers(launcher)
            if "sweeper" in words and len(own) == 2:  # one alone is about to fork the other: killed then, there is none
                chosen.append(chance.choice(own))
            if "sweepers" in words:
                chosen += own
            if "launcher" in words:
                chosen.append(launcher)
        return chosen

    def check_round(self, number, chance):
        mode = chance.choice(["one", "one, restarts", "two", "two, elastic"])
        for path in self.folder.glob("[sld]*-*"):
            path.unlink()
        kinds = [chance.choice(KINDS) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
        self.environment["APART"] = "" if any("sweepers" in kind for kind in kinds) else "1"
        launchers = self.launch_run(mode)
        what = []
        for kind in kinds:
            time.sleep(chance.uniform(0.0, 0.6))
            chosen = self.victims(launchers, kind, chance)
            what.append(f"{kind} {chosen}")
            self.killed[kind] += 1 if chosen else 0
            for pid in chosen:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        time.sleep(chance.uniform(0.0, 0.3))
        for process in launchers:  # whatever goes on after that, or waits for a node that was killed
            process.terminate()
        story = f"round {number} of seed {SEED}: {mode}; killed {', '.join(what)}"
        ended = wait_until(lambda: all(process.poll() is not None for process in launchers), END_LIMIT_S)
        if not ended:
            self.fail(f"{story}: still running: {self.survivors()}")
        outputs = [process.communicate() for process in launchers]
        if not wait_until(lambda: not self.survivors(), GONE_LIMIT_S):
            self.fail(f"{story}: left behind: {self.survivors()}\n{outputs}")
        double = [path.name for path in self.folder.glob("double-*")]
        self.assertEqual(double, [], f"{story}\n{outputs}")
        for process in launchers:
            self.assertNotIn(process.returncode, (0, 70, -11, -6), f"{story}: {process.returncode}\n{outputs}")

    def test_rounds(self):
        print(f"seed {SEED}, {ROUNDS} rounds", flush=True)
        chance = random.Random(SEED)
        self.killed = collections.Counter()
        start = time.monotonic()
        for number in range(ROUNDS):
            self.check_round(number, random.Random(chance.random()))
        print(f"{ROUNDS} rounds in {time.monotonic() - start:.0f} s: nothing left, nobody twice; {dict(self.killed)}")


if __name__ == "__main__":
    unittest.main()
