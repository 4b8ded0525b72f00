#!/usr/bin/env python3
"""Finds what g++ compiles and clang++ before 16 does not. The fuzzers are built with clang++, at the end of `make test`.

usage: clang_forms.py                         the forms that it lacks, in every source: under a second
       clang_forms.py BUILD_DIR JOBS FILE…    clang++ reads these files (-fsyntax-only), as BUILD_DIR compiles them: some 4 s each
       clang_forms.py BUILD_DIR --commands FOLDER
                                              FOLDER/compile_commands.json: BUILD_DIR's, without g++'s precompiled headers

The first needs no compiler. clang++ before 16 refuses the views of libstdc++, and with them each algorithm of std::ranges that
returns a subrange. The second finds the rest, such as a lambda that captures a structured binding, or an aggregate made with
parentheses. A header is read with a source that includes it. Exit status 1 when something is found.
"""
import concurrent.futures
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("include", "src", "python", "tests", "bench", "examples")
SUBRANGES = {   # what to write instead
    "unique": "std::unique", "remove": "std::erase", "remove_if": "std::erase_if", "rotate": "std::rotate",
    "partition": "std::partition", "stable_partition": "std::stable_partition", "equal_range": "std::equal_range",
    "search": "std::search", "search_n": "std::search_n", "find_end": "std::find_end",
}
FORMS = re.compile(r"\b(?:std::)?ranges::(\w+)|\b(?:std::)?(views)::|"
                   r"\busing namespace std::(ranges)\b|\bnamespace \w+ = std::(ranges|views)\b")
NO_CODE = re.compile(r'''//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n]){1,4}\'''', re.S)


def instead(match):
    """What to write for a form that clang++ cannot compile, or None for one that it can."""
    name = match[1]
    if name is None:
        return "algorithms by their full names" if match[3] or match[4] == "ranges" else "a loop"
    if name in SUBRANGES:
        return SUBRANGES[name]
    return "a loop" if name == "views" or name == "subrange" or name.endswith("_view") else None


def violations(path, text):
    """The lines of a source that clang++ before 16 cannot compile, each as `path:line: form: what to write instead`."""
    code = NO_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    return [f"{path}:{code.count(chr(10), 0, m.start()) + 1}: {m[0]} does not compile with clang++ before 16: write {new}"
            for m in FORMS.finditer(code) if (new := instead(m))]


def sources():
    """Paths below the root of all C++ sources and headers."""
    return [p.relative_to(ROOT) for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".h", ".cpp")]


# What makes g++ read precompiled headers (cmake/Precompiled.cmake), which are nothing to clang++ and clang-tidy.
PRECOMPILED = re.compile(r" -Winvalid-pch| -fpch-preprocess| -include \S+/cmake_pch\.hxx(?= )")


def without_precompiled(build):
    """The entries of BUILD_DIR's compile_commands.json, without the options for g++'s precompiled headers."""
    entries = json.loads((build / "compile_commands.json").read_text())
    return [{**entry, "command": PRECOMPILED.sub("", entry["command"])} for entry in entries]


def commands(build):
    """{path below the root: (folder, arguments without the compiler and its output)} of what BUILD_DIR compiles."""
    found = {}
    for entry in without_precompiled(build):
        path = pathlib.Path(entry["directory"], entry["file"])
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in FOLDERS:
            continue
        arguments = shlex.split(entry["command"])
        first, output = next(i for i, a in enumerate(arguments) if a.startswith("-")), arguments.index("-o")
        found.setdefault(str(path.relative_to(ROOT)), (entry["directory"], arguments[first:output] + arguments[output + 2:]))
    return found


def read_with(path, commands):
    """The source to compile so that clang++ reads the file: itself, or one that includes it; None where the build has neither."""
    if path in commands or not path.endswith(".h"):
        return path if path in commands else None
    include = re.compile(rf'^#include ["<]{re.escape(path.removeprefix("src/").removeprefix("include/"))}[">]', re.M)
    beside = path.rpartition("/")[0] + "/"
    for source in sorted(commands, key=lambda s: not s.startswith(beside)):
        if include.search((ROOT / source).read_text()):
            return source
    return None


def errors(clang, directory, arguments):
    """What clang++ has against a file; nothing when it compiles."""
    run = subprocess.run([clang, "-fsyntax-only", "-w", *arguments], cwd=directory, capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stderr


def main(arguments):
    if not arguments:
        found = [line for path in sources() for line in violations(path, (ROOT / path).read_text())]
        print(*found, sep="\n", end="\n" * bool(found))
        return 1 if found else 0
    if arguments[1] == "--commands":
        folder = pathlib.Path(arguments[2])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "compile_commands.json").write_text(json.dumps(without_precompiled(pathlib.Path(arguments[0])), indent=0))
        return 0
    build, jobs, files = pathlib.Path(arguments[0]).resolve(), int(arguments[1]), arguments[2:]
    clang = shutil.which("clang++") or shutil.which("clang++-14")
    if not clang:
        print("not read: there is no clang++ here (scripts/setup.sh build test)")
        return 0
    known = commands(build)
    wanted = dict.fromkeys(source for path in files if (source := read_with(path, known)))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        said = [text for text in pool.map(lambda source: errors(clang, *known[source]), wanted) if text]
    print(*said, sep="\n", end="\n" * bool(said))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
