#!/usr/bin/env bash
# The one test command: set-up, build, all quick tests through ctest, layer check and format check.
#
#   tools/test.sh                 what CI runs (labels unit, integration, e2e, numeric)
#   tools/test.sh -L unit         further arguments go to ctest
#   LR_PRESET=dev tools/test.sh   another preset (see cmake --list-presets)
#
# On demand: tools/test.sh -L slow (kill and soak tests), -L peer (against the Python libraries), tools/test_gpu.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${LR_PRESET:-release}

tools/setup.sh
python3 tools/lint/check_layers.py
tools/lint/check_format.sh
cmake --preset "$preset" >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build --preset "$preset"
select=(-LE 'slow|peer|slurm|gpu')
[ $# -gt 0 ] && select=()
ctest --test-dir "build/$preset" --output-on-failure -j 2 "${select[@]}" "$@"
