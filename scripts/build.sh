#!/usr/bin/env bash
# Configures and builds. usage: build.sh BUILD_DIR JOBS [--tests]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$1 jobs=$(jobs_for "$2") tests=OFF
[ "${3:-}" = --tests ] && tests=ON
[ -e "$build/CMakeCache.txt" ] && grep -q '^SMELT_TESTS:BOOL=ON' "$build/CMakeCache.txt" && tests=ON   # never drop what was built
[ -e "$build/smelt" ] || needs_room 2 . "a build"
mkdir -p "$build" || die "the folder $build cannot be made"
step "building in $build with $jobs jobs"
quietly "$build/configure.log" cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DSMELT_TESTS=$tests || {
  grep -A5 -E 'Error|error' "$build/configure.log" | head -20 || true
  die "cmake failed ($build/configure.log)"
}
ninja -C "$build" -j "$jobs" || die "the build in $build failed: the first error is above"
