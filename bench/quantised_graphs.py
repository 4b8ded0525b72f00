"""Small graphs in 8 bits on the CPU, as seeds draw them: smelt over the same graph in f32 and over ONNX Runtime.

usage: PYTHONPATH=build/python .venv/bin/python bench/quantised_graphs.py [--families NAME...] [--count N] [--seed S]
                     [--only REGEX] [--rounds N] [--seconds S] [--threads N] [--tuning-level L] [--folder F] [--above R]
                     [--no-times] [--out FILE]

A net for forms that fall behind (quantised_cases.py: QDQ, operators of bytes, dynamic ones, mixed types, axes and zero points),
not a measure of models. Each engine is a process of its own, and they take turns. A row gives the least of the batches' medians
in microseconds, the slowest rows first. Results are held to ONNX Runtime's without its optimisations: integers are right that
differ by one unit in 1% of places, floats by 1e-5 of the largest, or either by twice what ONNX Runtime's optimisations change.
Rows above --above (1.1) of either are measured again at the end. Exit status 1 where smelt refuses what ONNX Runtime takes, or
is not right.
"""
import argparse
import json
import math
import pathlib
import re
import sys

import numpy as np
import onnx
import operators
import quantised_cases
import shared

ENGINES = ("smelt", "f32", "onnxruntime", "plain")


def worker_of(name):
    if name == "plain":
        options = "options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL\n        "
        made = operators.WORKER.replace("return onnxruntime.InferenceSession", options + "return onnxruntime.InferenceSession")
        assert made != operators.WORKER
        return made.replace('engine == "onnxruntime"', 'engine == "plain"')
    return operators.WORKER


class Engines(operators.Engines):
    def __init__(self, args):
        self.args = args
        self.workers = {name: self.start(name) for name in ENGINES}

    def start(self, name):
        return shared.Worker(name, worker_of(name),
                             [name, self.args.threads, self.args.tuning_level, self.args.folder / "cache", "perf_counter"])

    def load(self, case):
        """{engine: why it refuses the case}, and each engine's results."""
        refused, results = {}, {}
        for kind, graph in zip(("bytes", "f32"), case, strict=True):
            onnx.save(graph.model(), self.args.folder / f"{kind}.onnx")
            np.savez(self.args.folder / f"{kind}.npz", **graph.fed)
        for name in self.workers:
            kind, written = "f32" if name == "f32" else "bytes", self.args.folder / f"{name}.result.npz"
            model, feeds = (str(self.args.folder / f"{kind}.{end}") for end in ("onnx", "npz"))
            answer = self.ask(name, {"model": model, "feeds": feeds, "results": str(written)})
            if "refused" in answer:
                refused[name] = answer["refused"]
            else:
                results[name] = list(np.load(written).values())
        return refused, results

    def times(self, names):
        best = dict.fromkeys(names, math.inf)
        for _ in range(self.args.rounds):
            for name in names:
                answer = self.ask(name, {"seconds": self.args.seconds})
                best[name] = min(best[name], math.inf if isinstance(answer, dict) else answer)
            names = names[::-1]
        return best


def apart(found, expected):
    """The largest difference, of integers in units, of floats over the largest value; and the share of integers that differ."""
    most, share = 0.0, 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf, 1.0
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
        if a.dtype.kind == "f":
            largest = max(float(np.abs(np.nan_to_num(b)).max(initial=0)), 1e-30)
            difference = np.nan_to_num(np.where(np.isnan(a) & np.isnan(b), 0, difference) / largest, nan=math.inf)
        elif a.size:
            share = max(share, float((difference > 0).mean()))
        most = max(most, float(difference.max(initial=0)))
    return most, share


def is_right(row, integers):
    most, share = row["error"]
    of_peer, share_of_peer = row["error_of_ort"] or (0.0, 0.0)
    if integers:   # numbers that lie between two integers, which a sum in another order puts on the other side
        return most <= max(1.0, 2 * of_peer) and share <= max(0.01, 2 * share_of_peer)
    return most <= max(1e-5, 2 * of_peer)


def measure(engines, name, case, timed=True):
    refused, results = engines.load(case)
    row = {"name": name, "refused": refused}
    if "smelt" in results and "plain" in results:
        row["error"] = apart(results["smelt"], results["plain"])
        row["error_of_ort"] = apart(results["onnxruntime"], results["plain"]) if "onnxruntime" in results else None
        row["right"] = is_right(row, results["plain"][0].dtype.kind != "f")
    if "smelt" in results and timed:
        peers = [n for n in ("f32", "onnxruntime") if n in results]
        row["us"] = engines.times(["smelt", *peers])
        row["over"] = {n: row["us"]["smelt"] / row["us"][n] for n in peers}
    return row


def worst(row):
    return max(row.get("over", {}).values(), default=0)


def text_of(row):
    us, over = row.get("us", {}), row.get("over", {})
    numbers = " ".join(f"{us.get(n, math.nan):9.1f}" for n in ("smelt", "f32", "onnxruntime"))
    ratios = " ".join(f"{over.get(n, math.nan):7.3f}" for n in ("f32", "onnxruntime"))
    said = f"  WRONG by {row['error'][0]:.2g} in {row['error'][1]:.2%}" if not row.get("right", True) else ""
    said += "".join(f"  {n} refuses: {why}" for n, why in row["refused"].items() if n != "plain" or "smelt" in row["refused"])
    return f"{numbers} {ratios}  {row['name'][:170]}{said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="*", choices=list(quantised_cases.FAMILIES), default=list(quantised_cases.FAMILIES))
    parser.add_argument("--count", type=int, default=10, help="cases of each family")
    parser.add_argument("--seed", type=int, default=1, help="of the first")
    parser.add_argument("--only", default="", help="a regular expression that a case's name has")
    parser.add_argument("--seconds", type=float, default=0.04)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tuning-level", type=int, default=1)
    parser.add_argument("--above", type=float, default=1.1)
    parser.add_argument("--no-times", action="store_true", help="results alone")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/smelt-quantised-graphs"))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    cases = {}
    for family in args.families:
        for seed in range(args.seed, args.seed + args.count):
            pair = quantised_cases.case(family, seed)
            cases[f"{family} {seed}: {' '.join(pair[0].said)}"] = pair
    cases = {n: c for n, c in cases.items() if re.search(args.only, n)}
    engines = Engines(args)
    how = f"{args.threads} threads, tuning level {args.tuning_level}"
    lines = [f"{shared.cpu_name()}, {how}, {shared.commit()}: {len(cases)} graphs, us",
             f"{'smelt':>9} {'f32':>9} {'ort':>9} {'/f32':>7} {'/ort':>7}  graph"]
    rows = []
    for i, (name, case) in enumerate(cases.items()):
        rows.append(measure(engines, name, case, not args.no_times))
        if sys.stderr.isatty():
            print(f"\r{i + 1} of {len(cases)}", end="", file=sys.stderr)
    for i, row in enumerate(rows):
        if worst(row) > args.above:
            rows[i] = min(row, measure(engines, row["name"], cases[row["name"]]), key=worst)
    engines.end()
    rows.sort(key=lambda r: -worst(r))
    shown = rows if not args.no_times else [r for r in rows if not r.get("right", True) or "smelt" in r["refused"]]
    lines.extend(text_of(r) for r in shown)
    for peer in ("f32", "onnxruntime"):
        if ratios := [r["over"][peer] for r in rows if peer in r.get("over", {})]:
            lines.append(f"smelt / {peer}: {len(ratios)} rows, geometric mean {np.exp(np.log(ratios).mean()):.3f}, "
                         f"{sum(r > args.above for r in ratios)} above {args.above}, largest {max(ratios):.2f}")
    refused = [r for r in rows if "smelt" in r["refused"] and "plain" not in r["refused"]]
    wrong = [r for r in rows if not r.get("right", True)]
    lines.append(f"smelt refuses {len(refused)}; {len(wrong)} are not right")
    print("\n".join(lines))
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")
        args.out.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    sys.exit(bool(refused or wrong))


if __name__ == "__main__":
    main()
