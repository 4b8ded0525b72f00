"""Latency, build time and closed attribution of whole models on the first GPU that is visible, beside PyTorch and ONNX Runtime.

usage: python bench/gpu_models.py SMELT FOLDER [--models NAME ...] [--tuning-level L] [--tactics LIST] [--iterations N]
                                  [--torch] [--torch-limit S] [--ort] [--ort-limit S] [--rebuilds N] [--qa]
                                  [--allow-fallback] [--out FOLDER] [--join RESULTS.json ...]
       (SMELT: build/smelt; FOLDER: where filled models are made: examples/models/fill.py, which needs numpy and onnx)

Of each model, with a cache folder of its own that begins empty:
  cold, warm   seconds of `smelt run`, from the command's start to its end, with an empty cache and again with what it left
  build        seconds of the warm one's that went into the build, up to where a run can begin (its stages are in the results
               file); the others start the process, read the inputs, run once and print
  latency      of one forward pass, inputs and outputs on the device, one CUDA graph: the median over samples of 20 replays that
               follow each other, by events. With peers it is taken before and after them, and the figure is the median of the two
  steps, gaps  the sum of the steps' times and of the gaps between them as CUPTI saw them in a recorded run, and how far their sum
               is from the latency of that pass
  --torch      PyTorch eager by the wall clock, eager in a CUDA graph, torch.compile in its default mode and by max-autotune, each
               in a CUDA graph, and seconds that the latter takes to compile (* from its cache: TORCHINDUCTOR_CACHE_DIR), on the
               modules of bench/torch_models.py
  --ort        ONNX Runtime's CUDA provider on the same file with bound inputs and outputs, plain, channels-last and the faster of
               the two in its CUDA graph mode (bench/ort_gpu.py)
  --rebuilds   N more builds, each with an empty cache: how many steps have another tactic or other settings than in the first,
               and the latency with them
  --qa         average, median, p90, host and device memory unfused and fused, how many subgraphs of each kind were fused, and the
               tactic and settings that each got (bench/qa_table.py)
  of …         smelt's latency over the peer's; of torch.compile's two modes and of ONNX Runtime's three the fastest
  --join       rows of earlier results, of the same GPU, commit and options, come first and count in the means: for commands that
               may not last as long as all models take
PyTorch's peers of a model are one process, ONNX Runtime's another, each ended at its limit: what is not known by then is '-',
with the reason below the row. Lines that begin with "..." tell each figure as soon as it is known, for a command that may be
ended before a row is. Ends with the geometric means, and writes gpu-models-DATE-TIME.json (UTC) into --out.
"""
import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import qa_table
import shared

TORCH = {"wall": "eager us", "graph": "graph us", "default": "default us", "compile": "compile us"}
ORT = {"ort": "ort us", "ort_nhwc": "ort nhwc", "ort_graph": "ort graph"}
BEST = {"compile_best": ("default", "compile"), "ort_best": tuple(ORT)}
BENCH = pathlib.Path(__file__).resolve().parent


def smelt(command, *args):
    """Its standard output, and the seconds it took. Raises RuntimeError with what it said."""
    begin = time.perf_counter()
    done = subprocess.run([command, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout, time.perf_counter() - begin


def gpu_name():
    """The first visible GPU's name, and the driver's version."""
    ordinal = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    return subprocess.check_output(["nvidia-smi", "-i", ordinal, "--query-gpu=name,driver_version", "--format=csv,noheader"],
                                   text=True).strip()


def ask_peers(names, limit, script, *args):
    """{name: its row, with "failed" where there is no figure}, and versions. The script's lines count up to where it ended."""
    command = [sys.executable, str(BENCH / script), *map(str, args)]
    known, versions, late = {}, {}, threading.Event()
    with tempfile.TemporaryFile("w+") as said:
        peer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True,
                                start_new_session=True)   # with the compilers it starts, to be ended as one

        def end():
            if peer.poll() is None:
                late.set()
                os.killpg(peer.pid, signal.SIGKILL)

        timer = threading.Timer(limit, end)
        timer.start()
        try:
            for line in map(str.strip, peer.stdout):
                if line.startswith("{") and line.endswith("}"):
                    row = json.loads(line)
                    versions |= row.get("versions", {})
                    if "peer" in row:
                        known[row["peer"]] = {key: value for key, value in row.items() if key != "peer"}
                        print(f"... {line}", flush=True)
            peer.wait()
        finally:
            timer.cancel()
            if peer.poll() is None:
                os.killpg(peer.pid, signal.SIGKILL)
        said.seek(0)
        reason = f"out of time after {limit:g} s" if late.is_set() else f"exit {peer.returncode}: {said.read().strip()[-300:]}"
    return {name: known.get(name, {"failed": reason}) for name in names}, versions


def changed_steps(first, again, facts=("name", "problem", "tactic", "config")):
    """How many steps of the second profile have no step with the same facts in the first."""
    found = [collections.Counter(tuple(step[fact] for fact in facts) for step in p["steps"]) for p in (first, again)]
    return (found[1] - found[0]).total()


def measure(command, name, path, level, a, extra):
    """A model's row, and the peers' versions."""
    given = ["--tuning-level", level, "--device", "gpu", "--inputs", path.with_suffix(".inputs.npz"), *extra]

    def empty_cache():
        return tempfile.TemporaryDirectory(prefix="smelt-", ignore_cleanup_errors=True)

    def profile(options):
        text, _ = smelt(command, "profile", path, "--optimized", "--iterations", a.iterations, "--json", *options)
        return json.loads(text)["after"]

    with empty_cache() as cache:
        options = [*given, "--cache-dir", cache]
        (cold_text, cold), (warm_text, warm) = (smelt(command, "run", path, "--json", *options) for _ in range(2))
        stages = [{r["stage"]: r["seconds"] for r in json.loads(text)["build"]} for text in (cold_text, warm_text)]
        p, peers, versions = profile(options), {}, {}
        if a.torch or a.ort:
            print(f"... {name} {p['latency_us']['median']:.1f} us, cold {cold:.1f} s", flush=True)
        if a.torch:
            peers, versions = ask_peers(TORCH, a.torch_limit, "torch_models.py", path.parent, "--models", name)
        if a.ort:
            rows, more = ask_peers(ORT, a.ort_limit, "ort_gpu.py", path)
            peers, versions = peers | rows, versions | more
        qa = qa_table.measure(command, path, options) if a.qa else None
        passes = [p["latency_us"]] + ([profile(options)["latency_us"]] if peers else [])
    rebuilds = []
    for _ in range(a.rebuilds):
        with empty_cache() as cache:
            again = profile([*given, "--cache-dir", cache])
        rebuilds.append({"changed_steps": changed_steps(p, again), "latency_us": again["latency_us"]["median"]})
    latency, inside = statistics.median(s["median"] for s in passes), p["steps_us"] + p["gaps_us"]
    top = sorted(p["steps"], key=lambda s: -s["us"]["median"])[:8]
    row = {"latency_us": latency, "iqr_us": max(s["iqr"] for s in passes), "passes_us": [s["median"] for s in passes],
           "steps_us": p["steps_us"], "gaps_us": p["gaps_us"], "unattributed": 1 - inside / p["latency_us"]["median"],
           "steps": len(p["steps"]), "cold_s": cold, "warm_s": warm,
           "cold_stages_s": stages[0], "warm_stages_s": stages[1], "build_s": sum(stages[1].values()),
           "rebuilds": rebuilds, "peers": peers, "qa": qa,
           "ratios": {k: latency / r["us"] for k, r in peers.items() if "us" in r},
           "top": [{"us": s["us"]["median"], **{k: s[k] for k in ("name", "problem", "tactic", "config")}} for s in top]}
    for best, of in BEST.items():
        if known := [row["ratios"][k] for k in of if k in row["ratios"]]:
            row["ratios"][best] = max(known)
    return row, versions


def heading(a):
    text = (f"{'model':<24}{'latency us':>11}{'IQR':>7}{'steps us':>10}{'gaps us':>9}{'missing':>9}{'steps':>7}"
            f"{'cold s':>8}{'warm s':>8}{'build s':>9}")
    if a.torch:
        text += "".join(f"{title:>11}" for title in TORCH.values()) + f"{'of compile':>12}{'compiled s':>12}"
    return text + ("".join(f"{title:>11}" for title in ORT.values()) + f"{'of ort':>8}" if a.ort else "")


def line(name, row, a):
    text = (f"{name:<24}{row['latency_us']:>11.1f}{row['iqr_us']:>7.1f}{row['steps_us']:>10.1f}{row['gaps_us']:>9.1f}"
            f"{row['unattributed']:>9.1%}{row['steps']:>7}{row['cold_s']:>8.1f}{row['warm_s']:>8.2f}{row['build_s']:>9.2f}")

    def ratio(key, width):
        return f"{row['ratios'][key]:>{width}.3f}" if key in row["ratios"] else f"{'-':>{width}}"

    def figures(peers):
        known = (row["peers"].get(k, {}) for k in peers)
        return "".join(f"{r['us']:>11.1f}" if "us" in r else f"{'-':>11}" for r in known)

    if a.torch:
        made = row["peers"].get("compile", {})
        seconds = f"{made['compile_s']:.1f}{'*' if made['cache_hits'] else ''}" if "compile_s" in made else "-"
        text += figures(TORCH) + ratio("compile_best", 12) + f"{seconds:>12}"
    if a.ort:
        text += figures(ORT) + ratio("ort_best", 8)
    rebuilt = (f"    built again: {r['changed_steps']} of {row['steps']} steps by another tactic or other settings, "
               f"{r['latency_us']:.1f} us" for r in row.get("rebuilds", []))
    table = [qa_table.table(name, row["qa"])] if row.get("qa") else []
    return "\n".join([text, *rebuilt, *table, *(f"    {k}: {r['failed']}" for k, r in row["peers"].items() if "failed" in r)])


def summary(rows):
    """{peer: the geometric mean of smelt's latency over the peer's, the largest, and of how many models}"""
    result = {}
    for key in (*TORCH, *ORT, *BEST):
        if ratios := [r["ratios"][key] for r in rows if key in r.get("ratios", {})]:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            result[key] = {"mean": mean, "largest": max(ratios), "models": len(ratios)}
    return result


def join(results, path):
    """Adds the rows of an earlier results file that are not errors. Raises ValueError where it is of another machine or build."""
    earlier = json.loads(path.read_text())
    for key in ("gpu", "smelt", "commit", "tuning_level", "tactics"):
        if earlier[key] != results[key]:
            raise ValueError(f"{path}: {key} is {earlier[key]!r}, here {results[key]!r}: rows of one build and machine only")
    results["versions"] |= earlier["versions"]
    results["models"] |= {name: row for name, row in earlier["models"].items() if "error" not in row}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smelt", type=os.path.abspath)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", nargs="*", default=shared.GPU_MODELS)
    parser.add_argument("--tuning-level", default=2)
    parser.add_argument("--iterations", default=30)
    parser.add_argument("--allow-fallback", action="store_true")
    parser.add_argument("--tactics", default="")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--torch-limit", type=float, default=300, help="seconds a model")
    parser.add_argument("--ort", action="store_true")
    parser.add_argument("--ort-limit", type=float, default=120, help="seconds a model")
    parser.add_argument("--rebuilds", type=int, default=0, help="builds more, each with an empty cache")
    parser.add_argument("--qa", action="store_true", help="the table of times, memory and fused subgraphs of each model")
    parser.add_argument("--join", nargs="+", type=pathlib.Path, default=[])
    parser.add_argument("--out", type=pathlib.Path, default=shared.ROOT / "bench" / "results")
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))   # a peer is a session of its own: ask_peers ends it
    gpu = gpu_name()
    now = datetime.datetime.now(datetime.timezone.utc)
    results = {"gpu": gpu, "smelt": smelt(a.smelt, "--version")[0].strip(), "commit": shared.commit(),
               "date": now.isoformat(timespec="seconds"), "tuning_level": int(a.tuning_level), "tactics": a.tactics,
               "versions": {}, "models": {}}
    options = (["--allow-fallback"] if a.allow_fallback else []) + ([f"--tactics={a.tactics}"] if a.tactics else [])
    print(f"{gpu}, {results['smelt']}, commit {results['commit']}\n{heading(a)}", flush=True)
    for path in a.join:
        join(results, path)
    for name, row in results["models"].items():
        print(line(name, row, a), flush=True)
    for name in a.models:
        try:
            row, versions = measure(a.smelt, name, shared.filled(name, a.folder), a.tuning_level, a, options)
            results["versions"] |= versions
            text = line(name, row, a)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            row, text = {"error": str(error)}, f"{name:<24} failed: {str(error)[-300:]}"
        results["models"][name] = row
        print(text, flush=True)
    results["summary"] = summary(results["models"].values())
    for key, of in results["summary"].items():
        print(f"smelt / {key}: geometric mean {of['mean']:.3f}, largest {of['largest']:.3f} ({of['models']} models)")
    if results["versions"]:
        print(", ".join(f"{k} {v}" for k, v in results["versions"].items()))
    a.out.mkdir(parents=True, exist_ok=True)
    (a.out / f"gpu-models-{now:%Y-%m-%d-%H%M}.json").write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any("error" in r for r in results["models"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
