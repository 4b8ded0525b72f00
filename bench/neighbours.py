"""Latency beside neighbours that want the same cores: smelt against ONNX Runtime, each in a process of its own.

usage: .venv/bin/python bench/neighbours.py [--builds NAME=FOLDER...] [--models NAME...] [--neighbours KIND...] [--rounds N]
                     [--seconds S] [--threads N] [--tuning-level L] [--folder F] [--out FILE]

A build is a folder with the Python module in it (smelt=build); several of them compare versions of smelt. A model is a name in
examples/models (without .onnx: resnet50.fp32) or a path to an .onnx file with its .inputs.npz beside it.

A kind of neighbours is "alone", a number of busy loops, or "compiler": as many compilations at a time as there are cores, one
after another, as `make -j` runs them. Linux may give each session its share as one (sched_autogroup_enabled in /proc/sys/kernel);
niceness then counts within a session only. Loops have a session each, as programs of other users have; compilations share one.
"2-here" has them in the engines' session, "compiler-nice" there too, but at nice 10.

In a round each engine runs for S seconds beside each kind of neighbours, in alternating order; the others sleep meanwhile. A row
gives for each engine the median and the 90th percentile of a run in ms, and behind both how many times the median alone that is.
"""
import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import shared

# An engine's process.
WORKER = """
import json, sys, time
import numpy as np
engine, model, inputs, threads, level, cache = sys.argv[1:]
feeds = dict(np.load(inputs))
if engine == "onnxruntime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
else:
    import smelt
    session = smelt.Session(model, threads=int(threads), tuning_level=int(level), cache_dir=cache, tune_new_shapes=True)
pause = 0.05
""" + shared.BATCHES

# Some seconds of an ordinary compilation.
SOURCE = "".join(f"#include <{name}>\n" for name in ("algorithm", "functional", "iostream", "map", "regex", "string")) + \
    "".join(f"int f{i}(const std::string& s) {{ std::map<std::string, int> m; std::regex r(s); m[s] = {i};"
            " return std::regex_match(s, r) + static_cast<int>(m.size()); }\n" for i in range(40))


class Engine(shared.Worker):
    def __init__(self, name, folder, model, args):
        path = {"PYTHONPATH": str(pathlib.Path(folder).resolve() / "python")} if folder else {}
        super().__init__(name, WORKER, ["onnxruntime" if folder is None else "smelt", model, model.with_suffix(".inputs.npz"),
                                        args.threads, args.tuning_level, args.folder / "cache"], {**os.environ, **path})


@contextlib.contextmanager
def neighbours(kind):
    """Runs them while in scope."""
    base, _, where = kind.partition("-")
    if where not in ("", "here", "nice"):
        raise ValueError(f"neighbours {kind!r}: behind the kind, 'here' or 'nice' was expected, found {where!r}")
    processes, folder = [], None
    if base == "compiler":
        folder = tempfile.mkdtemp()
        source = pathlib.Path(folder) / "neighbour.cpp"
        source.write_text(SOURCE)
        job = f"while :; do c++ -O2 -S -o /dev/null {source} || exit; done"
        command, count = ["sh", "-c", f"({job}) & " * len(os.sched_getaffinity(0)) + "wait"], 1
    else:
        command, count = [sys.executable, "-S", "-c", "while True: pass"], 0 if base == "alone" else int(base)
    if where == "nice":
        command = ["nice", "-n", "10", *command]
    # A group of their own in any case, by which they are ended.
    group = {"process_group": 0} if where else {"start_new_session": True}
    try:
        for _ in range(count):
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, **group))
        if count:
            time.sleep(0.3)   # until they run
        yield
    finally:
        for p in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, 9)
            p.wait()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def measure(model, args):
    """{kind: {engine: every run's ms}} of a model."""
    engines = []
    times = {kind: {} for kind in args.neighbours}
    try:
        for name, folder in [*(b.split("=", 1) for b in args.builds), ("onnxruntime", None)]:
            engines.append(Engine(name, folder, model, args))
        for _ in range(args.rounds):
            for kind in args.neighbours:
                with neighbours(kind):
                    for e in engines:
                        times[kind].setdefault(e.name, []).extend(1e3 * t for t in e.ask(args.seconds))
            engines.reverse()
    finally:
        for e in engines:
            e.end()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--builds", nargs="+", default=["smelt=build"])
    parser.add_argument("--models", nargs="+", default=["mobilenet_v3_large.fp32", "resnet50.fp32", "bert_base.fp32"])
    parser.add_argument("--neighbours", nargs="+", default=["alone", "1", "2", "compiler", "compiler-nice"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tuning-level", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path, default=shared.ROOT / "demo" / "models")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    if args.neighbours[0] != "alone":
        args.neighbours.insert(0, "alone")
    lines = [f"{shared.cpu_name()}, {len(os.sched_getaffinity(0))} cores, {args.threads} threads; {shared.commit()}; "
             f"{args.rounds} rounds of {args.seconds} s an engine",
             f"{'model':26} {'neighbours':13} {'engine':12} {'median ms':>10} {'p90 ms':>9} {'median':>8} {'p90':>7}  of alone"]
    print("\n".join(lines), flush=True)
    for name in args.models:
        model = pathlib.Path(name) if name.endswith(".onnx") else shared.filled(name, args.folder)
        times = measure(model, args)
        alone = {e: np.median(t) for e, t in times["alone"].items()}
        for kind in args.neighbours:
            for engine, t in sorted(times[kind].items()):
                median, p90 = np.median(t), np.percentile(t, 90)
                lines.append(f"{model.stem:26} {kind:13} {engine:12} {median:10.2f} {p90:9.2f} "
                             f"{median / alone[engine]:8.2f} {p90 / alone[engine]:7.2f}")
                print(lines[-1], flush=True)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
