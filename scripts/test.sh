#!/usr/bin/env bash
# Runs every check: lint, CTest's programs, the Python ones, and both fuzzers for a minute. usage: test.sh BUILD_DIR JOBS
# The fuzzers compile smelt again, with sanitizers. Where that has nothing in ccache and the processor is old, it takes an hour: they are built and
# run as far as SMELT_TEST_MINUTES (40) go, counted from SMELT_TEST_BEGUN (seconds since 1970; make sets it when it begins to build), and a line
# says what was left out. Without sanitizers, the tests above replay the corpus (tests/fuse) and run other cases of operators.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$1 jobs=$(jobs_for "$2")
failed="" begun=$(date +%s)
scripts/lint.sh "$build" "$jobs" || failed="$failed, lint (above)"
step "C++ tests"
export GTEST_BRIEF=1  # of a program that fails, only the tests that do are printed
ctest --test-dir "$build" -j "$jobs" --output-on-failure --timeout 900 || failed="$failed, the C++ tests ($build/Testing/Temporary/LastTestsFailed.log)"
step "Python tests"
PYTHONPATH="$build/python${PYTHONPATH:+:$PYTHONPATH}" .venv/bin/python -m pytest -q -rs tests/python --build "$build" ||
  failed="$failed, the Python tests (above)"
# in_time COMMAND…: runs it with the minutes that are left.
in_time() {
  local left=$((begun + 60 * minutes - $(date +%s))) status=0
  if [ $left -ge 180 ]; then
    timeout $left "$@" & local job=$!   # timeout ends all that the command started, when it is ended too
    trap 'kill $job; exit 130' INT TERM
    wait $job || status=$?
    trap - INT TERM
    [ $status = 124 ] || return $status
  fi
  step "left out: $* ($minutes minutes have passed; SMELT_TEST_MINUTES sets another limit)"
}
begun=${SMELT_TEST_BEGUN:-$begun} minutes=${SMELT_TEST_MINUTES:-40}
in_time scripts/fuzz.sh "$build" "$jobs" 60 || failed="$failed, the fuzzer ($build/fuzz/log)"
in_time scripts/fuzz_operators.sh "$build" "$jobs" 60 || failed="$failed, the operators' fuzzer (above)"
[ -z "$failed" ] || die "failed: ${failed#, }"
step "every test passes"
