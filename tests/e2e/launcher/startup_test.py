"""Time and memory of a run that does nothing (S-51)."""
import os
import resource
import subprocess
import time
import unittest

from launch_harness import LAUNCH, LaunchTest, plain_build


class Startup(LaunchTest):
    def once(self, nproc):
        """(seconds, CPU seconds, peak resident KiB of the launcher) of one run."""
        start = time.monotonic()
        process = subprocess.Popen([str(LAUNCH), "--standalone", f"--nproc-per-node={nproc}", "--no-python", "/bin/true"], env=self.environment,
                                   stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss

    @plain_build
    def test_two_and_eight_workers(self):
        for nproc in (2, 8):
            runs = [self.once(nproc) for _ in range(15)]
            times = sorted(run[0] for run in runs)
            cpu = min(run[1] for run in runs)
            peak = max(run[2] for run in runs)
            print(f"{nproc} x /bin/true: best {times[0] * 1000:.1f} ms, median {times[7] * 1000:.1f} ms, CPU {cpu * 1000:.1f} ms, peak {peak / 1024:.1f} MiB")
            self.assertLessEqual(times[0], 0.100)  # the best one: the others wait for whatever else the machine does
            self.assertLessEqual(peak, 20_000)

    def test_no_descriptors_leak(self):
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.assertGreater(soft, 64)
        out, _ = self.launch("--standalone", "--nproc-per-node=2", "--no-python", "/bin/sh", "-c", "ls /proc/self/fd | wc -l")
        self.assertEqual(set(out.split()), {"4"})  # 0, 1, 2 and the folder being listed


if __name__ == "__main__":
    unittest.main()
