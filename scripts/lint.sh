#!/usr/bin/env bash
# Checks format (clang-format), Python (ruff), forms that the fuzzers' compiler lacks, the subjects of new commits, and C++ for bugs and names
# (clang-tidy).
# usage: lint.sh BUILD_DIR JOBS [--base COMMIT] [--all]
#   --base COMMIT   what counts as changed (origin/main, or main; on main itself the commit before)
#   --all           clang-tidy over every source, not over one room and the files that changed: minutes
# The tools are wheels of one version (scripts/requirements-test.txt), so that every distribution gives the same answer.
# clang-tidy takes 3 to 8 s a file and reads how each is compiled from BUILD_DIR.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$1 jobs=$(jobs_for "$2") base="" all=no failed=""
room=src/tune      # always checked by clang-tidy: it includes most of the stages' headers
most_changed=6     # of the files that changed, the newest; twice as many for clang++
shift 2
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=${2:?--base needs a commit} && shift 2 ;;
    --all) all=yes && shift ;;
    *) die "unknown option $1 (--base COMMIT, --all)" ;;
  esac
done
bin=$PWD/.venv/bin
for tool in clang-format clang-tidy ruff; do [ -x "$bin/$tool" ] || die "$tool is missing: make setup-test"; done

in_git() { git rev-parse --is-inside-work-tree >/dev/null 2>&1; }
# cpp_files FOLDER…: sources and headers; of a tree without history (a release's archive) too.
cpp_files() { if in_git; then git ls-files -co --exclude-standard "${@/%//*.cpp}" "${@/%//*.h}"; else find "$@" -name '*.cpp' -o -name '*.h'; fi; }

step "format: clang-format"
cpp_files src include tests python bench examples | xargs -r ls -d 2>/dev/null | xargs -P "$jobs" -n 40 "$bin/clang-format" --dry-run -Werror ||
  failed="$failed, clang-format ($bin/clang-format -i FILE)"

step "Python: ruff"
"$bin/ruff" check -q . || failed="$failed, ruff ($bin/ruff check --fix)"

step "clang++ before 16: forms that it lacks"
"$bin/python" scripts/clang_forms.py || failed="$failed, forms for clang++ (above)"

if [ -z "$base" ] && in_git; then
  head=$(git rev-parse HEAD)
  for known in origin/main main HEAD~1; do
    found=$(git merge-base "$known" HEAD 2>/dev/null) && [ "$found" != "$head" ] && base=$found && break
  done
  # A clone of main itself has no work of its own: the subject of its last commit is read, no file of it is.
  [ "${known:-}" != HEAD~1 ] || own=no
fi
if [ -n "$base" ]; then
  step "subjects of the commits since $(git rev-parse --short "$base")"
  scripts/commit_subjects.sh --since "$base" || failed="$failed, subjects of commits (above)"
else
  step "subjects of commits: not checked, for there is no history here"
fi

if [ ! -e "$build/compile_commands.json" ]; then
  step "clang++ and clang-tidy: not run, for $build is not configured (make build-test)"
else
  changed=""
  if [ $all = no ] && [ -n "$base" ] && [ "${own:-yes}" = yes ]; then
    # Not by the files' times: a clone makes them all at once.
    changed=$({ git diff --name-only HEAD && git log --format= --name-only "$base.."; } |
      grep -E '^((include|src)/.*\.(cpp|h)|(python|tests|bench|examples)/.*\.cpp)$' | awk '!seen[$0]++' | xargs -r ls -dU 2>/dev/null || true)
    newest=$(head -n $((2 * most_changed)) <<<"$changed")
    step "clang++: $(wc -w <<<"$newest") of $(wc -w <<<"$changed") files that changed compile with it"
    "$bin/python" scripts/clang_forms.py "$build" "$jobs" $newest || failed="$failed, clang++ (above)"
  fi
  sources=$(ls $room/*.cpp)
  [ $all = yes ] && sources=$(cpp_files src python | grep '\.cpp$')
  changed=$(grep -E '^(src|python)/.*\.cpp$' <<<"$changed" || true)
  newest=$(head -n $most_changed <<<"$changed")
  [ "$changed" = "$newest" ] || step "clang-tidy: the $most_changed newest of $(wc -l <<<"$changed") files that changed (--all: every one)"
  sources=$(printf '%s\n' $sources $newest | sort -u)
  # What this build does not compile (sources of another machine's kind) has no command to read.
  sources=$(for s in $sources; do grep -q "/$s\"" "$build/compile_commands.json" && echo "$s"; done)
  step "clang-tidy: $(wc -w <<<"$sources") files"
  "$bin/python" scripts/clang_forms.py "$build" --commands "$build/clang-tidy"
  # clang-tidy's wheel has no omp.h: it reads GCC's, whose attribute malloc(function) clang does not know; nor does clang 18
  # capture structured bindings where OpenMP is on.
  as_gcc=(--extra-arg=-idirafter"$(c++ -print-file-name=include)" '--extra-arg=-D__malloc__(...)=' --extra-arg=-fno-openmp)
  printf '%s\n' $sources |
    xargs -P "$jobs" -n 1 "$bin/clang-tidy" --quiet -p "$build/clang-tidy" "${as_gcc[@]}" 2>"$build/clang-tidy.log" ||
    failed="$failed, clang-tidy (above; $build/clang-tidy.log)"
fi
[ -z "$failed" ] || die "failed: ${failed#, }"
