"""No program of the control plane, nor the converter, loads LibTorch, also not through another library."""
import pathlib
import subprocess
import sys

programs = [p for name in ("lr-launch", "lr-ctl", "lr-launchd", "lr-convert-dcp") if (p := pathlib.Path(sys.argv[1]) / name).exists()]
if not programs:
    sys.exit("no launcher program was built")
for program in programs:
    libraries = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    assert "torch" not in libraries and "libc10" not in libraries, f"{program} loads LibTorch:\n{libraries}"
    print(f"{program.name}: {len(libraries.splitlines())} libraries, none of LibTorch")
