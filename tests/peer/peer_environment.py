"""The Python environment that tests of label `peer` compare with; theirs alone, made once in the build folder.

LR_PEER_PYTHON=/venv/bin/python names one that is there instead.
"""
import os
import pathlib
import subprocess
import sys

PACKAGES = ["torch==2.15.0", "numpy", "safetensors==0.8.0"]


def peer_python():
    """Path of its interpreter; makes the environment (torch from the package index) if it is not complete."""
    given = os.environ.get("LR_PEER_PYTHON")
    if given:
        return given
    folder = pathlib.Path(os.environ["LR_BIN"]).parent / "peer"
    python = str(folder / "bin" / "python")
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        (folder / "complete").write_text(" ".join(PACKAGES))
    return python
