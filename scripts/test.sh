#!/usr/bin/env bash
# Runs every check: lint, CTest's programs, the Python ones, and both fuzzers for a minute. usage: test.sh BUILD_DIR JOBS
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$1 jobs=$(jobs_for "$2")
failed=""
scripts/lint.sh "$build" "$jobs" || failed="$failed, lint (above)"
step "C++ tests"
export GTEST_BRIEF=1  # of a program that fails, only the tests that do are printed
ctest --test-dir "$build" -j "$jobs" --output-on-failure --timeout 900 || failed="$failed, the C++ tests ($build/Testing/Temporary/LastTestsFailed.log)"
step "Python tests"
PYTHONPATH="$build/python${PYTHONPATH:+:$PYTHONPATH}" .venv/bin/python -m pytest -q -rs tests/python --build "$build" ||
  failed="$failed, the Python tests (above)"
scripts/fuzz.sh "$build" "$jobs" 60 || failed="$failed, the fuzzer ($build/fuzz/log)"
scripts/fuzz_operators.sh "$build" "$jobs" 60 || failed="$failed, the operators' fuzzer (above)"
[ -z "$failed" ] || die "failed: ${failed#, }"
step "every test passes"
