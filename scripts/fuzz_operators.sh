#!/usr/bin/env bash
# Builds the operators' fuzzer with AddressSanitizer and UndefinedBehaviorSanitizer beside an ordinary build, whose ONNX sources it
# links, and runs it on ONNX's cases, the corpus of the models' fuzzer and tests/repro. A run of more than ten minutes is that many seconds of
# the processor, shared by JOBS processes with seeds of their own (SEED and those behind it); then as many seconds of cases are compared with
# ONNX Runtime's outputs. A short run, as in `make test`, has 40 cases for each second: the same ones on every machine.
# usage: fuzz_operators.sh BUILD_DIR JOBS SECONDS [PYTHON [SEED]]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$(realpath "$1") jobs=$(jobs_for "$2") seconds=$3 python=${4:-$PWD/.venv/bin/python} seed=${5:-$(date +%s)}
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
step "fuzzing operators for $seconds s"
fuzz=tests/fuzz/operators/in_parallel.sh
if [ "$seconds" -le 600 ]; then
  $fuzz 1 1 "$folder/operator_fuzz" "$folder/operators" --seconds $((4 * seconds)) --cases $((40 * seconds)) --seeds "${seeds[@]}" ||
    die "findings in $folder/operators"
  exit 0
fi
share=$((seconds / jobs))
$fuzz "$jobs" "$seed" "$folder/operator_fuzz" "$folder/operators" --cpu-seconds $share --seconds $((10 * share)) --seeds "${seeds[@]}" ||
  die "findings in $folder/operators"   # beside other work, too: a busy machine gives little of the processor
ninja -C "$build" -j "$jobs" operator_fuzz
step "comparing with ONNX Runtime for $seconds s"
rm -rf "$folder/kept"
MALLOC_PERTURB_=165 $fuzz 1 $((seed + jobs)) "$build/operator_fuzz" "$folder/plain" --cpu-seconds $((seconds / 4)) --seconds "$seconds" \
  --keep "$folder/kept" --seeds "${seeds[@]}" || die "findings in $folder/plain"
"$python" tests/fuzz/operators/compare.py "$folder/kept" --seconds "$seconds" || die "outputs that differ from ONNX Runtime's, above"
