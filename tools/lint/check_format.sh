#!/usr/bin/env bash
# Exits 1 and names the files that clang-format would change; --fix changes them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mapfile -t files < <(git ls-files '*.h' '*.cc')
if [ "${1:-}" = --fix ]; then
  clang-format -i "${files[@]}"
  exit
fi
bad=$(clang-format --dry-run "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1/p' | sort -u)
if [ -n "$bad" ]; then
  echo "format: run tools/lint/check_format.sh --fix for:" >&2
  echo "$bad" >&2
  exit 1
fi
echo "format: ${#files[@]} files are clean"
