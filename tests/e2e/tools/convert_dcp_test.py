"""lerobot-convert-dcp as it is installed: conversion, refusals, --list, --verify, publishing by a stand-in for `hf`, a kill in
the middle, peak memory and speed on a checkpoint of 320 MB."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from hub_stand_in import write_hf

BIN = pathlib.Path(os.environ["LR_BIN"])
DATA = pathlib.Path(os.environ["LR_TEST_DATA"]) / "checkpoints"
CONVERT = BIN / "lerobot-convert-dcp"


class ConvertTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(DATA / "lerobot/shard4_dcp/checkpoints", self.folder / "checkpoints", symlinks=True)
        self.step = self.folder / "checkpoints/000003"
        self.model = self.step / "pretrained_model"
        self.output = self.model / "model.safetensors"
        self.environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "HF_TOKEN": "hf_secret",
                            "TMPDIR": str(self.folder / "tmp")}
        (self.folder / "tmp").mkdir()

    def run_it(self, *arguments, expect=0, program=(CONVERT,), env=None):
        result = subprocess.run([*program, *arguments], env={**self.environment, **(env or {})}, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        self.assertNotIn("hf_secret", result.stdout + result.stderr)
        return result

    def hf(self, rest):
        write_hf(self.folder, rest)


class Conversion(ConvertTest):
    def test_through_last_as_json(self):
        result = json.loads(self.run_it(f"--checkpoint_dir={self.folder}/checkpoints/last", "--json").stdout)
        self.assertEqual((result["result"], result["tensors"], result["deleted_dcp"]), ("converted", 62, False))
        self.assertEqual(self.output.read_bytes(), (DATA / "lerobot/shard4_dcp/converted_model.safetensors").read_bytes())

    def test_the_script_is_python_text_too(self):
        self.run_it("--checkpoint_dir", str(self.model), program=(sys.executable, CONVERT))
        self.assertTrue(self.output.exists())

    def test_deleting_twice_is_fine(self):
        self.run_it(f"--checkpoint_dir={self.step}", "--delete_dcp=true")
        self.assertFalse((self.model / "pytorch_model_fsdp_0").exists())
        again = self.run_it(f"--checkpoint_dir={self.step}", "--delete_dcp=true")
        self.assertIn("already converted", again.stderr)
        self.output.write_bytes(b"")
        self.run_it(f"--checkpoint_dir={self.step}", "--delete_dcp=true", expect=1)

    def test_without_shards_the_error_names_them(self):
        shutil.rmtree(self.model / "pytorch_model_fsdp_0")
        refused = self.run_it(f"--checkpoint_dir={self.step}", "--json", expect=1)
        for part in (str(self.model / "pytorch_model_fsdp_0"), "--checkpoint_format=dcp or safetensors_dcp"):
            self.assertIn(part, refused.stderr)
            self.assertIn(part, json.loads(refused.stdout)["error"])
        self.run_it(f"--checkpoint_dir={self.folder}/nowhere", expect=1)
        self.run_it("--checkpoint_dri=x", expect=2)

    def test_a_missing_shard_leaves_everything(self):
        (self.model / "pytorch_model_fsdp_0/__2_0.distcp").unlink()
        before = sorted(self.folder.rglob("*"))
        self.assertIn("__2_0.distcp", self.run_it(f"--checkpoint_dir={self.step}", "--delete_dcp", expect=1).stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_list_and_verify(self):
        keys = {entry["key"]: entry for entry in json.loads(self.run_it(f"--checkpoint_dir={self.step}", "--list", "--json").stdout)}
        self.assertEqual(keys["model.model.action_head.weight"]["shape"], [3, 6])
        self.assertEqual(keys["optimizer.param_groups.0.lr"]["dtype"], "value")
        self.assertIn("torch_rng_state", self.run_it(f"--checkpoint_dir={self.step}", "--list").stdout)
        self.run_it(f"--checkpoint_dir={self.step}", "--verify")
        shard = self.step / "training_state/optimizer_0/__1_0.distcp"
        shard.write_bytes(shard.read_bytes()[:-100])
        damaged = self.run_it(f"--checkpoint_dir={self.step}", "--verify", expect=1).stdout
        self.assertRegex(damaged, r"(?m)^DAMAGED +training_state/optimizer_0 .*__1_0.distcp")
        self.assertRegex(damaged, r"(?m)^ok +pretrained_model/pytorch_model_fsdp_0 ")


class Publishing(ConvertTest):
    def test_converts_and_uploads_exactly_the_published_files(self):
        self.hf("exit 0")
        result = self.run_it(f"--checkpoint_dir={self.step}", "--push_to_hub=me/act", "--private=true", "--json",
                             env={"HF_ENDPOINT": "http://hub.example/"})
        self.assertEqual(json.loads(result.stdout)["published"], "http://hub.example/me/act")
        self.assertIn("Model pushed to http://hub.example/me/act", result.stderr)
        self.assertIn("using ***", result.stderr)
        self.assertRegex((self.folder / "arguments").read_text(), r"^upload me/act \S+ \. --repo-type model .*--private$")
        files = (self.folder / "files").read_text().split()
        published = [path.name for path in self.model.iterdir() if path.suffix in (".json", ".safetensors")]
        self.assertEqual(sorted(files), sorted(published + ["README.md"]))
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_a_folder_without_shards_is_only_published(self):
        self.hf("exit 0")
        shutil.rmtree(self.model / "pytorch_model_fsdp_0")
        shutil.copy(DATA / "lerobot/shard4_dcp/converted_model.safetensors", self.output)
        self.run_it(f"--checkpoint_dir={self.model}", "--push_to_hub=me/act")
        self.assertIn("model.safetensors", (self.folder / "files").read_text())

    def failed(self, reason, env=None):
        result = self.run_it(f"--checkpoint_dir={self.step}", "--push_to_hub=me/act", expect=74, env=env)
        self.assertIn(reason, result.stderr)
        self.assertIn(f"lerobot-convert-dcp --checkpoint_dir={self.model} --push_to_hub=me/act", result.stderr)
        self.assertTrue(self.output.exists(), "converted all the same")

    def test_a_failure_is_74_and_says_what_to_type_later(self):
        self.failed("`hf` is not on PATH")
        self.hf("echo 401 Unauthorized >&2; exit 1")
        self.failed("exit status 1")
        self.failed("no access token", env={"HF_TOKEN": ""})
        (self.folder / "arguments").unlink()
        self.failed("HF_HUB_OFFLINE", env={"HF_HUB_OFFLINE": "1"})
        self.assertFalse((self.folder / "arguments").exists(), "nothing is started when offline")

    def test_an_upload_that_hangs_ends_with_a_signal(self):
        self.hf("touch \"%s/hanging\"; sleep 1000" % self.folder)
        process = subprocess.Popen([CONVERT, f"--checkpoint_dir={self.step}", "--push_to_hub=me/act"], env=self.environment,
                                   stderr=subprocess.PIPE, text=True)
        limit = time.monotonic() + 60
        while not (self.folder / "hanging").exists() and time.monotonic() < limit:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM, errors)
        self.assertIn("stopped", errors)
        self.assertIn(f"lerobot-convert-dcp --checkpoint_dir={self.model} --push_to_hub=me/act", errors)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])


@unittest.skipIf(os.environ.get("LR_SANITIZE"), "bounds of builds without sanitizers")
class Large(unittest.TestCase):
    MEGABYTES = 320
    TENSORS = 8

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        subprocess.run([BIN / "make_dcp", self.folder, str(self.MEGABYTES), str(self.TENSORS), "4"], check=True)
        self.shards = self.folder / "pytorch_model_fsdp_0"
        self.output = self.folder / "model.safetensors"

    def start(self, *arguments):
        return subprocess.Popen([BIN / "lr-convert-dcp", f"--checkpoint_dir={self.folder}", *arguments], stderr=subprocess.PIPE, text=True)

    def test_memory_is_one_tensor_and_speed_is_near_dd(self):
        begin = time.monotonic()
        process = self.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.stderr.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(status, 0)
        copies = " ".join(f"'{path}'" for path in sorted(self.shards.glob("*.distcp")))
        begin = time.monotonic()
        subprocess.run(["bash", "-c", f"cat {copies} | dd of='{self.folder}/copy' bs=4M conv=fsync && dd if='{self.folder}/copy' of=/dev/null bs=4M"],
                       check=True, capture_output=True)
        copied = time.monotonic() - begin
        largest = self.MEGABYTES * 1e6 / self.TENSORS
        peak = usage.ru_maxrss * 1024
        print(f"\n{self.MEGABYTES} MB: peak {peak / 1e6:.0f} MB, largest tensor {largest / 1e6:.0f} MB; {self.MEGABYTES / seconds:.0f} MB/s, "
              f"dd (copy, flush, read back) {self.MEGABYTES / copied:.0f} MB/s")
        self.assertLess(peak, largest + 64e6)

    def test_a_kill_in_the_middle_leaves_the_shards_and_the_next_run_finishes(self):
        process = self.start("--delete_dcp")
        limit = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < limit:
            if any(path.stat().st_size > 50e6 for path in self.folder.glob("model.safetensors.tmp-*")):
                break
        process.kill()
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL, "it was still writing")
        self.assertFalse(self.output.exists())
        again = self.start("--delete_dcp")
        _, errors = again.communicate(timeout=120)
        self.assertEqual(again.returncode, 0, errors)
        self.assertIn("of an interrupted conversion", errors)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["model.safetensors"])


if __name__ == "__main__":
    unittest.main()
