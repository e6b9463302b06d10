"""What tools read after a run: exit code, --result-file, --event-log-handler (L-20, L-21)."""
import json
import signal
import unittest

from launch_harness import LaunchTest


class Results(LaunchTest):
    def result(self):
        return json.loads((self.folder / "result.json").read_text())

    def test_success(self):
        self.shell("exit 0", options=["--result-file=result.json"])
        result = self.result()
        self.assertEqual((result["outcome"], result["exit_code"], result["root_cause"]), ("succeeded", 0, None))
        self.assertEqual([w["rank"] for w in result["workers"]], [0, 1])
        self.assertEqual((result["restarts"], result["world_size"]), (0, 2))
        self.assertGreaterEqual(result["duration_s"], 0)

    def test_a_workers_reserved_code_is_told_apart(self):
        self.shell("[ $RANK = 0 ] || exit 75; sleep 60", options=["--result-file=result.json"], expect=75)
        result = self.result()
        self.assertEqual((result["outcome"], result["root_cause"]["rank"], result["root_cause"]["exit_code"]), ("worker_failed", 1, 75))
        self.assertEqual((result["workers"][0]["signal"], result["workers"][0]["stopped_by_launcher"]), ("SIGTERM", True))
        _, err = self.launch("--nnodes=2", "--node-rank=1", "--rdzv-endpoint=127.0.0.1:9", "--rdzv-conf=join_timeout=1,is_host=0",
                             "--result-file=result.json", "/bin/true", expect=75)
        self.assertEqual((self.result()["outcome"], self.result()["exit_code"]), ("not_started", 75), err)

    def test_torchruns_exit_code(self):
        for script in ("exit 7", "kill -9 $$"):
            self.shell(script, nproc=1, options=["--exit-code=torchrun", "--result-file=result.json"], expect=1)
            self.assertEqual(self.result()["exit_code"], 1)
        self.launch("--nnodes=2", "--node-rank=1", "--rdzv-endpoint=127.0.0.1:9", "--rdzv-conf=join_timeout=1,is_host=0",
                    "--exit-code=torchrun", "/bin/true", expect=1)

    def test_signal(self):
        run = self.start_shell("touch ready$RANK; sleep 60", options=["--result-file=result.json"])
        self.wait_ready(2, run)
        run.send_signal(signal.SIGTERM)
        self.finish(run, 128 + signal.SIGTERM)
        self.assertEqual((self.result()["outcome"], self.result()["exit_code"]), ("stopped", 143))

    def test_result_that_cannot_be_written_changes_nothing(self):
        _, err = self.shell("exit 7", nproc=1, options=["--result-file=missing/result.json"], expect=7)
        self.assertIn("no result file", err)

    def test_events_go_where_they_are_wanted(self):
        _, err = self.shell("exit 0", options=["--event-log-handler=console"])
        told = [json.loads(line)["event"] for line in err.splitlines() if line.startswith("{")]
        self.assertEqual((told[0], told[-1]), ("started", "closed"))
        self.shell("exit 0", options=["--event-log-handler=file:events.log", "--log-dir=/dev/null"])
        told = [json.loads(line)["event"] for line in (self.folder / "events.log").read_text().splitlines()]
        self.assertEqual((told[0], told[-1]), ("started", "closed"))
        _, err = self.shell("exit 0", options=["--event-log-handler=syslog"], expect=2)
        self.assertIn("must be one of null, console, file:PATH", err)


if __name__ == "__main__":
    unittest.main()
