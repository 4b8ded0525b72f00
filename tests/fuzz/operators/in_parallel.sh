#!/usr/bin/env bash
# Runs operator_fuzz in some processes at once, with the seeds SEED, SEED + 1, … and the same options, such as --cpu-seconds 450 --seconds 480
# --seeds FOLDER…. It needs bash and awk alone: the program may have been built elsewhere. Prints each process's lines, and their sum.
# Findings are OUT/SEED/findings/N, and what compute-sanitizer counts where UNDER, a command, is put before the program. Its status is 1 where
# there are some, where a process has not come to its end, or where all of many cases were refused: then something else was wrong.
# usage: in_parallel.sh PROCESSES SEED PROGRAM OUT OPTION…
set -euo pipefail
processes=$1 seed=$2 program=$3 out=$4
shift 4
# oneDNN's kernels are compiled while they run, and its allocations are not smelt's: leaks are left to the tests.
export ASAN_OPTIONS=detect_leaks=0:malloc_context_size=8:allocator_may_return_null=1:max_allocation_size_mb=4000:quarantine_size_mb=16
export UBSAN_OPTIONS=print_stacktrace=1
read -ra under <<<"${UNDER:-}"
seeds=$(seq -f %.0f "$seed" $((seed + processes - 1))) jobs=() logs=()
trap 'kill "${jobs[@]}" 2>/dev/null || true; exit 130' INT TERM
for s in $seeds; do
  rm -rf "${out:?}/$s"
  mkdir -p "$out/$s"
  "${under[@]}" "$program" "$out/$s" --seed "$s" "$@" >"$out/$s/said" 2>&1 </dev/null &
  jobs+=($!) logs+=("$out/$s/said")
done
wait "${jobs[@]}" || true
for s in $seeds; do sed "s/^/seed $s: /" "$out/$s/said"; done
awk -v processes="$processes" '
  / ERROR SUMMARY: [1-9]/ { ++findings }
  / cases, .* findings, / {
    ++ended
    for (i = 2; i <= NF; ++i) {
      if ($i == "cases,") cases += $(i - 1)
      if ($i == "ran,") ran += $(i - 1)
      if ($i == "findings,") findings += $(i - 1)
      if ($i == "s") cpu += $(i - 1)
    }
  }
  END {
    printf "total: %d cases, %d ran, %d findings, %d s of the processor, %d of %d processes came to their end\n",
           cases, ran, findings, cpu, ended, processes
    exit findings > 0 || ended < processes || (ran == 0 && cases >= 100)
  }' "${logs[@]}"
