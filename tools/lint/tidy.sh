#!/usr/bin/env bash
# clang-tidy over the sources, all findings are errors. On demand: LibTorch files take about a minute each.
#
#   tools/lint/tidy.sh control          everything without LibTorch (minutes)
#   tools/lint/tidy.sh all              everything
#   tools/lint/tidy.sh FILE.cc …        these files
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/tidy
# Its own configuration: clang cannot read g++'s precompiled headers.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
cmake --build "$build" --target lr_proto >/dev/null

mapfile -t known < <(python3 -c '
import json, os, sys
for entry in json.load(open(sys.argv[1] + "/compile_commands.json")):
    path = os.path.relpath(entry["file"])
    if not path.startswith(("build/", "..")):
        print(("torch " if "/torch/" in entry["command"] else "plain ") + path)' "$build" | sort -u)
files=()
for line in "${known[@]}"; do
  case "${1:-control}" in
    all) files+=("${line#* }") ;;
    control) [[ $line == plain* ]] && files+=("${line#* }") ;;
    *) for wanted in "$@"; do [[ ${line#* } == "$wanted" ]] && files+=("$wanted"); done ;;
  esac
done
[ ${#files[@]} -gt 0 ] || { echo "tidy: no such source file: $*" >&2; exit 2; }
printf '%s\n' "${files[@]}" | xargs -P 2 -n 4 clang-tidy -p "$build" --quiet
echo "tidy: ${#files[@]} files are clean"
