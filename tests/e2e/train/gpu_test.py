"""The real trainer on CUDA devices: near the recorded CPU run in float32, stable in bf16 and fp16, sharded and replicated over
all devices, saved and resumed. Run by tools/test_gpu.sh; skipped, and said so, where there is no device."""
import json
import math
import subprocess
import unittest

from train_harness import BIN, TrainingTest

STEPS = 6


def device_count():
    try:
        listed = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        return 0
    return len(listed.stdout.split()) if listed.returncode == 0 else 0


DEVICES = device_count()


@unittest.skipIf(DEVICES == 0, "no NVIDIA GPU")
class Gpu(TrainingTest):
    def cuda(self, *extra, ranks=1, output="run"):
        drop = ("--policy.device", "--steps", "--save_freq", "--output_dir")
        base = [a for a in self.arguments_of("ddp2_torchrun" if ranks > 1 else "single") if not a.startswith(drop)]
        return self.train([*base, "--policy.device=cuda", f"--steps={STEPS}", f"--save_freq={STEPS // 2}", f"--output_dir={self.folder}/{output}", *extra],
                          ranks=ranks)

    def losses(self, steps):
        return [s["loss"] for s in steps[0]]

    def assert_near_recorded(self, steps, tolerance):
        wanted = [s["loss"] for s in self.reference("single")["steps_exact_per_rank"][0]][:STEPS]
        # Dropout and latent noise are drawn by the device's own generator: only the first losses' size can agree.
        for ours, theirs in zip(self.losses(steps), wanted):
            self.assertTrue(math.isfinite(ours))
            self.assertLessEqual(abs(ours - theirs) / theirs, tolerance)

    def test_float32_trains_like_the_cpu(self):
        plain = ["--tf32=false", "--policy.dropout=0.0", "--policy.use_vae=false"]
        _, gpu = self.cuda(*plain, output="gpu")
        _, cpu = self.cuda(*plain, "--policy.device=cpu", output="cpu")
        worst = max(abs(a - b) / abs(b) for a, b in zip(self.losses(gpu), self.losses(cpu)))
        print(f"largest relative loss difference to the CPU over {STEPS} steps: {worst:.2e}")
        self.assertLessEqual(worst, 1e-3)

    def test_bf16_and_fp16_stay_near(self):
        for precision in ("bf16", "fp16"):
            with self.subTest(precision=precision):
                output, steps = self.cuda(f"--accelerator.mixed_precision={precision}", output=precision)
                self.assert_near_recorded(steps, 0.5)
                self.assertEqual(" scale:" in output, precision == "fp16")

    def test_fp16_keeps_its_scale_over_a_resume(self):
        self.cuda("--accelerator.mixed_precision=fp16", "--accelerator.grad_scaler.init_scale=1024")
        step = self.folder / f"run/checkpoints/{STEPS // 2:06d}"
        state = json.loads((step / "training_state/scaler_state.json").read_text())
        self.assertEqual(sorted(state), ["_growth_tracker", "backoff_factor", "growth_factor", "growth_interval", "scale"])
        _, steps = self.train(["--resume=true", f"--config_path={step}"])
        self.assertEqual(len(steps[0]), STEPS - STEPS // 2)

    def test_resume_is_exact_on_one_device(self):
        _, whole = self.cuda("--cudnn_deterministic=true")
        _, rest = self.train(["--resume=true", f"--config_path={self.folder}/run/checkpoints/{STEPS // 2:06d}"])
        self.assertEqual(self.losses(rest), self.losses(whole)[STEPS // 2:])

    def test_a_sharded_engine_on_one_device_and_its_offload(self):
        _, plain = self.cuda("--tf32=false", "--policy.dropout=0.0", "--policy.use_vae=false", output="plain")
        for name, extra in (("sharded", []), ("offloaded", ["--accelerator.fsdp.cpu_offload=true"])):
            with self.subTest(name):
                _, steps = self.cuda("--tf32=false", "--policy.dropout=0.0", "--policy.use_vae=false", "--parallelism.dp_shard=-1", *extra, output=name)
                worst = max(abs(a - b) / abs(b) for a, b in zip(self.losses(steps), self.losses(plain)))
                self.assertLessEqual(worst, 1e-3)

    @unittest.skipIf(DEVICES < 2, "needs two GPUs")
    def test_two_devices_over_nccl(self):
        _, replicas = self.cuda(ranks=2, output="ddp")
        for precision in ("no", "bf16", "fp16"):
            with self.subTest(precision=precision):
                _, shards = self.cuda("--parallelism.dp_shard=2", f"--accelerator.mixed_precision={precision}", ranks=2, output=f"fsdp_{precision}")
                self.assertLessEqual(abs(self.losses(shards)[0] - self.losses(replicas)[0]) / self.losses(replicas)[0], 0.05)

    def test_lr_info_finds_the_devices(self):
        done = subprocess.run([BIN / "lr-info"], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cuda", done.stdout)


if __name__ == "__main__":
    unittest.main()
