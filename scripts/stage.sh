#!/usr/bin/env bash
# Builds a stage or one of its rooms, with what it links and its tests only, and runs the tests: the loop while one works on it.
#   scripts/stage.sh ops/conv              tests/ops/conv
#   scripts/stage.sh fuse graph            two stages; of ops, every room
#   scripts/stage.sh ops/conv --gtest_filter='ConvTactics.*'
# usage: stage.sh STAGE[/ROOM]… [--gtest_filter=PATTERN]        (BUILD=folder, by default build; JOBS=number)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=${BUILD:-build} jobs=$(jobs_for "${JOBS:-$(nproc)}")
[ $# -gt 0 ] && [ "${1#-}" = "$1" ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$build"
grep -qs '^SMELT_TESTS:BOOL=ON' "$build/CMakeCache.txt" ||
  quietly "$build/configure.log" cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DSMELT_TESTS=ON ||
  die "cmake failed ($build/configure.log); scripts/setup.sh build test installs what it needs"
tests=()
for stage; do
  case $stage in --gtest_filter=*) export GTEST_FILTER=${stage#*=} && continue ;; esac
  found=()
  for folder in "tests/${stage%/}" tests/"${stage%/}"/*/; do
    folder=${folder%/}
    ! compgen -G "$folder/*.cpp" >/dev/null || found+=("${folder#tests/}")
  done
  [ ${#found[@]} -gt 0 ] || die "tests/$stage has no tests; the folders of tests mirror those of src"
  tests+=("${found[@]}")
done
programs=("${tests[@]//\//_}")
ninja -C "$build" -j "$jobs" "${programs[@]/#/test_}" || die "the build in $build failed: the first error is above"
ctest --test-dir "$build" -j "$jobs" --output-on-failure -R "^($(IFS='|' && echo "${tests[*]}"))\$"
