"""`cmake --install` makes a usable prefix: programs find their libraries, the documented names work in both languages."""
import os
import pathlib
import subprocess
import sys
import unittest

from train_harness import BIN, TrainingTest, clean_environment


class Install(TrainingTest):
    def test_programs_and_documented_names(self):
        prefix = self.folder / "prefix"
        subprocess.run(["cmake", "--install", str(BIN.parent), "--prefix", str(prefix)], check=True, capture_output=True, timeout=300)
        bin_folder = prefix / "bin"
        for program in ("lr-launch", "lr-train", "lr-ctl", "lerobot-train"):
            self.assertTrue(os.access(bin_folder / program, os.X_OK), program)
        libraries = subprocess.run(["ldd", str(bin_folder / "lr-train")], capture_output=True, text=True, check=True).stdout
        self.assertIn(str(prefix.resolve() / "lib/lr"), libraries.replace("/bin/..", ""))
        self.assertNotIn("not found", libraries)
        for command in ([str(bin_folder / "lerobot-train")], ["sh", str(bin_folder / "lerobot-train")],
                        [sys.executable, str(bin_folder / "lerobot-train")]):
            done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=False, env=clean_environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("--batch_size", done.stdout)
        link = self.folder / "lerobot-train"
        link.symlink_to(bin_folder / "lerobot-train")
        output, _ = self.train([*self.arguments_of("single"), "--steps=1"], ranks=2, program=link)
        self.assertIn("End of training", output)


if __name__ == "__main__":
    unittest.main()
