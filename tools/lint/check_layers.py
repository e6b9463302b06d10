#!/usr/bin/env python3
"""Checks the layer rules of ARCHITECTURE.md from the include lines; prints each breach and exits 1 if there is one.

A folder may include what its row lists (longest matching prefix wins on both sides). Pure files may include neither
LibTorch nor gRPC nor Asio, nor open files or read clocks; they are marked by "(pure)" in their first comment.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

ENGINE = ["worker/pickle", "worker/comm", "worker/parallel", "worker/precision", "worker/optim", "worker/checkpoint", "worker/data", "worker/processors"]
ALLOWED = {
    "common/base": ["common/base"],
    "common/io": ["common/base", "common/io"],
    "common/config": ["common/base", "common/io", "common/config"],
    "common/contract": ["common/base", "common/io", "common/contract"],
    "common/rpc": ["common", "proto"],
    "common/log": ["common/base", "common/log"],
    "launcher": ["common", "proto", "launcher"],
    "launcher/plan": ["common/base", "common/contract", "launcher/plan"],
    "worker/control": ["common", "proto", "worker/control"],
    "worker/hub": ["common", "worker/hub"],
    "worker/nn": ["common", "worker/pickle", "worker/nn", "worker/parallel"],
    "worker/policies": ["common", "worker/nn", "worker/policies", "worker/parallel", "worker/data/batch.h", "worker/data/features.h",
                        "worker/data/normalization_mode.h", "worker/data/windows.h", "worker/optim"],
    "worker/accelerator": ["common", "worker/accelerator"] + ENGINE,
    "worker/train": ["common", "proto", "worker"],
    "worker/lr_train_main.cc": ["common", "worker"],
    "tools": ["common", "proto", "launcher", "worker", "tools"],
    "tests": ["common", "proto", "launcher", "worker", "tools", "tests"],
}
for position, room in enumerate(ENGINE):
    ALLOWED[room] = ["common", "worker/policies/policy_config.h"] + ENGINE[: position + 1]
# The data room knows a policy's windows and normalisation, both plain structs.
NO_TORCH = ["common", "launcher", "worker/control", "worker/pickle", "worker/hub", "tools/lr_ctl", "tools/lr_convert_dcp", "proto"]
FOREIGN = re.compile(r"^(torch|ATen|c10|c10d|caffe2)/")
PURE_NEVER = re.compile(r"^(torch/|ATen/|c10/|grpc|boost/asio|filesystem$|fstream$|unistd\.h$|sys/)")


def longest(prefixes, path):
    hits = [p for p in prefixes if path == p or path.startswith(p + "/")]
    return max(hits, key=len) if hits else None


def main():
    breaches = []
    for path in sorted(ROOT.glob("**/*")):
        relative = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".h", ".cc") or relative.split("/")[0] not in ("common", "launcher", "worker", "tools", "tests"):
            continue
        room = longest(ALLOWED, relative)
        text = path.read_text(encoding="utf-8", errors="replace")
        pure = "(pure)" in "\n".join(text.splitlines()[:6]) and path.suffix in (".h", ".cc")
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if not match:
                continue
            quote, target = match.groups()
            where = f"{relative}:{number}"
            if quote == '"' and room and longest(ALLOWED[room], target) is None:
                breaches.append(f"{where}: {room} may not include {target}")
            if FOREIGN.match(target) and longest(NO_TORCH, relative):
                breaches.append(f"{where}: no LibTorch here ({target})")
            if pure and PURE_NEVER.match(target):
                breaches.append(f"{where}: a (pure) file may not include {target}")
    for breach in breaches:
        print(breach)
    print(f"layers: {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
