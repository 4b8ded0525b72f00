#!/usr/bin/env python3
"""Runs real models through smelt and ONNX Runtime, and holds what they return to the float64 evaluation of the same graph.

usage: check_models.py [--quick | --all | --made | NAME ...] [--build DIR] [--work DIR] [--threads N] [--level N] [--json F]
                       [--table F] [--device D]

Of each model, at each of its sizes:
  oracle       smelt run --float64: the graph as it was imported, in double, by none of a plan's kernels; kept in WORK/golden
  unfused      a Session that runs the graph as it stands, operator by operator, in the model's own precision
  fused        a Session with every rewrite; all sizes of a symbolic model go through one Session
  plan         smelt optimize -o, checked by onnx.checker, and run by smelt
  ort          ONNX Runtime on the model, where it has the types (bfloat16 it has not)
  plan in ort  ONNX Runtime on the plan
With --device gpu, smelt's command runs unfused and fused on the GPU, each size in a process of its own, and nothing else runs.
A result passes by the rule in tolerance.py: at most twice the unfused error and one unit in the last place; a plan in ONNX
Runtime, at most twice the larger error of the model unfused and in ONNX Runtime. Prints a line a model and size; exit status 1
when one fails.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import engines
import onnx
import subjects
import tolerance

COMPUTED_IN = {"fp16": "float16", "bf16": "bfloat16"}
ENGINES = ("unfused", "fused", "plan", "ort", "plan in ort")


class Checker:
    def __init__(self, build, work, threads=0, level=0, keep=False, device=""):
        self.build, self.work, self.keep = pathlib.Path(build).resolve(), pathlib.Path(work).resolve(), keep
        self.device = device
        self.options = {"threads": threads, "tuning_level": level, "cache_dir": str(self.work / "cache")}
        (self.work / "golden").mkdir(parents=True, exist_ok=True)

    def smelt(self, *args):
        """Runs the command and returns the peak memory of the process, bytes."""
        process = subprocess.Popen([str(self.build / "smelt"), *map(str, args)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        text = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"smelt {args[0]}: exit {os.waitstatus_to_exitcode(status)}: {text.strip()[-500:]}")
        return usage.ru_maxrss * 1024

    def golden(self, subject, inputs):
        key = hashlib.sha256()
        sources = sorted((subjects.ROOT / "src" / "ops" / "f64").glob("*"))
        for path in (subject.model, inputs, *sources):
            key.update(pathlib.Path(path).read_bytes())
        target = self.work / "golden" / f"{subject.name}.{key.hexdigest()[:16]}.npz"
        if not target.exists():
            self.smelt("run", subject.model, "--float64", "--inputs", inputs, "--outputs", target,
                       "--threads", self.options["threads"])
        return engines.load(target)

    def options_for(self, subject, optimize=True):
        o = dict(self.options, optimize=optimize)
        if subject.precision:
            o.update(precision=subject.precision, keep_fp32=list(subject.keep_fp32))
        return o

    def run_command(self, subject, engine, outputs):
        """As run(), on the GPU; what building and running took is not told apart."""
        options = ["--device", self.device, "--tuning-level", self.options["tuning_level"],
                   "--cache-dir", self.options["cache_dir"]]
        options += ["--unfused"] if engine == "unfused" else []
        if subject.precision:
            options += ["--precision", subject.precision]
            options += ["--keep-fp32", ",".join(subject.keep_fp32)] if subject.keep_fp32 else []
        peak, took = 0, []
        for inputs, target in zip(subject.inputs, outputs):
            begin = time.time()
            peak = max(peak, self.smelt("run", subject.model, "--inputs", inputs, "--outputs", target, *options))
            took.append(time.time() - begin)
        return {"peak_bytes": peak, "build_s": 0, "run_s": took}

    def run(self, subject, engine, plan):
        """{"peak_bytes", "build_s", "run_s", "outputs": files} of one engine on all sizes."""
        tag = engine.replace(" ", "_")
        outputs = [str(self.work / f"{subject.name}.{tag}.{i}.npz") for i in range(len(subject.inputs))]
        if self.device:
            return dict(self.run_command(subject, engine, outputs), outputs=outputs)
        model = plan if engine.startswith("plan") else subject.model
        name = "ort" if engine.endswith("ort") else "smelt"
        if name == "ort":
            options = {"threads": self.options["threads"]}
        elif engine == "plan":
            options = self.options
        else:
            options = self.options_for(subject, engine == "fused")
        reply = engines.run(name, model, subject.inputs, outputs, options, self.build / "python")
        return dict(reply, outputs=outputs)

    def write_plan(self, subject):
        plan = subject.model.parent / f"{subject.name}.plan.onnx"
        args = ["optimize", subject.model, "-o", plan, "--tuning-level", self.options["tuning_level"],
                "--cache-dir", self.options["cache_dir"]]
        if subject.precision:
            args += ["--precision", subject.precision]
            args += ["--keep-fp32", ",".join(subject.keep_fp32)] if subject.keep_fp32 else []
        peak = self.smelt(*args)
        onnx.checker.check_model(str(plan))
        return plan, peak

    def check(self, subject):
        result = {"model": subject.name, "rows": [], "engines": {}, "passed": True, "data_bytes": subject.data_bytes}
        begin = time.time()
        plan = None
        if subject.plan and not self.device:
            plan, result["optimize_peak_bytes"] = self.write_plan(subject)
            result["plan_bytes"] = plan.stat().st_size
        done = [e for e in ENGINES if (plan or not e.startswith("plan")) and (not e.endswith("ort") or subject.in_ort)]
        if self.device:
            done = ["unfused", "fused"]
        if subject.precision == "bf16":
            done = [e for e in done if e != "plan in ort"]
        for engine in done:
            result["engines"][engine] = self.run(subject, engine, plan)
        for i, (inputs, size) in enumerate(zip(subject.inputs, subject.sizes)):
            found = {e: engines.load(result["engines"][e]["outputs"][i]) for e in done}
            oracle = self.golden(subject, inputs) if subject.oracle == "float64" else found["ort"]
            found = {e: tolerance.in_order_of(oracle, x) for e, x in found.items()}
            for output in oracle:
                row = self.judge(subject, output, {e: found[e][output] for e in done}, oracle[output])
                result["rows"].append(dict(row, size=size))
                result["passed"] &= not row["failed"]
        for engine in done:
            for path in result["engines"][engine].pop("outputs"):
                if not self.keep:
                    os.remove(path)
        result["seconds"] = time.time() - begin
        return result

    def judge(self, subject, output, found, oracle):
        dtype = tolerance.type_name(found["unfused"])
        errors = {e: tolerance.error(x, oracle) for e, x in found.items()}
        failed = []
        for engine, error in errors.items():
            if engine == "unfused":
                good = tolerance.is_rounding(error, "int8" if subject.quantised else COMPUTED_IN.get(subject.precision, dtype))
            elif engine == "ort":
                good = True                                   # the peer's own error is reported, and judged by nobody
            else:
                references = [errors["unfused"]] + ([errors["ort"]] if engine == "plan in ort" else [])
                good = any(tolerance.accepts(error, r, dtype) for r in references)
            if not good:
                failed.append(engine + (f": {error.why}" if error.why else ""))
        return {"output": output, "type": dtype, "failed": failed,
                "errors": {e: {"largest": x.largest, "rms": x.rms, "relative": x.relative} for e, x in errors.items()}}


HEADER = (f"{'model':32} {'size':18} {'type':9}" + "".join(f"{e:>12}" for e in ENGINES) +
          f"{'build s':>9}{'run s':>8}{'MiB':>7}  verdict")


def lines(result):
    """One line a size: the output whose fused error is furthest from the unfused one's. Figures are root mean square errors
    against the oracle, relative to the oracle's root mean square."""
    if "error" in result:
        return [f"{result['model']:32} FAIL: {result['error']}"]
    out = []
    sizes = []
    for r in result["rows"]:
        if r["size"] not in sizes:
            sizes.append(r["size"])
    for i, size in enumerate(sizes):
        rows = [r for r in result["rows"] if r["size"] == size]
        worst = max(rows, key=lambda r: (len(r["failed"]), r["errors"]["fused"]["relative"]))
        text = ",".join(f"{k}={v}" for k, v in size.items())
        cells = "".join(f"{worst['errors'][e]['relative']:>12.2e}" if e in worst["errors"] else f"{'–':>12}" for e in ENGINES)
        fused = result["engines"]["fused"]
        verdict = "; ".join(f"FAIL {r['output']}: {', '.join(r['failed'])}" for r in rows if r["failed"]) or "pass"
        out.append(f"{result['model']:32} {text:18} {worst['type']:9}{cells}{fused['build_s'] if i == 0 else 0:>9.1f}"
                   f"{fused['run_s'][i]:>8.2f}{fused['peak_bytes'] / 2**20:>7.0f}  {verdict}")
    return out


def versions(checker):
    def text(*command):
        return subprocess.run(command, capture_output=True, text=True, cwd=subjects.ROOT).stdout.strip()

    import importlib.metadata

    import numpy
    cpu = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "unknown CPU")
    dirty = " with changes" if text("git", "status", "--porcelain", "--untracked-files=no") else ""
    smelt, commit = text(str(checker.build / "smelt"), "--version"), text("git", "rev-parse", "--short", "HEAD")
    threads = checker.options["threads"] or len(os.sched_getaffinity(0))
    if checker.device:
        peer = text("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader") + "; "
    else:
        peer = f"onnxruntime {importlib.metadata.version('onnxruntime')}, "
    return (f"{smelt}, commit {commit}{dirty}; {peer}onnx {onnx.__version__}, "
            f"numpy {numpy.__version__}; {cpu}, {threads} threads; tuning level {checker.options['tuning_level']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of graphs in examples/models, or of made models")
    parser.add_argument("--all", action="store_true", help="every graph of examples/models, and every made model")
    parser.add_argument("--quick", action="store_true", help="what the tests run")
    parser.add_argument("--build", default=subjects.ROOT / "build")
    parser.add_argument("--work", default=subjects.ROOT / "build" / "models",
                        help="filled models (10 GB for --all), golden results, the cache")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--level", type=int, default=0, help="tuning level of the fused and unfused Sessions")
    parser.add_argument("--device", default="", help="gpu, or a GPU's number: unfused and fused there, and nothing else")
    parser.add_argument("--keep", action="store_true", help="keep every engine's outputs")
    parser.add_argument("--json", help="write every figure here")
    parser.add_argument("--table", help="write the table here, with versions and commit")
    args = parser.parse_args()
    names = subjects.QUICK if args.quick else subjects.ALL + subjects.MADE if args.all else args.names
    if not names:
        parser.error("no model named; --quick, --all, or names")
    checker = Checker(args.build, args.work, args.threads, args.level, args.keep, args.device)
    results = []
    print(HEADER, flush=True)
    for name in names:
        try:
            result = checker.check(subjects.subject(name, checker.work))
        except Exception as e:                                # one model's failure must not hide the others' results
            result = {"model": name, "passed": False, "error": f"{type(e).__name__}: {e}"}
        results.append(result)
        print("\n".join(lines(result)), flush=True)
    if args.table:
        text = [versions(checker), HEADER, *(line for r in results for line in lines(r))]
        pathlib.Path(args.table).write_text("\n".join(text) + "\n")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1))
    failed = [r["model"] for r in results if not r["passed"]]
    print(f"{len(results) - len(failed)} of {len(results)} pass" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
