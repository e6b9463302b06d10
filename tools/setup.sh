#!/usr/bin/env bash
# Installs everything lr needs to build and test, on Debian 12: packages by apt, four pinned wheels into .deps/.
# Idempotent; under 5 s when all is there. The only place in the project that installs anything.
#
#   tools/setup.sh            install what is missing
#   tools/setup.sh --check    install nothing; exit 1 and say what is missing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TORCH=2.15.0 PYARROW=26.0.0 CUDA_RUNTIME=13.5.37 CUDA_CUPTI=13.5.25

PACKAGES=(
  g++ clang clang-format clang-tidy cmake ninja-build ccache mold pkg-config python3 python3-pip git
  protobuf-compiler protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev
  libboost1.81-dev libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
  libsqlite3-dev prometheus-cpp-dev libgloo-dev
  libavformat-dev libavcodec-dev libswscale-dev libavutil-dev
  libgtest-dev libgmock-dev libbenchmark-dev iproute2 procps shellcheck
)

missing_packages() {
  local installed p
  installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii //p')
  for p in "${PACKAGES[@]}"; do
    grep -qxF "$p" <<<"$installed" || echo "$p"
  done
}

wheels_present() {
  [ -e ".deps/torch-$TORCH.dist-info" ] && [ -e ".deps/pyarrow-$PYARROW.dist-info" ] &&
    [ -e ".deps/nvidia_cuda_runtime-$CUDA_RUNTIME.dist-info" ] &&
    [ -e ".deps/nvidia_cuda_cupti-$CUDA_CUPTI.dist-info" ] && [ -e .deps/include/torch/torch/script.h ]
}

mapfile -t missing < <(missing_packages)
if [ "${1:-}" = --check ]; then
  [ ${#missing[@]} -eq 0 ] && wheels_present && exit 0
  echo "setup: missing: ${missing[*]:-} $(wheels_present || echo '(wheels in .deps)')" >&2
  exit 1
fi

if [ ${#missing[@]} -gt 0 ]; then
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  if ! command -v apt-get >/dev/null; then
    echo "setup: this is not a Debian system (no apt-get). Install the equivalents of: ${missing[*]}" >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: ${#missing[@]} Debian packages are missing and you are not root. Run once, then run this again:" >&2
    echo "  sudo apt-get update && sudo ${install[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${#missing[@]} Debian packages" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  "${install[@]}" >.setup.log 2>&1 || {
    echo "setup: apt-get failed; its last lines:" >&2
    tail -5 .setup.log >&2
    exit 1
  }
  rm -f .setup.log
fi

if ! wheels_present; then
  echo "setup: fetching LibTorch $TORCH and Arrow $PYARROW into .deps (about 1.4 GiB unpacked)" >&2
  rm -rf .deps.new
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target .deps.new \
    --only-binary=:all: --python-version 3.11 "torch==$TORCH" "pyarrow==$PYARROW" \
    "nvidia-cuda-runtime==$CUDA_RUNTIME" "nvidia-cuda-cupti==$CUDA_CUPTI" || {
    echo "setup: pip could not fetch the wheels (is a package index reachable?); nothing was changed" >&2
    exit 1
  }
  # torch/include also carries fmt, protobuf and pybind11, which would shadow Debian's: expose only what is ours to use.
  mkdir -p .deps.new/include/torch .deps.new/include/arrow
  for d in ATen c10 caffe2 torch; do ln -s "../../torch/include/$d" ".deps.new/include/torch/$d"; done
  for d in arrow parquet; do ln -s "../../pyarrow/include/$d" ".deps.new/include/arrow/$d"; done
  rm -rf .deps
  mv .deps.new .deps
fi
