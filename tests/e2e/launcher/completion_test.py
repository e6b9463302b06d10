"""Completion scripts (--print-completion), tried in the shell itself."""
import shutil
import subprocess
import unittest

from launch_harness import LAUNCH, LaunchTest

# Asks bash's programmable completion as a Tab would: words as bash splits them, the last one being completed.
ASK = """
source <("$1" --print-completion bash)
shift
complete -p lr-launch torchrun >/dev/null || exit 9
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_lr_launch
printf '%s\\n' "${COMPREPLY[@]}"
"""


class Completion(LaunchTest):
    def ask(self, *words):
        result = subprocess.run(["bash", "-c", ASK, "ask", str(LAUNCH), "lr-launch", *words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return sorted(line for line in result.stdout.splitlines() if line)

    def test_bash_completes_names(self):
        self.assertEqual(self.ask("--npr"), ["--nproc-per-node"])
        self.assertIn("--rdzv-endpoint", self.ask("--rdzv"))
        self.assertIn("--standalone", self.ask("--nnodes", "2", "--role", "x", "--sta"))

    def test_bash_completes_values(self):
        self.assertEqual(self.ask("--rdzv-backend", ""), ["c10d", "static"])
        self.assertEqual(self.ask("--rdzv-backend", "=", "c"), ["c10d"])
        self.assertEqual(self.ask("--rdzv_backend", "="), ["c10d", "static"])
        self.assertEqual(self.ask("--nproc-per-node", "=", "g"), ["gpu"])

    def test_bash_completes_files_where_the_program_stands_and_after_it(self):
        self.file("train.py", "")
        self.assertEqual(self.ask("--nproc-per-node", "=", "2", "tr"), ["train.py"])
        self.assertEqual(self.ask("--nproc-per-node", "2", "tr"), ["train.py"])
        self.assertEqual(self.ask("--standalone", "train.py", "--npr"), [])

    def test_scripts_parse_where_the_shell_exists(self):
        for shell in ("bash", "zsh", "tcsh"):
            script, err = self.launch("--print-completion", shell)
            self.assertEqual(err, "")
            self.assertIn("nproc-per-node", script)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True)

    def test_other_shells_are_a_usage_error(self):
        _, err = self.launch("--print-completion=fish", expect=2)
        self.assertIn("--print-completion=fish: must be one of bash, zsh, tcsh", err)


if __name__ == "__main__":
    unittest.main()
