#!/usr/bin/env bash
# The GPU tests: builds the preset gpu and runs the label gpu (training, precision, checkpoints and NCCL on real devices).
#
#   tools/test_gpu.sh             all of them
#   tools/test_gpu.sh -R fp16     further arguments go to ctest
#
# Where there is no GPU nothing is run: it says so and exits with 77, which is neither success nor failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

devices=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true)
if [ -z "$devices" ]; then
  echo "test_gpu: no usable NVIDIA GPU here (nvidia-smi is missing or lists none): no GPU test was run" >&2
  exit 77
fi
echo "test_gpu: on $(sort <<<"$devices" | uniq -c | sed 's/^ *//' | paste -sd, -)" >&2
tools/setup.sh
cmake --preset gpu >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build --preset gpu
build/gpu/bin/lr-info || { echo "test_gpu: lr-info does not start: the driver's or CUDA's run-time libraries are missing" >&2; exit 1; }
ctest --test-dir build/gpu --output-on-failure -L gpu "$@"
