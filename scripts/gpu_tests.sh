#!/usr/bin/env bash
# Runs the GPU's tests on GPU 0; with --sanitize, a few of each family once more under each of compute-sanitizer's tools.
# usage: gpu_tests.sh BUILD_DIR [--sanitize]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
test=$1/test_gpu
[ -x "$test" ] || die "$test is not there; build first (make build-test)"
step "tests on the GPU"
"$test"
[ "${2:-}" = --sanitize ] || exit 0
few='Gpu.runs*:Gpu.serves*:GpuMovement.reorders*:GpuNorm.adds*:GpuNorm.rows*:GpuPointwise.broadcasts*'
for tool in memcheck racecheck initcheck synccheck; do
  step "compute-sanitizer --tool $tool"
  compute-sanitizer --tool $tool --error-exitcode 1 "$test" --gtest_filter="$few" --gtest_brief=1
done
