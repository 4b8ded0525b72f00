#!/usr/bin/env bash
# Holds the subjects of commits to 72 characters. usage: commit_subjects.sh FILE | --since COMMIT
#   FILE             a commit's message: what git gives a commit-msg hook (make hooks installs it)
#   --since COMMIT   the commits after COMMIT, merges apart
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(git rev-parse --show-toplevel)"
. scripts/steps.sh
limit=72 long=0

check() {   # check NAME SUBJECT
  [ ${#2} -le $limit ] && return
  printf '%s: the subject has %d characters, expected at most %d: %s\n' "$1" ${#2} $limit "$2" >&2
  long=$((long + 1))
}

case ${1:-} in
  --since)
    git rev-parse --quiet --verify "$2^{commit}" >/dev/null || die "there is no commit $2 here"
    while IFS=$'\t' read -r name subject; do check "$name" "$subject"; done < <(git log --no-merges --format='%h%x09%s' "$2..") ;;
  "") die "usage: commit_subjects.sh FILE | --since COMMIT" ;;
  *) check "$1" "$(sed -n '/^#/d; /[^[:space:]]/{p;q}' "$1")" ;;
esac
[ $long = 0 ] || die "say the rest in the message's body, after an empty line (git commit --amend, git rebase -i)"
