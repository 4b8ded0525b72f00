#!/usr/bin/env bash
# Builds a stage or one of its rooms, with what it links and its tests only, and runs the tests: the loop while one works on it.
#   scripts/stage.sh ops/conv              tests/ops/conv
#   scripts/stage.sh fuse graph            two stages; of ops, every room
#   scripts/stage.sh ops/conv --gtest_filter='ConvTactics.*'
# usage: stage.sh STAGE[/ROOM]… [OPTION of the test programs…]        (BUILD=folder, by default build; JOBS=number)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=${BUILD:-build} jobs=$(jobs_for "${JOBS:-$(nproc)}") stages=() options=()
for argument; do
  case $argument in -*) options+=("$argument") ;; *) stages+=("${argument%/}") ;; esac
done
[ ${#stages[@]} -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
grep -q '^SMELT_TESTS:BOOL=ON' "$build/CMakeCache.txt" 2>/dev/null ||
  cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DSMELT_TESTS=ON >"$build.log" 2>&1 ||
  die "cmake failed ($build.log); scripts/setup.sh build test installs what it needs"
programs=()
for stage in "${stages[@]}"; do
  found=()
  for folder in "tests/$stage" tests/"$stage"/*/; do
    ! compgen -G "${folder%/}/*.cpp" >/dev/null || found+=("test_$(tr / _ <<<"${folder#tests/}" | sed 's/_$//')")
  done
  [ ${#found[@]} -gt 0 ] || die "tests/$stage has no tests; the folders of tests mirror those of src"
  programs+=("${found[@]}")
done
ninja -C "$build" -j "$jobs" "${programs[@]}" | grep -v 'ninja: no work to do' || [ "${PIPESTATUS[0]}" = 0 ] || die "the build in $build failed: the first error is above"
failed=""
for program in "${programs[@]}"; do
  step "$program"
  CUDA_PATH=${CUDA_PATH:-$(echo .venv/lib/python3*/site-packages/nvidia/cu13)} SMELT_CACHE_DIR=$build/test_cache \
    GTEST_BRIEF=${GTEST_BRIEF:-1} "$build/$program" "${options[@]}" || failed="$failed $program"
done
[ -z "$failed" ] || die "failed:$failed"
