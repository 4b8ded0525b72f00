#!/usr/bin/env bash
# Installs what is missing: Debian's or Ubuntu's packages with apt, Python wheels into .venv.
# usage: setup.sh build [test]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
# The package with the sanitizers' and libFuzzer's run time for the distribution's clang.
clang_runtime() { case $(. /etc/os-release; echo "$VERSION_ID") in 12) echo libclang-rt-14-dev ;; *) echo libclang-rt-18-dev ;; esac; }
# The line of a log that says why: of apt or pip, or else the last one.
why() { grep -hE '^(E|ERROR): ' "$@" | head -n 1 | cut -c -300 | grep . || tail -qn 1 "$@" | tail -n 1; }
no_network='name resolution|resolving|NewConnectionError|Could not connect|Cannot initiate|timed out|unreachable'

packages="g++ cmake ninja-build ccache python3-venv python3-dev libprotobuf-dev protobuf-compiler libfmt-dev libcli11-dev nlohmann-json3-dev libsqlite3-dev libre2-dev zlib1g-dev graphviz"
requirements=scripts/requirements.txt
tests=no
case " $* " in *" test "*)
  tests=yes requirements=scripts/requirements-test.txt
  packages="$packages libgtest-dev libgmock-dev clang libomp-dev $(clang_runtime)"   # clang: the fuzz targets
  # Ubuntu's chromium package only points at a snap, which containers cannot run: the browser test says when it has no browser.
  grep -qi '^ID=debian' /etc/os-release && packages="$packages chromium" ;;
esac

python=$(command -v python3) || die "python3 not found (apt-get install python3)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "needs Python 3.10 or newer; $python is $("$python" -V 2>&1)"
log=$(mktemp) || die "no temporary file can be made in ${TMPDIR:-/tmp}"
trap '[ -s "$log" ] || rm -f "$log" "$log.update"' EXIT

missing=""
for p in $packages; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
if [ -n "$missing" ]; then
  command -v apt-get >/dev/null || die "needs Debian or Ubuntu (apt-get), or these packages installed by hand:$missing"
  sudo=""
  if [ "$(id -u)" != 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null && sudo -v || die "root has to install packages first, and sudo does not let this user:  apt-get install$missing"
  fi
  needs_room 2 /usr "installing packages"
  step "installing packages with apt:$missing"
  # A source that fails to update need not be one that matters: the installation shows.
  quietly "$log.update" $sudo apt-get -o DPkg::Lock::Timeout=300 update || true
  quietly "$log" $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing || {
    grep -qE "$no_network" "$log" "$log.update" && die "apt-get cannot reach its servers; is the network up? ($log)"
    die "apt-get install failed: $(why "$log") ($log)"
  }
fi

# install_wheels ARGUMENTS…: pip in .venv; wheels alone, for what has none for this Python would be compiled for an hour.
install_wheels() { quietly "$log" .venv/bin/python -m pip install --disable-pip-version-check --only-binary :all: "$@"; }

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  step "making .venv"
  rm -rf .venv
  quietly "$log" "$python" -m venv .venv || die "python3 -m venv failed: $(why "$log")"
fi
stamp=.venv/.installed-$(cat scripts/requirements*.txt | cksum | cut -d' ' -f1)-$(basename $requirements .txt)
if [ ! -e "$stamp" ]; then
  needs_room 1 . "installing wheels"
  step "installing wheels into .venv: $(grep -ohE '^[a-z][^ ]*' scripts/requirements.txt $requirements | sort -u | tr '\n' ' ')"
  install_wheels -r $requirements || {
    grep -qE "$no_network" "$log" && die "pip cannot reach its servers; is the network up? ($log)"
    die "pip install failed: $(why "$log") ($log)"
  }
  touch "$stamp"
fi

# torch is for some tests (four frameworks in one process, DLPack) and unpacks to 5 GB: without room for it they go without.
torch=.venv/.torch-$(cksum < scripts/requirements-torch.txt | cut -d' ' -f1)
if [ $tests = yes ] && [ ! -e "$torch" ]; then
  if [ "$(df -Pk . | awk 'NR == 2 {print $4}')" -lt 12000000 ]; then
    step "less than 12 GB free: going on without torch (some tests use it)"
  else
    step "installing torch into .venv (5 GB; some tests use it)"
    install_wheels --no-cache-dir -r scripts/requirements-torch.txt && touch "$torch" ||
      step "torch could not be installed: going on without it (some tests use it): $(why "$log")"
  fi
fi

# CuTe's headers are for one tactic and its tests, which say where they do without.
cute=.venv/.cute-$(cksum < scripts/requirements-cute.txt | cut -d' ' -f1)
if [ $tests = yes ] && [ ! -e "$cute" ]; then
  step "installing CuTe's headers into .venv (70 MB; some tests use them)"
  install_wheels --no-deps -r scripts/requirements-cute.txt && touch "$cute" ||
    step "CuTe's headers could not be installed: going on without them (some tests use them): $(why "$log")"
fi
rm -f "$log" "$log.update"
