"""Runs a command as on a processor that has AVX2 at most: to time smelt and ONNX Runtime beside each other so, and for tests.

usage: .venv/bin/python bench/as_avx2.py [--of FILE]... -- COMMAND ...
e.g.:  PYTHONPATH=build/python .venv/bin/python bench/as_avx2.py -- .venv/bin/python bench/user_models.py --folder FOLDER ...

FOLDER: one of its own, for timings in the cache are of one processor. Held to AVX2 are smelt's build, oneDNN and ONNX Runtime
of this tree, and each FILE (a program or library); as_avx2.c says how. Needs gcc and objdump, on Linux and x86-64; the first
call reads those files for seconds. The clock and the caches stay those of the processor. Exit status: COMMAND's; 3 where a file
cannot be held.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parent.parent
ASK = ("build/smelt", "build/libsmelt.so", "build/python/smelt/*.so", ".venv/lib/libdnnl.so.*",
       ".venv/lib/python*/site-packages/onnxruntime/capi/*.so")


def addresses(path):
    """Where the CPUID instructions of a program or library are, in hexadecimal, as its file counts."""
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    return [line.split(":")[0].strip() for line in done.stdout.splitlines() if line.rstrip().endswith("\tcpuid")]


def line_of(path, kept):
    """The line of `path` in the list; `kept`: a folder that remembers a file's until it changes."""
    stat = path.stat()
    at = kept / f"{path.name}-{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}"
    if not at.exists():
        at.with_suffix(".new").write_text("\t".join([str(path), *addresses(path)]) + "\n")
        at.with_suffix(".new").rename(at)
    return at.read_text()


def environment(files, kept):
    """The variables with which what is started holds `files` to AVX2. `kept`: a folder for what is made."""
    kept.mkdir(parents=True, exist_ok=True)
    source, auditor = TREE / "bench/as_avx2.c", kept / "as_avx2.so"
    if not auditor.exists() or auditor.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", f"{auditor}.new", source], check=True)
        os.replace(f"{auditor}.new", auditor)
    listed = kept / f"list-{os.getpid()}"
    listed.write_text("".join(line_of(f, kept) for f in files))
    return {"LD_AUDIT": str(auditor), "CPUID_LIST": str(listed)}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.partition("usage: ")[2], add_help=False)
    parser.add_argument("--of", action="append", default=[], type=pathlib.Path)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    missing = [tool for tool in ("gcc", "objdump") if not shutil.which(tool)]
    if missing:
        sys.exit(f"as_avx2: {' and '.join(missing)} not found (Debian: gcc, binutils)")
    files = sorted({f.resolve() for pattern in ASK for f in TREE.glob(pattern) if f.is_file()} | {f.resolve() for f in args.of})
    kept = pathlib.Path(tempfile.gettempdir()) / f"as_avx2-{os.getuid()}"
    os.execvpe(args.command[0], args.command, {**os.environ, **environment(files, kept)})


if __name__ == "__main__":
    main()
