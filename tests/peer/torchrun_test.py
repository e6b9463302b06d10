"""The same command lines under the real torchrun and under lr-launch: what the worker sees, the log tree, the exit code.

Label `peer` (see peer_environment.py). A difference is allowed if a row of README.md's table "Differences from torchrun" says so, and
each row must be seen at least once: table and programs cannot disagree silently. --exit-code=torchrun is given to lr-launch where
nothing else is said.
"""
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from peer_environment import peer_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e" / "launcher"))
from launch_harness import LAUNCH, LaunchTest, free_port, wait_until  # noqa: E402

PROBE = pathlib.Path(__file__).with_name("worker_probe.py")
PEER_LIMIT_S = 120  # torchrun's own start takes seconds
TITLE = "### Differences from torchrun"
seen_rows = set()


def matches(pattern, text):
    """* in the pattern stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.S) is not None


@dataclasses.dataclass(frozen=True)
class Difference:
    """`what` is "argv", "command" (with the interpreter), "folder", "exit code", "exit code without workers", "stdout", "signal", "summary", "summary FIELD",
    "env NAME" or "file PATH"."""
    what: str
    torchrun: object  # None: it is not there
    ours: object

    def __str__(self):
        return f"{self.what}: torchrun {self.torchrun!r}, lr-launch {self.ours!r}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the README's table. Cells in `back quotes` are values (* stands for anything), "not there" is None, "empty"
    nothing, other words any value."""
    what: str
    torchrun: str
    ours: str

    def allows(self, difference):
        cells = ((self.torchrun, difference.torchrun), (self.ours, difference.ours))
        return matches(self.what, difference.what) and all(self.fits(cell, value) for cell, value in cells)

    @staticmethod
    def fits(cell, value):
        if cell in ("not there", "empty"):
            return value is None if cell == "not there" else value == ""
        quoted = re.fullmatch(r"`(.*)`", cell)
        return value is not None and (quoted is None or matches(quoted.group(1), str(value)))


def intended():
    """The rows of the README's table."""
    table = (ROOT / "README.md").read_text().split(TITLE, 1)[1].split("\n#", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("| `")]
    return [Row(cells[0].strip("`"), cells[1], cells[2]) for cells in rows]


class Side:
    """One launcher's runs of one command line: folders of its own, names of folders, ports and ids made alike."""

    def __init__(self, test, name, program):
        self.test, self.program = test, program
        self.folder = test.folder / name
        for part in ("notes", "tmp", "state", "home"):
            (self.folder / part).mkdir(parents=True)
        self.nodes = []

    def start(self, arguments, environment, do):
        own = {"PROBE_OUT": str(self.folder / "notes"), "PROBE_DO": do, "TMPDIR": str(self.folder / "tmp"),
               "XDG_STATE_HOME": str(self.folder / "state"), "XDG_RUNTIME_DIR": str(self.folder / "tmp"), "HOME": str(self.folder / "home")}
        process = subprocess.Popen([*self.program, *map(str, arguments)], env={**self.test.peer_environment, **own, **environment}, cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.test.addCleanup(lambda: process.poll() is None and (process.kill(), process.communicate()))
        self.nodes.append(process)

    def notes(self, prefix):
        return {path.name: json.loads(path.read_text()) for path in (self.folder / "notes").glob(f"{prefix}.*")}

    def finish(self):
        """{what: value} of everything that is compared"""
        outputs = [process.communicate(timeout=PEER_LIMIT_S) for process in self.nodes]
        self.err = "".join(err for _, err in outputs)
        seen = self.notes("seen")
        self.ids = {note["environment"]["TORCHELASTIC_RUN_ID"] for note in seen.values()}
        found = {"exit code": str([process.returncode for process in self.nodes]), "stdout": sorted("".join(out for out, _ in outputs).splitlines())}
        for name, note in seen.items():
            for variable, value in note["environment"].items():
                found[name, f"env {variable}"] = self.port(value) if variable == "MASTER_PORT" else self.alike(value)
            for what in ("argv", "command"):
                found[name, what] = [self.alike(word) for word in note[what]]
            found[name, "folder"] = self.alike(note["folder"])
        for name, number in self.notes("signal").items():
            found[name, "signal"] = number
        found.update(self.log_tree())
        found.update(self.summary())
        return found

    def log_tree(self):
        found = {}
        for base in ("logs", "tmp"):
            for path in (self.folder / base).rglob("*"):
                if path.is_file():
                    content = path.read_text(errors="replace")
                    if path.name == "error.json":
                        content = self.error_file(content)
                    elif path.name.startswith("filtered_"):  # in the order in which the ranks spoke
                        content = "".join(sorted(content.splitlines(True)))
                    found[f"file {self.alike(str(path))}"] = content
        return found

    @staticmethod
    def error_file(content):
        """Its message and shape; traceback and time are the moment's."""
        told = json.loads(content)["message"]
        return json.dumps({"message": told["message"], "extraInfo": sorted(told["extraInfo"])})

    def summary(self):
        """The block of a failure: titles and names of fields in order, and the values of those that do not tell of the moment."""
        found = {}
        for line in re.findall(r"^(.* FAILED$|Failures:|Root Cause \(first observed failure\):|\[\d\]:|  \w+ *: .*)", self.err.split("Most likely cause")[0], re.M):
            field = re.fullmatch(r"  (\w+) *: (.*)", line)
            found.setdefault("summary", []).append(field.group(1) if field else re.sub(r"^\S+ FAILED", "PROGRAM FAILED", line))
            if field and field.group(1) not in ("time", "host"):
                value = re.sub(r"PID \d+|pid: \d+", "PID", self.alike(field.group(2)))
                found.setdefault(f"summary {field.group(1)}", []).append(" ".join(value.split()))
        return {name: ", ".join(values) for name, values in found.items()}

    def port(self, text):
        return text if int(text) in self.test.given_ports else "ANY PORT"

    def alike(self, text):
        if pathlib.Path(text).is_file() and os.path.samefile(text, self.test.python):
            return "PYTHON"
        for folder, name in (("logs", "LOGDIR"), ("tmp", "TMPDIR"), ("state", "STATE"), ("", "FOLDER")):
            text = text.replace(str(self.folder / folder), name)
        for run_id in self.ids - self.test.given_ids:
            text = text.replace(run_id, "ID")
        text = re.sub(r"\btorchelastic_\w{8}\b", "torchelastic_RANDOM", text)
        return re.sub(r"((?:LOGDIR|logs|torchelastic_RANDOM)/[\w.-]+?)_\w{8}(?=/)", r"\1_RANDOM", text)


class TorchrunTest(LaunchTest):
    @classmethod
    def setUpClass(cls):
        cls.python = pathlib.Path(peer_python())

    def setUp(self):
        super().setUp()
        self.given_ids, self.given_ports = set(), set()
        path = f"{self.python.parent}:{os.environ['PATH']}"  # an activated environment
        self.peer_environment = {**self.environment, "PATH": path, "VIRTUAL_ENV": str(self.python.parent.parent), "LC_ALL": "C.UTF-8",
                                 "PYTHONPATH": str(PROBE.parent)}
        self.count = 0

    def some_port(self):
        port = free_port()
        self.given_ports.add(port)
        return port

    def start_both(self, *nodes, env=None, do="", ours=("--exit-code=torchrun",), in_turn=False):
        """`nodes`: the arguments of each node's launcher. In turn: torchrun ends before ours starts, as both use one port."""
        self.count += 1
        sides = [Side(self, f"{self.count}-torchrun", [str(self.python.parent / "torchrun")]), Side(self, f"{self.count}-ours", [str(LAUNCH), *ours])]
        for side in sides:
            for arguments in nodes:
                side.start(arguments, env or {}, do)
            if in_turn:
                self.assertTrue(wait_until(lambda s=side: all(process.poll() is not None for process in s.nodes), PEER_LIMIT_S))
        return sides

    def check(self, *arguments, **more):
        return self.compare(self.start_both(arguments, **more))

    def compare(self, sides):
        theirs, ours = (side.finish() for side in sides)
        told = lambda key: key if isinstance(key, str) else key[1]
        differences = [Difference(told(key), theirs.get(key), ours.get(key)) for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
        self.allow(differences, f"--- torchrun\n{sides[0].err}\n--- lr-launch\n{sides[1].err}")
        self.assertTrue([key for key in theirs if told(key) == "argv"], sides[0].err)
        return theirs


    def allow(self, differences, story):
        """Fails on what no row of the table allows."""
        rows = intended()
        seen_rows.update(row for row in rows for difference in differences if row.allows(difference))
        unwanted = sorted({str(difference) for difference in differences if not any(row.allows(difference) for row in rows)})
        self.assertEqual(unwanted, [], story)


class Programs(TorchrunTest):
    def test_a_script_and_its_arguments(self):
        seen = self.check("--standalone", "--nproc-per-node=2", PROBE, "--lr", "0.1", "--", "-h", "two words", "--nproc-per-node=9", "$local_rank", "${local_rank}/x", "$HOME")
        self.assertEqual(len([key for key in seen if key[1] == "argv"]), 2)

    def test_a_module(self):
        self.check("--standalone", "--nproc-per-node=2", "-m", "worker_probe", "-m", "x")

    def test_a_program(self):
        self.check("--standalone", "--nproc-per-node=2", "--no-python", self.python, PROBE, "--no-python")

    def test_run_path(self):
        self.check("--standalone", "--run-path", PROBE, "a", "b")

    def test_underscores_and_short_forms(self):
        self.check("--standalone", "--nproc_per_node", "2", "--max_restarts", "3", "--monitor-interval=0.05", PROBE)

    def test_variables_supply_options(self):
        self.check(PROBE, "x", env={"PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "2", "PET_ROLE": "trainer", "PET_MAX_RESTARTS": "2", "PET_LOG_DIR": "logs",
                                    "PET_REDIRECTS": "1", "PET_TEE": "0:2"})

    def test_an_option_wins_over_its_variable(self):
        self.check("--standalone", "--nproc-per-node=1", "--role=mine", PROBE, env={"PET_NPROC_PER_NODE": "2", "PET_ROLE": "trainer"})

    def test_inherited_values(self):
        self.check("--standalone", "--nproc-per-node=2", PROBE, env={"OMP_NUM_THREADS": "3", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "RANK": "7", "MASTER_ADDR": "there"})

    def test_virtual_local_rank(self):
        self.check("--standalone", "--nproc-per-node=2", "--virtual-local-rank", PROBE, env={"CUDA_VISIBLE_DEVICES": "4,6"})


class Rendezvous(TorchrunTest):
    def test_nothing_given(self):
        self.check("--nproc-per-node=2", PROBE)

    def test_an_id(self):
        self.given_ids.add("job7")
        self.check("--nnodes=1", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-id=job7", PROBE)

    def test_a_port(self):
        self.check("--nproc-per-node=2", f"--master-port={self.some_port()}", PROBE, in_turn=True)
        self.check("--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={self.some_port()}", PROBE, in_turn=True)

    def test_two_nodes(self):
        port = self.some_port()
        self.compare(self.start_both(*(["--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}", PROBE]
                                       for rank in range(2)), in_turn=True))

    def test_two_nodes_by_endpoint(self):
        self.given_ids.add("job7")
        where = ["--rdzv-backend=c10d", "--rdzv-id=job7", f"--rdzv-endpoint=127.0.0.1:{self.some_port()}"]
        self.compare(self.start_both(*(["--nnodes=2", "--nproc-per-node=1", *where, PROBE] for _ in range(2)), in_turn=True))


class Logs(TorchrunTest):
    def logged(self, *options, **more):
        self.check("--standalone", "--nproc-per-node=2", "--log-dir=logs", *options, PROBE, **more)

    def test_redirects(self):
        for value in ("0", "1", "2", "3", "0:1", "0:1,1:2"):
            with self.subTest(value):
                self.logged("-r", value)

    def test_tee(self):
        for value in ("3", "1:3", "0:2,1:1"):
            with self.subTest(value):
                self.logged(f"--tee={value}")

    def test_both(self):
        self.logged("-r3", "-t", "0:1")

    def test_filters_and_prefixes(self):
        self.logged("-t3", "--local-ranks-filter=1")
        self.logged("-t3", "--log-line-prefix-template=<${role_name} ${rank}> ", "--role=actor")
        for option in ("-t3", "-r3"):
            self.logged(option, "--duplicate-stdout-filters=loss", "--duplicate-stderr-filters=careful")

    def test_without_a_folder(self):
        self.check("--standalone", "--nproc-per-node=2", "-r3", PROBE)


class Endings(TorchrunTest):
    RUN = ("--standalone", "--nproc-per-node=2", "--log-dir=logs", "-r3")

    def test_a_failure(self):
        self.check(*self.RUN, PROBE, do="exit:1:7")

    def test_the_code_of_a_failure(self):
        self.check(*self.RUN, PROBE, do="exit:1:7", ours=())

    def test_a_signal(self):
        self.check(*self.RUN, PROBE, do="kill:0:9")

    def test_an_exception_that_is_recorded(self):
        self.check(*self.RUN, PROBE, do="raise:0")

    def test_a_restart(self):
        self.check(*self.RUN, "--max-restarts=1", PROBE, do="once:1:7")

    def test_wrong_usage(self):
        for arguments in (["--no-such-option", PROBE], ["--nproc-per-node=2"], ["--nproc-per-node=many", PROBE], ["--standalone", "no_such_script.py"],
                          ["--standalone", "-m", "--no-python", "x"]):
            codes = [str(subprocess.run([*program, *map(str, arguments)], env=self.peer_environment, capture_output=True, timeout=PEER_LIMIT_S,
                                        check=False).returncode) for program in ([self.python.parent / "torchrun"], [LAUNCH, "--exit-code=torchrun"])]
            if codes[0] != codes[1]:
                self.allow([Difference("exit code without workers", *codes)], str(arguments))

    def test_sigterm(self):
        sides = self.start_both([*self.RUN, PROBE], do="wait")
        for side in sides:
            self.assertTrue(wait_until(lambda s=side: len(s.notes("seen")) == 2, PEER_LIMIT_S))
            side.nodes[0].send_signal(signal.SIGTERM)
        self.compare(sides)


class Table(unittest.TestCase):
    def test_each_row_was_seen(self):
        """Runs last; only the whole file shows that."""
        if len(sys.argv) > 1 and any(not argument.startswith("-") for argument in sys.argv[1:]):
            self.skipTest("only some tests ran")
        self.assertEqual([row.what for row in intended() if row not in seen_rows], [])


if __name__ == "__main__":
    unittest.main()
