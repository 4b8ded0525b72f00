"""Models as users bring them, on a GPU: whether each runs, how far it is from the processor's result, and who is faster.

usage: python bench/gpu_never_slower.py strip OUT MODEL.onnx...
       python bench/gpu_never_slower.py run SMELT FOLDER --out FILE [--models NAME...] [--jobs N] [--together N] [--limit S]
                                        [--at-most-seconds S] [--cores N] [--tuning-level L] [--cache FOLDER] [--work FOLDER]
                                        [--ort] [--ort-cpu] [--beside] [--device cpu]

strip writes each model of packages.py (or with its .inputs.npz beside it) to OUT with the large weights of large files taken out:
what is left travels to a machine with a GPU. run takes the models of FOLDER, those and graphs that examples/models/fill.py fills,
and makes up the weights again (normal, of the mean and the deviation that they had; rounded and bounded where they are of 8
bits). The list is cut into groups of --together models. In a group, --jobs at a time, each engine in processes of its own, each
ended after --limit seconds:
  smelt    builds and runs the model on GPU 0; every output is compared with ONNX Runtime's CPU provider without optimisations,
           or, where that does not take the model, with smelt's unfused run on the processor: the largest difference over the
           largest value; outputs of integers count the share that differs
  --ort    ONNX Runtime's CUDA provider opens it (bench/ort_gpu.py)
Then, one model after another, while nothing else of this command runs on the GPU: smelt's latency by `smelt profile` (inputs and
outputs on the device, one CUDA graph where the model is one, the median of 50), ONNX Runtime's on the device; with --ort-cpu also
on the processor, on --cores cores. --beside: each model is timed as soon as it is built, while others are built: only for what
does not run, and where the time goes.
The table has the slowest beside ONNX Runtime first: of its figures on the GPU the least, else that on the processor. "on the
processor": steps of smelt's plan that run there, and their share of the steps' time.
FILE.json beside FILE gets each row once it is known, with its ten longest steps; a later call goes on behind them.
--at-most-seconds begins no model later than that. --cache keeps what smelt measured for a later call. --device cpu does all of it
on the processor, to try the command. Exit status 1 where a model does not run, a result of floats is off by 3%, or one is slower
than ONNX Runtime's CUDA provider.
"""
import argparse
import concurrent.futures
import contextlib
import hashlib
import itertools
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
import packages
import shared
from onnx import TensorProto, numpy_helper

STRIPPED = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.INT8: np.int8,
            TensorProto.UINT8: np.uint8}
LEAST = 16384        # bytes of a weight that is taken out
WHOLE = 1 << 20      # bytes of a file that travels whole
TOLERANCE = 0.03     # of quantised ones; others are far below
BENCH = pathlib.Path(__file__).resolve().parent


def all_graphs(graph):
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for inner in [a.g, *a.graphs]:
                if inner.node:
                    yield from all_graphs(inner)


def weights(model):
    """Every tensor of the model that is an initializer or a Constant's value."""
    for graph in all_graphs(model.graph):
        yield from graph.initializer
        yield from (a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value")


def strip(path, out):
    model = onnx.load(path)
    for i, t in enumerate(weights(model)):
        if path.stat().st_size < WHOLE or t.data_type not in STRIPPED:
            continue
        x = numpy_helper.to_array(t)
        if x.nbytes < LEAST or not np.isfinite(x.astype(np.float64)).all():
            continue
        x = x.astype(np.float64)
        for field in ("raw_data", "float_data", "int32_data"):
            t.ClearField(field)
        t.doc_string = f"stripped {i} {x.mean()} {x.std()}"
    onnx.save(model, out / path.name)
    if path.stem not in packages.MODELS:
        shutil.copy(path.with_suffix(".inputs.npz"), out)


def fill(path, work):
    """The model with weights and its .inputs.npz, in `work`."""
    if (out := work / path.name).with_suffix(".inputs.npz").exists():
        return out
    if any(t.data_location == TensorProto.EXTERNAL for t in onnx.load(path, load_external_data=False).graph.initializer):
        subprocess.run([sys.executable, str(shared.MODELS / "fill.py"), str(path), str(work)], check=True, capture_output=True)
        return out
    model = onnx.load(path)
    for t in weights(model):
        if not t.doc_string.startswith("stripped "):
            continue
        _, i, mean, deviation = t.doc_string.split()
        seed = int.from_bytes(hashlib.sha256(f"{path.name} {i}".encode()).digest()[:8], "little")
        x = np.random.default_rng(seed).standard_normal(tuple(t.dims), dtype=np.float32)
        x = x * np.float32(deviation) + np.float32(mean)
        kind = STRIPPED[t.data_type]
        if np.issubdtype(kind, np.integer):
            x = np.clip(np.rint(x), np.iinfo(kind).min, np.iinfo(kind).max)
        t.raw_data = x.astype(kind).tobytes()
        t.doc_string = ""
    onnx.save(model, out)
    if path.stem in packages.MODELS:
        np.savez(out.with_suffix(".inputs.npz"), **packages.MODELS[path.stem].feeds())
    else:
        shutil.copy(path.with_suffix(".inputs.npz"), work)
    return out


# A process of ONNX Runtime without optimisations: its outputs to a file.
REFERENCE = """
import sys
import numpy as np
import onnxruntime as ort
model, feeds, outputs, threads = sys.argv[1:]
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.intra_op_num_threads, options.log_severity_level = int(threads), 4
session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
np.savez(outputs, **dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(np.load(feeds))), strict=True)))
"""


def distance(got, want):
    """The largest difference over the largest value of floats; the share of integers that differ."""
    if got.shape != want.shape:
        return math.inf
    if want.size == 0:
        return 0.0
    if want.dtype.kind != "f":
        return float(np.mean(got != want))
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (np.isnan(got) & np.isnan(want)) | (got == want)
    largest = np.max(np.abs(want), where=np.isfinite(want), initial=1e-30)
    return float(np.max(np.where(same, 0, np.abs(got - want)), initial=0) / largest)


def floats(x):
    """What npz keeps as two raw bytes is bfloat16."""
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if x.dtype.kind == "V" and x.dtype.itemsize == 2 else x


def call(command, limit):
    """Its standard output. Raises RuntimeError with what it said, or where it takes longer than `limit` seconds."""
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        said, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f"out of time after {limit:.0f} s") from None
    if process.returncode:
        lines = [line for line in error.strip().splitlines() if line.strip()]
        raise RuntimeError(f"exit {process.returncode}: {' '.join(lines[-2:])[-300:]}")
    return said


class Peer:
    """ONNX Runtime in a process of its own, opened, that measures when it is told to."""

    def __init__(self, model, a, device):
        threads = a.cores if device == "cpu" else 0
        command = [sys.executable, BENCH / "ort_gpu.py", model, "--device", device, "--threads", threads, "--wait"]
        self.limit = a.limit
        self.process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.timer = threading.Timer(a.limit, self.end)
        self.timer.start()
        self.ready = any('{"ready' in said for said in iter(self.process.stdout.readline, ""))
        self.timer.cancel()   # others are measured before it, for as long as they take

    def measure(self):
        """{peer: its row}"""
        if not self.ready:
            return {"ort": {"failed": f"exit {self.process.poll()}, or not open after {self.limit:.0f} s"}}
        self.timer.cancel()
        self.timer = threading.Timer(self.limit, self.end)
        self.timer.start()
        with contextlib.suppress(BrokenPipeError):
            print("now", file=self.process.stdin, flush=True)
        lines = itertools.takewhile(lambda line: '{"done' not in line, iter(self.process.stdout.readline, ""))
        rows = [json.loads(line) for line in lines if line.startswith("{")]
        self.timer.cancel()
        return {r["peer"]: {k: v for k, v in r.items() if k != "peer"} for r in rows if "peer" in r}

    def end(self):
        self.timer.cancel()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)


def options_of(path, a):
    return ["--device", a.device, "--tuning-level", a.tuning_level, "--cache-dir", a.cache,
            "--inputs", path.with_suffix(".inputs.npz")]


def expected(path, a, folder):
    """The processor's outputs, and whose they are."""
    out = folder / "expected.npz"
    try:
        call([sys.executable, "-c", REFERENCE, path, path.with_suffix(".inputs.npz"), out, 2], a.limit)
        return dict(np.load(out)), "ONNX Runtime"
    except RuntimeError:
        call([a.smelt, "run", path, "--unfused", "--tuning-level", 0, "--threads", 2, "--cache-dir", a.cache, "--inputs",
              path.with_suffix(".inputs.npz"), "--outputs", out], a.limit)
        return dict(np.load(out)), "smelt"


def compare(path, a, folder):
    """The errors of the outputs in out.npz; infinite where there is nothing to compare them with."""
    try:
        want, beside = expected(path, a, folder)
    except RuntimeError as error:
        return {"beside": f"nothing: {error}", "error": math.inf, "integers": math.inf}
    with np.load(folder / "out.npz") as got:
        both = [(floats(got[n]), floats(w)) for n, w in want.items()]
    errors = {True: 0.0, False: 0.0}
    for g, w in both:
        errors[w.dtype.kind == "f"] = max(errors[w.dtype.kind == "f"], distance(g, w))
    return {"beside": beside, "error": errors[True], "integers": errors[False]}


def build(path, a):
    """(row, ONNX Runtime's process or None): the model filled, built, run and compared."""
    row, peer = {}, None
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            path = fill(path, a.work)
            command = [a.smelt, "run", path, *options_of(path, a), "--outputs", folder / "out.npz"]
            begin = time.monotonic()
            try:
                call(command, a.limit)
            except RuntimeError as error:
                if "out of time" in str(error) or a.device == "cpu":
                    raise
                row["refused"] = str(error)
                call([*command, "--allow-fallback"], a.limit)
            row["first_s"] = time.monotonic() - begin
            peer = Peer(path, a, "cuda" if a.device == "gpu" else "cpu") if a.ort else None
            row |= compare(path, a, folder)
        except Exception as error:  # what fails is a row of the table
            row["failed"] = f"{type(error).__name__}: {error}"[:400]
    return row, peer


def measure(path, row, peer, a):
    """Adds the times of a model that was built."""
    if a.ort_cpu:
        on_cpu = Peer(path, a, "cpu")
        waiting = concurrent.futures.ThreadPoolExecutor(1).submit(on_cpu.measure)
    try:
        fallback = ["--allow-fallback"] if "refused" in row else []
        p = json.loads(call([a.smelt, "profile", path, "--optimized", "--iterations", 50, "--counters", "none", "--no-what-if",
                             "--json", *options_of(path, a), *fallback], a.limit))["after"]
        total = sum(s["us"]["median"] for s in p["steps"]) or 1
        away = [s for s in p["steps"] if s["on_host"]] if a.device == "gpu" else []
        row |= {"us": p["latency_us"]["median"], "iqr_us": p["latency_us"]["iqr"],
                "host_us": (p["host_latency_us"] or p["latency_us"])["median"],
                "steps": len(p["steps"]), "steps_us": p["steps_us"], "gaps_us": p["gaps_us"], "warnings": p["warnings"],
                "on_host": {"share": sum(s["us"]["median"] for s in away) / total,
                            "steps": [f"{s['op']} {s['name']}" for s in away]},
                "inside": p["inside"][:20],
                "top": [{"us": s["us"]["median"], **{k: s[k] for k in ("name", "op", "problem", "tactic", "config")}}
                        for s in sorted(p["steps"], key=lambda s: -s["us"]["median"])[:10]]}
    except Exception as error:
        row["failed"] = f"{type(error).__name__}: {error}"[:400]
    if a.ort_cpu:
        row["ort_cpu"] = waiting.result().get("ort", {"failed": "no figure"})
        on_cpu.end()
    if peer:
        row["peers"] = peer.measure()
    return row


def of_ort(row):
    """smelt's time over ONNX Runtime's least on the device; None where one is not known."""
    known = [p["us"] for p in row.get("peers", {}).values() if "us" in p]
    return row["us"] / min(known) if known and "us" in row else None


def of_cpu(row):
    return row["us"] / row["ort_cpu"]["us"] if "us" in row and "us" in row.get("ort_cpu", {}) else None


def number(x, form="10.1f"):
    return format(x, form) if x is not None else " " * (int(form.split(".")[0]) - 1) + "-"


def line(name, r):
    if "failed" in r and "us" not in r:
        return f"{name:26} failed: {r['failed']}"
    peers = r.get("peers", {})
    text = f"{name:26} {r['error']:8.1e} {r['integers']:7.4f} {number(r.get('us'))} "
    text += "".join(number(peers.get(k, {}).get("us")) for k in ("ort", "ort_nhwc", "ort_graph"))
    text += f"{number(of_ort(r), '7.3f')} {number(r.get('ort_cpu', {}).get('us'))} {number(of_cpu(r), '7.3f')} "
    text += f"{r['first_s']:7.1f} "
    away = r.get("on_host", {"steps": []})
    text += f"{r.get('steps', 0):5} {len(away['steps']):5} {away.get('share', 0):6.1%}"
    notes = [f"beside {r['beside']}"] if r["beside"] != "ONNX Runtime" else []
    notes += [f"with --allow-fallback: {r['refused']}"] if "refused" in r else []
    notes += sorted({s.split()[0] for s in away["steps"]})
    return text + ("  " + ", ".join(notes) if notes else "")


HEAD = (f"{'model':26} {'error':>8} {'ints':>7} {'smelt us':>10} {'ORT us':>10}{'nhwc':>10}{'graph':>10}{'/ORT':>7} "
        f"{'ORT cpu us':>10} {'/cpu':>7} {'first s':>7} {'steps':>5} {'on the processor':>12}")


def table(rows):
    def place(item):
        r = item[1]
        return (0, 0) if "failed" in r else (1, -of_ort(r)) if of_ort(r) else (2, -(of_cpu(r) or 0))

    lines = [HEAD, *(line(n, r) for n, r in sorted(rows.items(), key=place))]
    for what, of in (("CUDA provider", of_ort), ("CPU provider", of_cpu)):
        if found := [x for r in rows.values() if (x := of(r)) is not None]:
            mean = math.exp(np.mean(np.log(found)))
            lines.append(f"smelt / ONNX Runtime's {what}: geometric mean {mean:.3f}, largest {max(found):.3f}, "
                         f"{len(found)} models")
    bad = [f"{n}: {r['failed']}" for n, r in rows.items() if "failed" in r]
    bad += [f"{n}: error {r['error']:.1e}" for n, r in rows.items() if r.get("error", 0) > TOLERANCE]
    bad += [f"{n}: {x:.3f} of ONNX Runtime" for n, r in rows.items() if (x := of_ort(r)) is not None and x > 1]
    bad += [f"{n}: with --allow-fallback" for n, r in rows.items() if "refused" in r]
    return [*lines, f"{len(rows)} models, beyond a limit: {len(bad)}", *(f"  {b}" for b in bad)], bad


def save(rows, a):
    lines, bad = table(rows)
    a.out.write_text("\n".join(lines) + "\n")
    a.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    return lines, bad


def run(a):
    began, saving = time.monotonic(), threading.Lock()
    kept = a.out.with_suffix(".json")
    rows = json.loads(kept.read_text()) if kept.exists() else {}
    known = {p.stem: p for p in sorted(a.folder.glob("*.onnx"))}
    names = [n for n in (a.models or known) if n not in rows]

    def keep(name, row, said):
        with saving:
            rows[name] = row
            save(rows, a)
            print(f"{time.monotonic() - began:5.0f} s  {said}", flush=True)

    def started(name):
        """ONNX Runtime's process or None; "late" where the model was not begun."""
        if time.monotonic() - began > a.at_most_seconds:
            return "late"
        row, peer = build(known[name], a)
        if a.beside and "failed" not in row:
            row = measure(a.work / f"{name}.onnx", row, peer, a)
        keep(name, row, line(name, row))
        return peer

    late = 0
    for first in range(0, len(names), a.together):
        group = names[first:first + a.together]
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            peers = dict(zip(group, pool.map(started, group), strict=True))
        for name, peer in peers.items():
            late += peer == "late"
            if peer != "late":
                if "failed" not in rows[name] and not a.beside:
                    row = measure(a.work / f"{name}.onnx", rows[name], peer, a)
                    keep(name, row, line(name, row))
                if peer:
                    peer.end()
            for ending in ("onnx", "data", "inputs.npz"):
                (a.work / f"{name}.{ending}").unlink(missing_ok=True)
    lines, bad = save(rows, a)
    print("\n".join(lines), flush=True)
    if late:
        print(f"out of time: {late} models are for a later call")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    stripping = modes.add_parser("strip")
    stripping.add_argument("out", type=pathlib.Path)
    stripping.add_argument("models", nargs="+", type=pathlib.Path)
    running = modes.add_parser("run")
    running.add_argument("smelt", type=os.path.abspath)
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("--out", type=pathlib.Path, required=True)
    running.add_argument("--models", nargs="+")
    running.add_argument("--jobs", type=int, default=4)
    running.add_argument("--together", type=int, default=16, help="models that are open at a time")
    running.add_argument("--limit", type=float, default=120, help="seconds of a build, and of each peer")
    running.add_argument("--at-most-seconds", type=float, default=math.inf)
    running.add_argument("--cores", type=int, default=4, help="threads of what runs on the processor")
    running.add_argument("--tuning-level", type=int, default=1)
    running.add_argument("--cache", type=pathlib.Path)
    running.add_argument("--work", type=pathlib.Path)
    running.add_argument("--ort", action="store_true")
    running.add_argument("--ort-cpu", action="store_true")
    running.add_argument("--beside", action="store_true")
    running.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    a = parser.parse_args()
    if a.mode == "strip":
        a.out.mkdir(parents=True, exist_ok=True)
        for path in a.models:
            strip(path, a.out)
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        a.cache, a.work = a.cache or pathlib.Path(folder, "cache"), (a.work or pathlib.Path(folder, "work")).resolve()
        a.work.mkdir(parents=True, exist_ok=True)
        return run(a)


if __name__ == "__main__":
    sys.exit(main())
