"""The worker of torchrun_test.py: notes what its launcher gave it, says a line on each stream, ends as PROBE_DO says.

    (empty)            ends well
    exit:RANK:CODE     that rank ends with CODE, the others wait for the launcher
    once:RANK:CODE     the same, in the first attempt only
    kill:RANK:SIGNAL   that rank sends itself a signal
    raise:RANK         that rank raises out of a function that torch's @record watches
    wait               every rank waits for SIGTERM, notes it and ends well
"""
import json
import os
import pathlib
import signal
import sys
import time

RANK, ATTEMPT = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
OUT = pathlib.Path(os.environ["PROBE_OUT"])


def note(name, content):
    part = OUT / f".{name}"
    part.write_text(json.dumps(content))
    part.rename(OUT / name)


def wait_for_the_others():
    """So that what a failing rank ends is complete."""
    while len(list(OUT.glob(f"seen.{ATTEMPT}.*"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)


def fail():
    raise ValueError(f"rank {RANK} does not like its data")


def main():
    signal.signal(signal.SIGTERM, lambda number, _: (note(f"signal.{RANK}", number), sys.exit(0)))
    os.write(1, f"out {RANK}: loss 0.5\n".encode())  # in one piece: two processes may share the stream
    os.write(2, f"err {RANK}: careful\n".encode())
    note(f"seen.{ATTEMPT}.{RANK}", {"argv": sys.argv, "command": sys.orig_argv, "environment": dict(os.environ), "folder": os.getcwd()})
    what, *which = os.environ.get("PROBE_DO", "").split(":")
    if not what or (what == "once" and ATTEMPT > 0):
        return
    wait_for_the_others()
    if what in ("exit", "once") and RANK == int(which[0]):
        sys.exit(int(which[1]))
    if what == "kill" and RANK == int(which[0]):
        os.kill(os.getpid(), int(which[1]))
    if what == "raise" and RANK == int(which[0]):
        from torch.distributed.elastic.multiprocessing.errors import record
        record(fail)()
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
