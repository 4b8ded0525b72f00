#!/usr/bin/env bash
# Builds the fuzzer with clang++ (AddressSanitizer, UndefinedBehaviorSanitizer) beside an ordinary build, whose operators and ONNX
# sources it links, and runs it on its corpus. New inputs and findings land in BUILD_DIR/fuzz.
# usage: fuzz.sh BUILD_DIR JOBS SECONDS [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
. scripts/fuzz_build.sh
build=$(realpath "$1") jobs=$(jobs_for "$2") seconds=$3 python=${4:-$PWD/.venv/bin/python}
fuzz=$build/fuzz
if [ "$seconds" -le 600 ]; then   # a short run, as in `make test`, is the same one every time
  level=-O0 seed=1 folders=("$fuzz/short")
  rm -rf "$fuzz/short"
else                              # a long one is worth 1.6 times as long to build, and has a seed of its own
  level=-O1 seed=0 folders=("$fuzz/new" "$fuzz/seeds")
  mkdir -p "$fuzz/seeds"          # also the models of ONNX's own tests, where those have written them
  [ ! -d "$build/conformance" ] || find "$build/conformance" -name model.onnx -size -17k | while read -r model; do
    name=${model#"$build/conformance/"}
    [ -e "$fuzz/seeds/${name//\//_}" ] || cp "$model" "$fuzz/seeds/${name//\//_}"   # cp -n fails on Ubuntu where it is there
  done
fi
mkdir -p "${folders[0]}"
build_fuzzer "$build" "$fuzz" "$jobs" "$python" -DSMELT_FUZZ_LEVEL=$level
corpus=$fuzz/corpus
rm -rf "$corpus" && mkdir "$corpus" && (archive=$PWD/tests/fuzz/corpus.tar.xz && cd "$corpus" && cmake -E tar xf "$archive")
step "fuzzing for $seconds s"
status=0
# 60 s and 3 GB are far beyond what a model of 16 KiB may take. The entropic schedule takes three quarters of the time.
ASAN_OPTIONS=malloc_context_size=4:quarantine_size_mb=4:thread_local_quarantine_size_kb=64:max_malloc_fill_size=0 \
"$fuzz/model_fuzz" -seed=$seed -entropic=0 -max_total_time="$seconds" -max_len=16384 -timeout=60 -rss_limit_mb=3000 \
  -malloc_limit_mb=2000 -print_final_stats=1 -artifact_prefix="$fuzz/" \
  "${folders[@]}" "$corpus" tests/repro >"$fuzz/log" 2>&1 || status=$?
[ $status -lt 128 ] || die "the fuzzer was killed by signal $((status - 128)) ($fuzz/log)"
[ $status = 0 ] || { grep -aE 'finding|ERROR|SUMMARY|Test unit' "$fuzz/log" || true; die "a finding ($fuzz/log)"; }
grep -aE 'INITED|DONE|stat::number_of_executed_units' "$fuzz/log"
