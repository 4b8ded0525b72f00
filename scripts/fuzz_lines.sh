#!/usr/bin/env bash
# Which lines of smelt inputs of the fuzzer reach: builds the fuzzer for llvm-cov beside an ordinary build, runs every file of
# FOLDER…, and writes the lines of src/ that none of them reaches to BUILD_DIR/fuzz-lines/unreached.txt, as FILE:LINE. Where that
# file was there before, lines that are reached now and were not then are printed, and the exit status is 1.
# usage: fuzz_lines.sh BUILD_DIR JOBS PYTHON FOLDER…
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
. scripts/fuzz_build.sh
[ $# -ge 4 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
build=$(realpath "$1") jobs=$(jobs_for "$2") python=$3
shift 3
out=$build/fuzz-lines
find_tool() { command -v "$1" || command -v "$1-14" || die "needs $1 (package llvm)"; }
cov=$(find_tool llvm-cov)
profdata=$(find_tool llvm-profdata)
build_fuzzer "$build" "$out" "$jobs" "$python" -DSMELT_FUZZ_LINES=ON -DSMELT_FUZZ_LEVEL=-O1
LLVM_PROFILE_FILE=$out/raw "$out/model_fuzz" -seed=1 -runs=0 -max_len=16384 -timeout=60 "$@" >"$out/log" 2>&1 ||
  { tail -3 "$out/log"; die "a finding ($out/log)"; }
"$profdata" merge -o "$out/data" "$out/raw"
[ ! -e "$out/unreached.txt" ] || mv "$out/unreached.txt" "$out/before.txt"
"$cov" export "$out/model_fuzz" -instr-profile="$out/data" -format=lcov 2>/dev/null |
  awk -F'[:,]' '
    /^SF/ { file = $2; gsub(/[^\/]+\/\.\.\//, "", file); ours = index(file, "src/") && !index(file, "/usr/"); sub(/.*src\//, "src/", file) }
    /^DA/ && ours { ++lines; if ($3 == 0) print file ":" $2; else ++reached }
    END { printf "%d of %d lines reached\n", reached, lines > "/dev/stderr" }' | sort -u >"$out/unreached.txt"
if [ -e "$out/before.txt" ]; then
  comm -23 "$out/before.txt" "$out/unreached.txt" | tee "$out/new.txt"
  [ ! -s "$out/new.txt" ] || die "$(wc -l <"$out/new.txt") lines that were not reached before"
fi
