#!/usr/bin/env bash
# Renews tests/ops/cuda/kernels.txt, the table of the GPU's kernels and the registers that each takes: compiles every form for every
# architecture, which takes minutes and no GPU.
# usage: cuda_kernels.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo "usage: cuda_kernels.sh BUILD_DIR" >&2; exit 2; }
parts=$(realpath -m "$1")/tests/ops/cuda/kernels
rm -rf "$parts"
ctest --test-dir "$1" -R '^ops/cuda/' >/dev/null || true   # fails where the table differs, which is why it is renewed
[ -e "$parts/kernels.txt" ] || { echo "test_ops_cuda did not run; build it, then see: ctest --test-dir $1 -R '^ops/cuda/'" >&2; exit 1; }
LC_ALL=C cat "$parts"/*.txt >tests/ops/cuda/kernels.txt
