#!/usr/bin/env bash
# Runs the GPU's tests on GPU 0; fails too where they launch a kernel that tests/ops/cuda/kernels.txt does not list. With --jobs it runs them
# in JOBS processes, a test each, for SECONDS at most, then those that failed once more, alone; it names what it did not reach. With
# --sanitize it runs every kernel on small problems instead, and the tests that run plans, under each of compute-sanitizer's
# tools, in as many processes as there are cores; fails too where a kernel of that list was not launched. With --operators it runs what is in
# tests/repro and tests/python/hostile.py and the operators' fuzzer on the GPU, then both under compute-sanitizer's memcheck, SECONDS each.
# usage: gpu_tests.sh BUILD_DIR [--jobs JOBS SECONDS | --sanitize [SECONDS_A_TOOL] | --operators SECONDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
# hostile_cases BUILD_DIR: what tests/python/hostile.py makes, for the tests that find it there.
hostile_cases() { "${PYTHON:-.venv/bin/python}" tests/python/hostile.py "$1/hostile" || echo "    without the cases of tests/python/hostile.py"; }
# operators BUILD_DIR --operators SECONDS [SEED]: cases end in outputs, those of the first tactics and of others alike, or in an Error.
operators() {
  local build=$1 seconds=$3 seed=${4:-$(date +%s)} failed=0 fuzz=tests/fuzz/operators/in_parallel.sh folder
  local gpu=(--device gpu --seconds "$seconds") seeds=("$build/conformance/node" tests/repro)
  [ -x "$build/operator_fuzz" ] || die "$build/operator_fuzz is not there; build first (make build-test)"
  folder=$build/gpu_operators
  hostile_cases "$build"
  local found=(tests/repro/*.onnx)
  [ ! -d "$build/hostile" ] || found+=("$build"/hostile/*)
  step "what was found once on the GPU"
  $fuzz 1 1 "$build/operator_fuzz" "$folder/repro" "${gpu[@]}" --replay "${found[@]}" || failed=1
  step "fuzzing operators on the GPU for $seconds s"
  $fuzz "$(nproc)" "$seed" "$build/operator_fuzz" "$folder/fuzz" "${gpu[@]}" --seeds "${seeds[@]}" || failed=1
  export UNDER="compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1"
  step "the same under compute-sanitizer"
  $fuzz 1 1 "$build/operator_fuzz" "$folder/repro_memcheck" --alone "${gpu[@]}" --replay "${found[@]}" || failed=1
  step "fuzzing operators under compute-sanitizer for $seconds s"
  $fuzz "$(nproc)" "$((seed + 1000))" "$build/operator_fuzz" "$folder/memcheck" --alone "${gpu[@]}" --seeds "${seeds[@]}" || failed=1
  return $failed
}

# in_parallel TEST JOBS SECONDS FOLDER: the tests in so many processes, their logs in FOLDER.
in_parallel() {
  local test=$1 jobs=$2 seconds=$3 folder=$4 failed=0 name
  "$test" --gtest_list_tests | awk '/^[^ ]/ { suite = $1; next } $1 !~ /^DISABLED_/ && suite !~ /DISABLED_/ { print suite $1 }' >"$folder/tests"
  # What compiles the most kernels begins first: slices of long tests, and random problems.
  { grep -E '/|Hopper|Walked|random|every' "$folder/tests" || true; grep -vE '/|Hopper|Walked|random|every' "$folder/tests" || true; } >"$folder/order"
  timeout "$seconds" xargs -a "$folder/order" -P "$jobs" -n 1 bash -c '
    GTEST_COLOR=no "$1" --gtest_filter="$3" >"$2/${3//\//.}.log" 2>&1' in_parallel "$test" "$folder" || true
  cat "$folder"/*.log | sed -n -E 's/^\[       OK \] ([^ ]+) .*/\1/p' | sort -u >"$folder/passed"
  cat "$folder"/*.log | sed -n -E 's/^\[  SKIPPED \] ([^ ]+) .*/\1/p' | sort -u >"$folder/skipped"
  cat "$folder"/*.log | sed -n -E 's/^\[  FAILED  \] ([^ ,]+),? .*\([0-9]+ ms\)$/\1/p' | sort -u >"$folder/failed"
  while read -r name; do
    if timeout 120 "$test" --gtest_filter="$name" >"$folder/alone" 2>&1; then
      echo "$name failed beside others and passed alone"
    else
      failed=1
      tail -n 40 "$folder/alone"
    fi
  done <"$folder/failed"
  sort "$folder/tests" | comm -23 - <(sort -u "$folder/passed" "$folder/skipped" "$folder/failed") >"$folder/missed"
  printf '    %d of %d passed, %d skipped, %d failed, %d not reached\n' "$(wc -l <"$folder/passed")" "$(wc -l <"$folder/tests")" \
    "$(wc -l <"$folder/skipped")" "$(wc -l <"$folder/failed")" "$(wc -l <"$folder/missed")"
  sed 's/^/    not reached: /' "$folder/missed"
  [ $failed = 0 ] && [ ! -s "$folder/missed" ]
}

usage="usage: gpu_tests.sh BUILD_DIR [--jobs JOBS SECONDS | --sanitize [SECONDS_A_TOOL] | --operators SECONDS [SEED]]"
case $#${2:-} in
  1 | [23]--sanitize | 4--jobs) ;;
  [34]--operators) operators "$@" && exit || exit 1 ;;
  *) die "$usage" ;;
esac
test=$(realpath -m "$1")/test_gpu
# listed PART…: what those parts of the table have; "off" has the kernels of tactics that are off unless they are asked for.
listed() { awk -v parts=" $* " '/^\[/ { listed = index(parts, " " substr($0, 2, length($0) - 2) " "); next } listed' tests/ops/cuda/kernels.txt | sort -u; }
[ -x "$test" ] || die "$test is not there; build first (make build-test)"
if [ "${2:-}" != --sanitize ]; then
  hostile_cases "$1"
  step "tests on the GPU"
  folder=$(mktemp -d) failed=0
  trap 'rm -rf "$folder"' EXIT
  launched=$folder/launched
  : >"$launched"   # also where no test gets as far as launching one
  export SMELT_LAUNCHED=$launched
  case ${2:-} in
    --jobs) in_parallel "$test" "$3" "$4" "$folder" || failed=1 ;;
    *) "$test" || failed=1 ;;
  esac
  unlisted=$(sort -u "$launched" | comm -23 - <(listed kernels off))
  [ -z "$unlisted" ] || die "launched, but not in tests/ops/cuda/kernels.txt: ${unlisted//$'\n'/, }
Add a form of each to tests/ops/cuda/*forms.cpp; then: scripts/cuda_kernels.sh $1"
  exit $failed
fi

# NVIDIA's own kernels are left out: they are not ours to mend, and instrumenting their libraries takes minutes.
filter='*GpuEveryKernel*:GpuCuteConv.small_problems:GpuHopperGemm.small_problems*:GpuCeilings.every_kernel*:Gpu.runs*:Gpu.serves*:GpuSession.runs_on*:GpuSession.puts_runs*:GpuSession.bools*'
limit=${3:-600}
folder=$(mktemp -d)
jobs=()
trap '[ ${#jobs[@]} -eq 0 ] || kill "${jobs[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM   # background jobs ignore the interrupt themselves
export SMELT_CACHE_DIR=$folder/cache GTEST_BRIEF=1
GTEST_TOTAL_SHARDS=$(nproc)
export GTEST_TOTAL_SHARDS

failed=0
for tool in memcheck racecheck initcheck synccheck; do
  step "compute-sanitizer --tool $tool"
  # Errors that calls return are smelt's to handle: asking whose an address is returns one for the host's.
  options=(--tool $tool --error-exitcode 1)
  if [ $tool = memcheck ]; then options+=(--report-api-errors no); fi
  # Blocks share no memory that racecheck looks at: short problems show as much, and long ones take it minutes.
  if [ $tool = racecheck ]; then export SMELT_LONGEST_US=${SMELT_RACECHECK_US:-10}; else unset SMELT_LONGEST_US; fi
  begun=$SECONDS jobs=()
  : >"$folder/$tool"   # also where no process gets as far as writing it
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
  jobs=()
  missing=$(sort -u "$folder/$tool" | comm -13 - <(listed kernels))
  if [ -n "$missing" ]; then
    failed=1
    printf 'not launched: %s\n' "${missing//$'\n'/$'\n'not launched: }"
  fi
  printf '    %d kernels, %d s\n' "$(sort -u "$folder/$tool" | wc -l)" $((SECONDS - begun))
done
exit $failed
