"""What may stand where PROGRAM stands, and that its arguments reach it byte for byte."""
import json
import unittest

from launch_harness import LAUNCH, PYTHON, LaunchTest

SHOW = "import json, os, sys\nprint(json.dumps(sys.argv[1:]), flush=True)\n"


class Programs(LaunchTest):
    def arguments_seen(self, out):
        return json.loads(out.splitlines()[0])

    def test_plain_script_runs_under_python(self):
        script = self.file("show.py", SHOW)
        out, _ = self.launch("--standalone", script, "a", env={"PYTHON_EXEC": PYTHON})
        self.assertEqual(self.arguments_seen(out), ["a"])

    def test_module(self):
        package = self.folder / "my_package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "tool.py").write_text(SHOW)
        out, _ = self.launch("--standalone", "-m", "my_package.tool", "--lr=1")
        self.assertEqual(self.arguments_seen(out), ["--lr=1"])

    def test_run_path_is_python_whatever_its_first_line_says(self):
        script = self.file("tool", "#!/bin/false\n" + SHOW, 0o755)
        out, _ = self.launch("--standalone", "--run-path", script, "a")
        self.assertEqual(self.arguments_seen(out), ["a"])

    def test_local_rank_as_an_argument(self):
        script = self.file("show.py", SHOW)
        out, _ = self.launch("--standalone", "--pass-local-rank", script, "a")
        self.assertEqual(self.arguments_seen(out), ["--local-rank=0", "a"])

    def test_executable(self):
        script = self.file("run.sh", "#!/bin/sh\necho run by shell \"$@\"\n", 0o755)
        for options in ((), ("--no-python",)):
            out, _ = self.launch("--standalone", *options, script, "x y")
            self.assertEqual(out, "run by shell x y\n")

    def test_compiled_program_is_executed_itself(self):
        self.launch("--standalone", "/bin/true")
        self.launch("--standalone", "/bin/false", expect=1)
        self.launch("true")

    def test_arguments_are_untouched(self):
        script = self.file("show.py", SHOW)
        given = ["--nproc-per-node=9", "-h", "--", "--r=16", "--log=x", "--", "", "a b", "$HOME", "*", "--help", "-m", "é", "\\n"]
        out, _ = self.launch("--standalone", script, *given)
        self.assertEqual(self.arguments_seen(out), given)

    def test_double_dash_before_the_program_is_removed(self):
        script = self.file("show.py", SHOW)
        out, _ = self.launch("--standalone", "--", script, "--", "x")
        self.assertEqual(self.arguments_seen(out), ["--", "x"])

    def test_local_rank_in_arguments(self):
        out, _ = self.launch("--standalone", "--nproc-per-node=2", "--no-python", "/bin/echo", "r${local_rank}", "$local_rank", "$other")
        self.assertEqual(sorted(out.splitlines()), ["r0 0 $other", "r1 1 $other"])

    def test_dashes_and_underscores_mean_the_same(self):
        for option in ("--nproc-per-node=2", "--nproc_per_node=2", "--nproc_per-node=2"):
            out, _ = self.launch("--standalone", option, "--no_python", "/bin/echo", "hi")
            self.assertEqual(sorted(out.splitlines()), ["hi", "hi"])

    def test_unknown_option_names_the_nearest(self):
        _, err = self.launch("--nproc-per-mode=2", "/bin/true", expect=2)
        self.assertIn("did you mean --nproc-per-node?", err)

    def test_missing_program_is_one_error(self):
        for arguments in (["missing.py"], ["./missing"], ["missing-program-name"], ["--no-python", "missing-program-name"]):
            _, err = self.launch("--standalone", "--nproc-per-node=4", *arguments, expect=2)
            self.assertEqual(err.count("does not exist"), 1, err)
        _, err = self.launch("--standalone", expect=2)
        self.assertIn("PROGRAM is missing", err)

    def test_program_that_cannot_start_names_itself(self):
        broken = self.file("broken", "#!/no/such/interpreter\n", 0o755)
        _, err = self.launch("--standalone", "--nproc-per-node=2", "--no-python", broken, expect=127)
        self.assertIn("cannot start", err)
        self.assertIn("broken", err)

    def test_engine_options_are_refused(self):
        _, err = self.launch("--use_fsdp", "--mixed_precision=bf16", "/bin/true", expect=78)
        self.assertIn("--parallelism.dp_shard", err)
        self.assertIn("--accelerator.mixed_precision", err)

    def test_nproc_words(self):
        out, _ = self.launch("--standalone", "--nproc-per-node=cpu", "--no-python", "/bin/echo", "x")
        self.assertGreaterEqual(len(out.splitlines()), 1)
        _, err = self.launch("--standalone", "--nproc-per-node=gpu", "/bin/true", expect=2, env={"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""})
        self.assertIn("--nproc-per-node=gpu", err)

    def test_dry_run_starts_nothing(self):
        marker = self.folder / "started"
        out, _ = self.launch("--dry-run", "--nproc-per-node=2", "--no-python", "/usr/bin/touch", marker)
        self.assertIn("--nproc-per-node", out)
        self.assertIn("RANK=1", out)
        self.assertFalse(marker.exists())

    def test_help_and_version(self):
        out, err = self.launch("--help")
        self.assertIn("--rdzv-endpoint", out)
        self.assertEqual(err, "")
        self.assertRegex(self.launch("--version")[0], r"^lr-launch \d+\.\d+")

    def test_no_library_of_tensors(self):
        self.assertNotIn(b"libtorch", LAUNCH.read_bytes())


if __name__ == "__main__":
    unittest.main()
