#!/usr/bin/env bash
# Builds the tests with AddressSanitizer and UndefinedBehaviorSanitizer beside an ordinary build, whose ONNX sources they link, and runs them:
# the C++ programs and the Python tests, all of them or those of some stages, rooms and files (fuse, ops/conv, python, python/test_kills, …).
# A program at a time, each run as soon as it is built, so that findings come early; the first time takes two hours on two cores. What passes is
# not run again until it is built again.
# usage: sanitized_tests.sh BUILD_DIR JOBS [STAGE[/ROOM] | python[/FILE]…]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$(realpath "$1") jobs=$(jobs_for "$2")
shift 2
[ -e "$build/libonnx_sources.a" ] || die "$build has no libonnx_sources.a; build there first"
folder=$build/sanitize python=$PWD/.venv/bin/python   # the operators' fuzzer of scripts/fuzz_operators.sh is built there too
compiler=()
if clang=$(command -v clang++ || command -v clang++-14); then compiler=("-DCMAKE_CXX_COMPILER=$clang"); fi   # a third of g++'s time
mkdir -p "$folder/passed"
quietly "$folder/configure.log" cmake -S . -B "$folder" -G Ninja "${compiler[@]}" -DSMELT_SANITIZE=address,undefined \
  -DSMELT_SANITIZE_PREBUILT="$build" -DSMELT_TESTS=ON -DSMELT_PYTHON=ON -DSMELT_CLI=ON -DPython_EXECUTABLE="$python" ||
  { tail -5 "$folder/configure.log"; die "cmake failed ($folder/configure.log)"; }
# oneDNN compiles kernels while it runs, and what it keeps until the end is not smelt's; a test that asks for more memory than there is gets none.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=64
# g++ 12 keeps variables of 64 bytes, such as vectors of AVX-512, at addresses that are not multiples of 64 with this option.
[ -z "$clang" ] || ASAN_OPTIONS+=:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
export GTEST_FILTER=-Ceilings.*   # they time the machine, which code without optimisation does not show
# Python's, for that reason or for the memory that the sanitizers take, and those that look at the files of an ordinary build.
measures=" architecture busy clang_forms contention docs gpu_bench hardening kernel_sources limits memory not_slower operator_cases package scale "

failed=()
asked_for() { [ ${#asked[@]} -eq 0 ] || printf '%s\n' "${asked[@]}" | grep -qxF -e "$1" -e "${1%%/*}"; }
# make NAME TARGET…: builds them with what the compiler says in a log of the name.
make() {
  ninja -C "$folder" -j "$jobs" "${@:2}" >"$folder/$1.build.log" 2>&1 || { tail -20 "$folder/$1.build.log"; die "$1 does not build"; }
}
# is_new NAME FILE…: whether a file is younger than the last time that NAME passed.
is_new() {
  local mark=$folder/passed/$1 file
  for file in "${@:2}"; do [ "$mark" -nt "$file" ] || return 0; done
  return 1
}
# passes TEST NAME COMMAND…: runs it, with what it says in a log of the name.
passes() {
  step "$1"
  if quietly "$folder/$2.log" "${@:3}"; then
    touch "$folder/passed/$2"
  else
    grep -E 'runtime error|ERROR: AddressSanitizer|SUMMARY|\[  FAILED  \]|Timeout|^FAILED|^ERROR' "$folder/$2.log" | head -20 || true
    failed+=("$1")
  fi
}

asked=("$@")
for test in $(ctest --test-dir "$folder" -N | sed -n 's/^ *Test *#[0-9]*: *//p'); do
  asked_for "$test" || continue
  program=test_${test//\//_}
  make "$program" "$program"
  is_new "$program" "$folder/$program" || continue
  passes "$test" "$program" ctest --test-dir "$folder" --output-on-failure -R "^$test\$" --timeout 3600
done

built=
for file in tests/python/test_*.py; do
  name=$(basename "$file" .py)
  asked_for "python/$name" && [[ $measures != *" ${name#test_} "* ]] || continue
  [ -n "$built" ] || make python smelt smelt_ext smelt_python
  built=1
  is_new "python_$name" "$folder/smelt" "$folder"/python/smelt/*.so "$file" || continue
  runtime=$("${clang:-g++}" -print-file-name="$([ -n "$clang" ] && echo "libclang_rt.asan-$(uname -m).so" || echo libasan.so)")
  passes "python/$name" "python_$name" env "LD_PRELOAD=$runtime" "PYTHONPATH=$folder/python" PYTHONMALLOC=malloc \
    "$python" -m pytest -q "$file" --build "$folder"
done
[ ${#failed[@]} -eq 0 ] || die "failed under the sanitizers: ${failed[*]} (logs in $folder)"
step "every test passes under the sanitizers"
