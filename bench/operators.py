"""Every operator on the CPU, one to a model: smelt beside ONNX Runtime, the slowest rows first.

usage: PYTHONPATH=build/python .venv/bin/python bench/operators.py [REGEX...] [--families NAME...] [--seconds S] [--rounds N]
                     [--threads N] [--cpu-time] [--tuning-level L] [--folder F] [--above R]
                     [--by-operator] [--random|--models|--odd|--graphs COUNT] [--seed S] [--out FILE]

A net for classes of operators, types and axes that fall behind, not a measure of models: a row is one operator of
operator_cases*.py whose name has one of REGEX in it. Each engine is a process of its own; they take turns, with pauses, so that
no engine is timed while another one's threads still spin. A row gives the least of the batches' medians in microseconds and the
ratio. Rows above --above (1.2) are measured again at the end, and the lower ratio of the two stands. What smelt alone refuses is
said. --cpu-time: a batch's figure is the least time that a run took of the processor, which repeats beside other work; only with
one thread. --by-operator: a second table, of each operator's slowest row, with the picoseconds that an element of its largest
tensor takes. --random: so many cases of extents that a seed draws, instead of the families; --models: of operators and sizes that
newer and optimised models hold, with random attributes; --odd: in forms that both leave out; --graphs: of fragments of models,
several operators each. Exit status 1 where it refuses what ONNX Runtime runs, or results
differ by more than 2 % of the largest value.
"""
import argparse
import itertools
import json
import math
import pathlib
import re
import sys

import numpy as np
import onnx
import operator_cases
import operator_cases_chains
import operator_cases_graphs
import operator_cases_models
import operator_cases_moving
import operator_cases_odd
import operator_cases_products
import operator_cases_random
import operator_cases_seeds
import operator_cases_sequences
import operator_cases_shapes
import operator_cases_types
import operator_cases_wide
import shared
from user_models import error

FAMILIES = {f.__name__: f for f in (*operator_cases.FAMILIES, *operator_cases_chains.FAMILIES,
                                     *operator_cases_moving.FAMILIES, *operator_cases_products.FAMILIES,
                                     *operator_cases_sequences.FAMILIES, *operator_cases_wide.FAMILIES,
                                     *operator_cases_seeds.FAMILIES, *operator_cases_shapes.FAMILIES,
                                     *operator_cases_types.FAMILIES)}
# Cases that a seed draws.
DRAWS = {"random": operator_cases_random.random_cases, "models": operator_cases_models.model_cases,
         "odd": operator_cases_odd.odd_cases, "graphs": operator_cases_graphs.graph_cases}

# Reads {"model", "feeds", "results"}, or {"seconds"} for a batch of the model it read last.
WORKER = """
import json, sys, time
import numpy as np
engine, threads, level, cache, clock = sys.argv[1:]
clock = getattr(time, clock)
if engine == "onnxruntime":
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
else:
    import smelt
def load(model):
    if engine == "onnxruntime":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(threads)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return smelt.Session(model, threads=int(threads), tuning_level=int(level), cache_dir=cache)
def batch(seconds):
    time.sleep(0.03)
    session.run(None, feeds)
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times) < 3:
        start = clock()
        session.run(None, feeds)
        times.append(clock() - start)
    if clock is time.perf_counter:
        return float(np.median(times)) * 1e6
    return min([t for t in times if t > 0] or [1e-9]) * 1e6  # a virtual machine's clock of the process may stand still
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    try:
        if "seconds" in asked:
            answer = batch(asked["seconds"])
        else:
            feeds = dict(np.load(asked["feeds"]))
            session = load(asked["model"])
            results = session.run(None, feeds)
            np.savez(asked["results"], *results)
            answer = {"elements": int(max(np.size(t) for t in [*feeds.values(), *results]))}
    except Exception as e:
        answer = {"refused": str(e).strip().splitlines()[-1][:160] if str(e).strip() else type(e).__name__}
    print(json.dumps(answer), flush=True)
"""


class Engines:
    def __init__(self, args):
        self.args = args
        self.workers = {name: self.start(name) for name in ("smelt", "onnxruntime")}

    def start(self, name):
        return shared.Worker(name, WORKER, [name, self.args.threads, self.args.tuning_level, self.args.folder / "cache",
                                            "process_time" if self.args.cpu_time else "perf_counter"])

    def ask(self, name, question):
        """The engine's answer; where its process ends, that is the refusal, and another one begins."""
        try:
            return self.workers[name].ask(question)
        except (RuntimeError, BrokenPipeError) as e:
            self.workers[name] = self.start(name)
            return {"refused": f"its process ended: {e}"}

    def load(self, case):
        """{engine: why it refuses the case}, how far their results are apart, and the elements of the largest tensor."""
        folder = self.args.folder
        onnx.save(case.model(), folder / "case.onnx")
        np.savez(folder / "case.npz", **case.feeds())
        refused = {}
        for name in self.workers:
            answer = self.ask(name, {"model": str(folder / "case.onnx"), "feeds": str(folder / "case.npz"),
                                     "results": str(folder / f"{name}.npz")})
            if "refused" in answer:
                refused[name] = answer["refused"]
        if refused:
            return refused, math.nan, 0
        found, expected = (list(np.load(folder / f"{name}.npz").values()) for name in self.workers)
        numbers = [(f, e) for f, e in itertools.zip_longest(found, expected) if e is None or e.dtype.kind in "fiub"]
        return {}, error([f for f, _ in numbers], [e for _, e in numbers]), answer["elements"]

    def times(self):
        """Microseconds of each engine."""
        best = dict.fromkeys(self.workers, math.inf)
        order = list(self.workers)
        for _ in range(self.args.rounds):
            for name in order:
                answer = self.ask(name, {"seconds": self.args.seconds})
                best[name] = min(best[name], math.inf if isinstance(answer, dict) else answer)
            order.reverse()
        return best

    def end(self):
        for worker in self.workers.values():
            worker.end()


# Each engine's own results: random numbers, and an order that is nobody's.
RANDOM = ("RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout", "Unique")


def own_results(case):
    return case.op in RANDOM or (case.op == "TopK" and not case.attributes.get("sorted", 1))



def measure(engines, case):
    refused, apart, elements = engines.load(case)
    row = {"name": case.name, "op": f"{case.domain}::{case.op}".removeprefix("::"), "elements": elements, "refused": refused,
           "error": None if math.isnan(apart) or own_results(case) else apart}
    if not refused:
        row["us"] = engines.times()
        row["ratio"] = row["us"]["smelt"] / row["us"]["onnxruntime"]
    return row


def text_of(row):
    if row["refused"]:
        return f"{'':31}{row['name'][:110]}: " + "; ".join(f"{k} refuses: {v}" for k, v in row["refused"].items())
    us = row["us"]
    wrong = f"  ERROR {row['error']:.1e}" if row["error"] and row["error"] > 0.02 else ""
    return f"{us['smelt']:10.1f} {us['onnxruntime']:10.1f} {row['ratio']:8.3f}  {row['name'][:150]}{wrong}"


def by_operator(rows):
    """Of each operator its slowest row, the slowest first."""
    worst = {}
    for row in rows:
        if row["op"] not in worst or row["ratio"] > worst[row["op"]]["ratio"]:
            worst[row["op"]] = row
    lines = []
    for r in sorted(worst.values(), key=lambda r: -r["ratio"]):
        each = (r["us"][engine] * 1e6 / r["elements"] for engine in ("smelt", "onnxruntime"))
        lines.append(f"{r['ratio']:8.3f} {next(each):10.0f} {next(each):10.0f}  {r['name'][:120]}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regex", nargs="*")
    parser.add_argument("--families", nargs="*", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--seconds", type=float, default=0.06)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="time the processor's time; with --threads 1")
    parser.add_argument("--by-operator", action="store_true")
    drawn = parser.add_mutually_exclusive_group()
    for name in DRAWS:
        drawn.add_argument(f"--{name}", type=int, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tuning-level", type=int, default=1)
    parser.add_argument("--above", type=float, default=1.2)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/smelt-operators"))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    if args.cpu_time and args.threads != 1:
        parser.error("--cpu-time needs --threads 1")
    args.folder.mkdir(parents=True, exist_ok=True)
    cases = next((list(draw(count, args.seed)) for name, draw in DRAWS.items() if (count := getattr(args, name))),
                 None) or [c for f in args.families for c in FAMILIES[f]()]
    cases = [c for c in cases if not args.regex or any(re.search(r, c.name) for r in args.regex)]
    engines = Engines(args)
    print(f"{shared.cpu_name()}, {args.threads} threads, {shared.commit()}: {len(cases)} cases, microseconds\n"
          f"{'smelt':>10} {'ort':>10} {'ratio':>8}  case")
    rows = []
    for i, case in enumerate(cases):
        rows.append(measure(engines, case))
        if sys.stderr.isatty():
            print(f"\r{i + 1} of {len(cases)}", end="", file=sys.stderr)
    for i, row in enumerate(rows):
        if not row["refused"] and row["ratio"] > args.above:
            again = measure(engines, cases[i])
            rows[i] = min(row, again, key=lambda r: r.get("ratio", math.inf))
    engines.end()
    timed = sorted((r for r in rows if not r["refused"]), key=lambda r: -r["ratio"])
    refused = [r for r in rows if set(r["refused"]) == {"smelt"}]
    for row in timed + refused:
        print(text_of(row))
    if args.by_operator:
        print("\n".join([f"{'ratio':>8} {'ps smelt':>10} {'ps ort':>10}  each operator's slowest row", *by_operator(timed)]))
    print(f"ONNX Runtime refuses {len(rows) - len(timed) - len(refused)}, smelt {len(refused)} of the rest")
    if timed:
        ratios = np.array([r["ratio"] for r in timed])
        print(f"{len(timed)} rows: geometric mean {np.exp(np.log(ratios).mean()):.3f}, {np.mean(ratios > 1.1):.1%} above 1.1, "
              f"largest {ratios.max():.2f}")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1))
    sys.exit(1 if refused or any((r["error"] or 0) > 0.02 for r in timed) else 0)


if __name__ == "__main__":
    main()
