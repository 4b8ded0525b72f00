#!/usr/bin/env bash
# Builds the operators' fuzzer with AddressSanitizer and UndefinedBehaviorSanitizer beside an ordinary build, whose ONNX sources it
# links, and runs it on ONNX's cases, the corpus of the models' fuzzer and tests/repro. A run of more than ten minutes has a seed of its own,
# and compares as many seconds of cases with ONNX Runtime's outputs; a short one, as in `make test`, has 40 cases for each second: the same
# ones on every machine.
# usage: fuzz_operators.sh BUILD_DIR JOBS SECONDS [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$(realpath "$1") jobs=$(jobs_for "$2") seconds=$3 python=${4:-$PWD/.venv/bin/python}
folder=$build/sanitize
[ -e "$build/libonnx_sources.a" ] || die "$build has no libonnx_sources.a; build there first"
compiler=()
if clang=$(command -v clang++ || command -v clang++-14); then compiler=("-DCMAKE_CXX_COMPILER=$clang"); fi   # a third of g++'s time
mkdir -p "$folder"
step "building the operators' fuzzer in $folder with $jobs jobs"
cmake -S . -B "$folder" -G Ninja "${compiler[@]}" -DSMELT_SANITIZE=address,undefined -DSMELT_SANITIZE_PREBUILT="$build" -DSMELT_TESTS=OFF \
  -DSMELT_PYTHON=OFF -DSMELT_CLI=OFF -DPython_EXECUTABLE="$python" >"$folder/configure.log" 2>&1 ||
  { tail -5 "$folder/configure.log"; die "cmake failed ($folder/configure.log)"; }
ninja -C "$folder" -j "$jobs" operator_fuzz || die "the build in $folder failed: the first error is above"
"$python" tests/conformance/generate.py "$build/conformance"
corpus=$folder/corpus
rm -rf "$corpus" && mkdir "$corpus" && (archive=$PWD/tests/fuzz/corpus.tar.xz && cd "$corpus" && cmake -E tar xf "$archive")
seeds=("$build/conformance/node" "$build/conformance/pytorch-operator" "$corpus" tests/repro)
seed=1 limit=(--seconds "$((4 * seconds))" --cases "$((40 * seconds))")
[ "$seconds" -le 600 ] || seed=$(date +%s) limit=(--seconds "$((10 * seconds))" --cpu-seconds "$seconds")   # beside other work, too
# oneDNN's kernels are compiled while they run, and its allocations are not smelt's: leaks are left to the tests.
export ASAN_OPTIONS=detect_leaks=0:malloc_context_size=8:allocator_may_return_null=1:max_allocation_size_mb=4000:quarantine_size_mb=16
export UBSAN_OPTIONS=print_stacktrace=1
step "fuzzing operators for $seconds s, seed $seed"
"$folder/operator_fuzz" "$folder/operators" --seed "$seed" "${limit[@]}" --seeds "${seeds[@]}" || die "findings in $folder/operators/findings"
[ "$seconds" -gt 600 ] || exit 0
ninja -C "$build" -j "$jobs" operator_fuzz
step "comparing with ONNX Runtime for $seconds s"
rm -rf "$folder/kept"
MALLOC_PERTURB_=165 "$build/operator_fuzz" "$folder/plain" --seed "$((seed + 1))" --seconds "$((seconds / 4))" --keep "$folder/kept" --seeds "${seeds[@]}" ||
  die "findings in $folder/plain/findings"
"$python" tests/fuzz/operators/compare.py "$folder/kept" --seconds "$seconds" || die "outputs that differ from ONNX Runtime's, above"
