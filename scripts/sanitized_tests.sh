#!/usr/bin/env bash
# Builds the C++ test programs with AddressSanitizer and UndefinedBehaviorSanitizer beside an ordinary build, whose ONNX sources they link,
# and runs them: all of them, or those of some stages and rooms (fuse, ops/conv, …). A program at a time, each run as soon as it is built, so that
# findings come early; the first time takes an hour on two cores. Programs that pass are not run again until they are built again.
# usage: sanitized_tests.sh BUILD_DIR JOBS [STAGE[/ROOM]…]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$(realpath "$1") jobs=$(jobs_for "$2")
shift 2
[ -e "$build/libonnx_sources.a" ] || die "$build has no libonnx_sources.a; build there first"
folder=$build/sanitize   # the operators' fuzzer of scripts/fuzz_operators.sh is built there too
compiler=()
if clang=$(command -v clang++ || command -v clang++-14); then compiler=("-DCMAKE_CXX_COMPILER=$clang"); fi   # a third of g++'s time
mkdir -p "$folder/passed"
quietly "$folder/configure.log" cmake -S . -B "$folder" -G Ninja "${compiler[@]}" -DSMELT_SANITIZE=address,undefined \
  -DSMELT_SANITIZE_PREBUILT="$build" -DSMELT_TESTS=ON -DSMELT_PYTHON=OFF -DPython_EXECUTABLE="$PWD/.venv/bin/python" ||
  { tail -5 "$folder/configure.log"; die "cmake failed ($folder/configure.log)"; }
# oneDNN compiles kernels while it runs, and what it keeps until the end is not smelt's; a test that asks for more memory than there is gets none.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=64:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
export GTEST_FILTER=-Ceilings.*   # they time the machine, which code without optimisation does not show
failed=()
for test in $(ctest --test-dir "$folder" -N | sed -n 's/^ *Test *#[0-9]*: *//p'); do
  [ $# -eq 0 ] || printf '%s\n' "$@" | grep -qxF -e "$test" -e "${test%%/*}" || continue
  program=test_${test//\//_} passed=$folder/passed/${test//\//_}
  ninja -C "$folder" -j "$jobs" "$program" >"$folder/$program.build.log" 2>&1 ||
    { tail -20 "$folder/$program.build.log"; die "$program does not build"; }
  [ "$folder/$program" -nt "$passed" ] || continue
  step "$test"
  if quietly "$folder/$program.log" ctest --test-dir "$folder" --output-on-failure -R "^$test\$" --timeout 1800; then
    touch "$passed"
  else
    grep -E 'runtime error|ERROR: AddressSanitizer|SUMMARY|\[  FAILED  \]|Timeout' "$folder/$program.log" | head -20 || true
    failed+=("$test")
  fi
done
[ ${#failed[@]} -eq 0 ] || die "failed under the sanitizers: ${failed[*]} (logs in $folder)"
step "every test program passes under the sanitizers"
