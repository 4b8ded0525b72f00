#!/usr/bin/env bash
# Runs every test: CTest's programs, the Python ones, and the fuzzer for a minute. usage: test.sh BUILD_DIR JOBS
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2
status=0
printf '==> C++ tests\n'
ctest --test-dir "$build" -j "$jobs" --output-on-failure --timeout 900 || status=1
if compgen -G 'tests/python/test_*.py' >/dev/null; then
  printf '==> Python tests\n'
  PYTHONPATH="$build/python${PYTHONPATH:+:$PYTHONPATH}" .venv/bin/python -m pytest -q tests/python --build "$build" || status=1
fi
if command -v clang++ >/dev/null; then
  scripts/fuzz.sh "$build" "$jobs" 60 || status=1
else
  printf '==> no clang++: the fuzzer is not run\n'
fi
exit $status
