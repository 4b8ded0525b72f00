#!/usr/bin/env bash
# Installs what is missing: Debian's or Ubuntu's packages with apt, Python wheels into .venv.
# usage: setup.sh build [test]
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '==> %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
# The package with the sanitizers' and libFuzzer's run time for the distribution's clang.
clang_runtime() { case $(. /etc/os-release; echo "$VERSION_ID") in 12) echo libclang-rt-14-dev ;; *) echo libclang-rt-18-dev ;; esac; }

packages="g++ cmake ninja-build ccache python3-venv python3-dev libprotobuf-dev protobuf-compiler libfmt-dev libcli11-dev nlohmann-json3-dev libsqlite3-dev zlib1g-dev graphviz"
requirements=scripts/requirements.txt
tests=no
case " $* " in *" test "*)
  tests=yes requirements=scripts/requirements-test.txt
  packages="$packages libgtest-dev libgmock-dev clang libomp-dev $(clang_runtime)"   # clang: the fuzz targets
  # Ubuntu's chromium package only points at a snap, which containers cannot run: the browser test says when it has no browser.
  grep -qi '^ID=debian' /etc/os-release && packages="$packages chromium" ;;
esac

missing=""
for p in $packages; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
if [ -n "$missing" ]; then
  command -v apt-get >/dev/null || die "needs Debian or Ubuntu (apt-get), or these packages installed by hand:$missing"
  sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
  say "installing packages:$missing"
  log=$(mktemp)
  $sudo apt-get update -qq >"$log" 2>&1 || { tail -3 "$log"; die "apt-get update failed; is the network up?"; }
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >"$log" 2>&1 ||
    { tail -3 "$log"; die "apt-get install failed ($log)"; }
  rm -f "$log"
fi

python=$(command -v python3) || die "python3 not found"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "needs Python 3.9 or newer, found $("$python" -V)"
[ -x .venv/bin/python ] || { say "making .venv"; "$python" -m venv .venv || die "python3 -m venv failed"; }
stamp=.venv/.installed-$(cat scripts/requirements*.txt | cksum | cut -d' ' -f1)-$(basename $requirements .txt)
if [ ! -e "$stamp" ]; then
  say "installing wheels of $requirements into .venv"
  .venv/bin/python -m pip install -q --disable-pip-version-check -r $requirements || die "pip install failed"
  touch "$stamp"
fi

# torch is for one test (four frameworks in one process) and unpacks to 5 GB: without room for it that test runs the other three.
torch=.venv/.torch-$(cksum < scripts/requirements-torch.txt | cut -d' ' -f1)
if [ $tests = yes ] && [ ! -e "$torch" ]; then
  if [ "$(df -Pk . | awk 'NR == 2 {print $4}')" -lt 12000000 ]; then
    say "less than 12 GB free: going on without torch (one test uses it)"
  else
    say "installing torch into .venv (5 GB; one test uses it)"
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-cache-dir -r scripts/requirements-torch.txt && touch "$torch" ||
      say "torch could not be installed: going on without it (one test uses it)"
  fi
fi
