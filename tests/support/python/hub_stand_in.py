"""A stand-in for the `hf` command: it records how it was called and what was in the folder, then does what the test says."""
import pathlib

SCRIPT = """#!/bin/sh
echo "$@" > "{folder}/arguments"
ls -A1 "$3" > "{folder}/files"
rm -rf "{folder}/uploaded"
cp -rL "$3" "{folder}/uploaded"
echo "using $HF_TOKEN"
{rest}
"""


def write_hf(folder, rest):
    """Into folder/bin, which the test puts on PATH; the records go into `folder`."""
    path = pathlib.Path(folder) / "bin/hf"
    path.parent.mkdir(exist_ok=True)
    path.write_text(SCRIPT.format(folder=folder, rest=rest))
    path.chmod(0o755)
