"""The variables that workers get (spec 1.4)."""
import json
import os
import unittest

from launch_harness import LaunchTest, free_port

SHOW = "import json, os, sys\nsys.stdout.write(json.dumps(dict(os.environ)) + '\\n')\n"


class Environment(LaunchTest):
    def workers(self, *options, nproc=2, env=None):
        script = self.file("show.py", SHOW)
        out, self.err = self.launch(*options, f"--nproc-per-node={nproc}", script, env=env or {})
        found = [json.loads(line) for line in out.splitlines()]
        return sorted(found, key=lambda variables: int(variables["RANK"]))

    def test_the_whole_set(self):
        workers = self.workers("--standalone")
        self.assertEqual(len(workers), 2)
        for rank, v in enumerate(workers):
            expected = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
                        "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "default", "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": "2",
                        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_USE_AGENT_STORE": "False",
                        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "OMP_NUM_THREADS": "1",
                        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT"}
            self.assertEqual({k: v.get(k) for k in expected}, expected)
            self.assertEqual(v["MASTER_ADDR"], "localhost")
            self.assertGreater(int(v["MASTER_PORT"]), 0)
            self.assertTrue(v["TORCHELASTIC_RUN_ID"])
            self.assertTrue(v["TORCHELASTIC_ERROR_FILE"].endswith(f"/attempt_0/{rank}/error.json"))
            self.assertEqual(v["LR_RUN_ID"], v["TORCHELASTIC_RUN_ID"])
        self.assertEqual(workers[0]["MASTER_PORT"], workers[1]["MASTER_PORT"])
        self.assertIn("OMP_NUM_THREADS", self.err)

    def test_inherited_values_win_where_they_should(self):
        v = self.workers("--standalone", env={"OMP_NUM_THREADS": "3", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "WORLD_SIZE": "64", "MINE": "x"})[0]
        self.assertEqual((v["OMP_NUM_THREADS"], v["TORCH_NCCL_ASYNC_ERROR_HANDLING"], v["WORLD_SIZE"], v["MINE"]), ("3", "0", "2", "x"))
        self.assertIn("WORLD_SIZE=64", self.err)

    def test_one_worker_keeps_its_threads(self):
        v = self.workers("--standalone", nproc=1)[0]
        self.assertNotIn("OMP_NUM_THREADS", v)

    def test_virtual_local_rank(self):
        for rank, v in enumerate(self.workers("--standalone", "--virtual-local-rank", env={"CUDA_VISIBLE_DEVICES": "4,6"})):
            self.assertEqual((v["LOCAL_RANK"], v["CUDA_VISIBLE_DEVICES"], v["LOCAL_WORLD_SIZE"]), ("0", "46"[rank], "2"))
            self.assertTrue(v["TORCHELASTIC_ERROR_FILE"].endswith(f"/attempt_0/{rank}/error.json"))

    def test_threads(self):
        v = self.workers("--standalone", "--omp-threads=5", env={"OMP_NUM_THREADS": "3"})[0]
        self.assertEqual(v["OMP_NUM_THREADS"], "5")
        self.assertNotIn("OMP_NUM_THREADS is set", self.err)

    def test_workers_are_bound_to_processors(self):
        script = self.file("show.py", "import os\nprint(sorted(os.sched_getaffinity(0)))\n")
        usable = sorted(os.sched_getaffinity(0))
        out, err = self.launch("--standalone", "--numa-binding=exclusive", "--numa-binding-cpu", script)
        self.assertEqual(out.strip(), str(usable))
        self.assertIn("local rank 0 runs on CPUs ", err)
        masks = self.masks_of_two(script)
        if masks:
            self.assertFalse(set(masks[0]) & set(masks[1]), masks)
            self.assertLessEqual(set(masks[0]) | set(masks[1]), set(usable))

    def masks_of_two(self, script):
        """Their masks; None on a machine with one core."""
        run = self.start("--standalone", "--nproc-per-node=2", "--numa-binding=exclusive", "--numa-binding-cpu", script)
        out, err = self.finish(run)
        if run.returncode == 2:
            self.assertIn("usable core(s) for 2 workers", err)
            return None
        self.assertEqual(run.returncode, 0, err)
        return [json.loads(line) for line in out.splitlines()]

    def test_pet_variables_supply_options(self):
        script = self.file("show.py", SHOW)
        out, _ = self.launch(script, env={"PET_NPROC_PER_NODE": "2", "PET_STANDALONE": "1", "PET_ROLE": "trainer"})
        self.assertEqual(len(out.splitlines()), 2)
        self.assertIn('"ROLE_NAME": "trainer"', out)

    def test_role(self):
        self.assertEqual(self.workers("--standalone", "--role=actor")[1]["ROLE_NAME"], "actor")

    def test_explicit_port_is_used(self):
        port = free_port()
        v = self.workers(f"--master-port={port}")[0]
        self.assertEqual(v["MASTER_PORT"], str(port))

    def test_rank_zero_can_bind_the_port(self):
        script = self.file("bind.py", "import os, socket\nif os.environ['RANK'] == '0':\n  s = socket.socket()\n"
                                      "  s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                                      "  s.bind((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])))\n  s.listen()\n  print('bound')\n")
        for _ in range(5):
            self.assertIn("bound", self.launch("--standalone", "--nproc-per-node=2", script)[0])

    def test_two_runs_at_once_do_not_collide(self):
        script = self.file("show.py", SHOW)
        runs = [self.start("--standalone", "--nproc-per-node=2", script) for _ in range(4)]
        ports = set()
        for run in runs:
            out, _ = self.finish(run, 0)
            ports.update(json.loads(line)["MASTER_PORT"] for line in out.splitlines())
        self.assertEqual(len(ports), 4)


if __name__ == "__main__":
    unittest.main()
