# Sourced by the other scripts: what they say, and how they show that something long is going on.
step() { printf '==> %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }

# quietly LOG COMMAND…: runs it with its output in LOG. On a terminal the latest line of that is shown while it runs, elsewhere a
# line every half minute.
quietly() {
  local log=$1 begun=$SECONDS said=$SECONDS status=0 columns
  shift
  "$@" >"$log" 2>&1 </dev/null &
  local job=$!
  trap 'kill $job 2>/dev/null || true; exit 130' INT TERM
  while kill -0 $job 2>/dev/null; do
    sleep 0.2
    if [ -t 1 ]; then
      columns=$(tput cols 2>/dev/null || echo 80)
      printf '\r\033[K    %4d s  %s' $((SECONDS - begun)) "$(tail -n 1 "$log" | tr -d '\r\033' | cut -c -$((columns - 14)))"
    elif [ $((SECONDS - said)) -ge 30 ]; then
      printf '    %d s …\n' $((SECONDS - begun)) && said=$SECONDS
    fi
  done
  trap - INT TERM
  wait $job || status=$?
  if [ -t 1 ]; then printf '\r\033[K'; fi
  return $status
}

# jobs_for JOBS: as many, or fewer where memory is short: a compiler takes up to a gigabyte.
jobs_for() {
  local memory
  memory=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$1" -le "$memory" ] && echo "$1" || echo $((memory > 0 ? memory : 1))
}

# needs_room GIB FOLDER WHAT: stops when FOLDER's disk has less than that free.
needs_room() {
  local free
  free=$(df -Pk "$2" | awk 'NR == 2 {print $4}')
  [ "$free" -ge $(($1 * 1024 * 1024)) ] || die "$3 needs $1 GiB free where $(realpath "$2") is, and there are $((free / 1024)) MiB"
}
