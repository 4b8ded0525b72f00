#!/usr/bin/env bash
# Runs the GPU's tests on GPU 0; fails too where they launch a kernel that is not in tests/ops/cuda_resources/kernels.txt. With
# --sanitize instead every kernel on small problems, and what runs plans, under each of
# compute-sanitizer's tools, by as many processes as there are cores; fails too where a kernel of that list was not launched.
# usage: gpu_tests.sh BUILD_DIR [--sanitize [SECONDS_A_TOOL]]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
test=$(realpath "$1")/test_gpu
[ -x "$test" ] || die "$test is not there; build first (make build-test)"
if [ "${2:-}" != --sanitize ]; then
  step "tests on the GPU"
  launched=$(mktemp)
  trap 'rm -f "$launched"' EXIT
  SMELT_LAUNCHED=$launched "$test"
  unlisted=$(sort -u "$launched" | comm -23 - <(sort -u tests/ops/cuda_resources/kernels.txt))
  [ -z "$unlisted" ] || die "kernels that no form in tests/ops/cuda_*forms.cpp has: $unlisted"
  exit
fi

# NVIDIA's own kernels are left out: they are not ours to mend, and instrumenting their libraries takes minutes.
filter='*GpuEveryKernel*:GpuCeilings.every_kernel*:Gpu.runs*:Gpu.serves*:GpuSession.runs_on*:GpuSession.puts_runs*'
limit=${3:-600}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export SMELT_CACHE_DIR=$folder/cache GTEST_BRIEF=1
GTEST_TOTAL_SHARDS=$(nproc)
export GTEST_TOTAL_SHARDS

failed=0
for tool in memcheck racecheck initcheck synccheck; do
  step "compute-sanitizer --tool $tool"
  # Errors that calls return are smelt's to handle: asking whose an address is returns one for the host's.
  options=(--tool $tool --error-exitcode 1)
  if [ $tool = memcheck ]; then options+=(--report-api-errors no); fi
  begun=$SECONDS jobs=()
  for ((shard = 0; shard < GTEST_TOTAL_SHARDS; ++shard)); do
    GTEST_SHARD_INDEX=$shard SMELT_LAUNCHED=$folder/$tool timeout "$limit" \
      compute-sanitizer "${options[@]}" "$test" --gtest_filter="$filter" >"$folder/$tool.$shard" 2>&1 &
    jobs+=($!)
  done
  for shard in "${!jobs[@]}"; do
    wait "${jobs[$shard]}" && continue
    failed=1
    printf 'process %d of %d failed or took more than %d s:\n' "$shard" "$GTEST_TOTAL_SHARDS" "$limit"
    head -n 60 "$folder/$tool.$shard"
  done
  missing=$(sort -u "$folder/$tool" | comm -13 - <(sort -u tests/ops/cuda_resources/kernels.txt))
  if [ -n "$missing" ]; then
    failed=1
    printf 'not launched: %s\n' "${missing//$'\n'/$'\n'not launched: }"
  fi
  printf '    %d kernels, %d s\n' "$(sort -u "$folder/$tool" | wc -l)" $((SECONDS - begun))
done
exit $failed
