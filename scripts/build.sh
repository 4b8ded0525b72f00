#!/usr/bin/env bash
# Configures and builds. usage: build.sh BUILD_DIR JOBS [--tests]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2 tests=OFF
[ "${3:-}" = --tests ] && tests=ON
[ -e "$build/CMakeCache.txt" ] && grep -q '^SMELT_TESTS:BOOL=ON' "$build/CMakeCache.txt" && tests=ON   # never drop what was built
printf '==> building in %s with %s jobs\n' "$build" "$jobs"
cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DSMELT_TESTS=$tests >"$build.log" 2>&1 ||
  { grep -A5 -E 'Error|error' "$build.log" | head -20; echo "build: cmake failed ($build.log)" >&2; exit 1; }
mv "$build.log" "$build/configure.log"
ninja -C "$build" -j "$jobs"
