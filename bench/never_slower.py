"""Is smelt ever slower? Packages' models, all graphs, graphs in 8 and 16 bits: over unfused and over ONNX Runtime, in one table.

usage: PYTHONPATH=build/python .venv/bin/python bench/never_slower.py --out FILE [--groups GROUP...] [--models NAME...]
                     [--at-most-seconds S] [--again TIMES] [--rounds N] [--seconds S] [--threads N] [--tuning-level L]
                     [--folder F]

A GROUP is "packages" (packages.py), "fp32" or "halves" (graphs of examples/models), or "int8" (quantised_models.py's graphs in
int8_models.py's forms); without any: all. Only those NAMEs of them, where given. Engines, batches and columns are
user_models.py's: each engine a process of its own, in turn, with pauses.

FILE.json beside FILE gets each row once it is measured, and a later call goes on behind them: with --at-most-seconds a long list
is measured in pieces. A row that is beyond a limit is measured up to TIMES (3) times, and the least of each engine's batches
stays: other work only adds. The limits: 1.02 times as long as unfused; ONNX Runtime's time in each group's geometric mean, and
1.1 times it on each model. Ends with each group's means and the rows beyond a limit: then the exit status is 1.
"""
import argparse
import json
import math
import sys
import time

import numpy as np
import packages
import quantised_models
import shared
import user_models

GROUPS = ("packages", "fp32", "halves", "int8")
LIMITS = {"unfused": 1.02, "onnxruntime": 1.1}


def names(group):
    graphs = sorted(p.stem for p in shared.MODELS.glob("*.onnx"))
    if group == "packages":
        return list(packages.MODELS)
    if group == "int8":
        return [f"{g}+{form}" for g in quantised_models.GRAPHS for form in quantised_models.FORMS]
    return [g for g in graphs if g.endswith(".fp32") == (group == "fp32")]


def path_of(name, folder):
    source, _, form = name.partition("+")
    path = user_models.filled(source, folder)
    return quantised_models.made(path, form, folder) if form else path


def ratios(row):
    return {peer: row["ms"]["smelt"] / row["ms"][peer] for peer in LIMITS if peer in row["ms"]}


def beyond(row):
    return {peer: r for peer, r in ratios(row).items() if r > LIMITS[peer]}


def most_error(row):
    """Bytes that round another way move a result as far as ONNX Runtime's own optimisations do, or operators one by one."""
    return max(0.05, 2 * max(row["errors"].get(e, 0) for e in ("onnxruntime", "unfused")))


def joined(row, again):
    """The row of both measurements."""
    for engine, batches in again["batches_ms"].items():
        row["batches_ms"].setdefault(engine, []).extend(batches)
        row["ms"][engine] = min(row["batches_ms"][engine])
    row["times"] = row.get("times", 1) + 1
    return row


def measured(name, args, known):
    if known is None or "error" in known:
        known = user_models.measure(path_of(name, args.folder), args)
    while beyond(known) and known.get("times", 1) < args.again:
        known = joined(known, user_models.measure(path_of(name, args.folder), args))
    return known


def summary(rows):
    lines, bad = [], []
    for group in GROUPS:
        mine = {n: r for n, r in rows.get(group, {}).items() if "ms" in r}
        for peer, most in LIMITS.items():
            found = [ratios(r)[peer] for r in mine.values() if peer in ratios(r)]
            if not found:
                continue
            mean = math.exp(np.mean(np.log(found)))
            lines.append(f"{group:9} smelt / {peer:11} geometric mean {mean:.3f}, largest {max(found):.3f}, {len(found)} models")
            if peer == "onnxruntime" and mean > 1:
                bad.append(f"{group}: {mean:.3f} of {peer} in the mean")
            bad += [f"{n}: {ratios(r)[peer]:.3f} of {peer}" for n, r in mine.items() if ratios(r).get(peer, 0) > most]
        bad += [f"{n}: {r['error']}" for n, r in rows.get(group, {}).items() if "error" in r]
        bad += [f"{n}: error {r['errors']['smelt']:.1e}" for n, r in mine.items() if r["errors"]["smelt"] > most_error(r)]
    return [*lines, f"beyond a limit: {len(bad)}", *(f"  {b}" for b in bad)], bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=GROUPS)
    parser.add_argument("--models", nargs="+", help="only these")
    parser.add_argument("--at-most-seconds", type=float, default=math.inf)
    parser.add_argument("--again", type=int, default=3, metavar="TIMES")
    args = user_models.parsed(parser, rounds=3, seconds=0.3)
    args.engines = list(user_models.ENGINES)
    if not args.out:
        parser.error("--out is needed")
    kept = args.out.with_suffix(".json")
    rows = json.loads(kept.read_text()) if kept.exists() else {}
    begin, left = time.monotonic(), 0
    for group in args.groups:
        for name in names(group):
            if args.models and name not in args.models:
                continue
            known = rows.setdefault(group, {}).get(name)
            if known and "ms" in known and (not beyond(known) or known.get("times", 1) >= args.again):
                continue
            if time.monotonic() - begin > args.at_most_seconds:
                left += 1
                continue
            try:
                rows[group][name] = measured(name, args, known)
                print(user_models.text_of(name, rows[group][name]), flush=True)
            except Exception as e:  # of the quantizer, which takes not every model, and of the filler
                rows[group][name] = {"error": f"{type(e).__name__}: {str(e)[:120]}"}
                print(f"{name:26} {rows[group][name]['error']}", flush=True)
            kept.write_text(json.dumps(rows, indent=1) + "\n")
    lines = [f"{shared.cpu_name()}, {args.threads} threads, tuning level {args.tuning_level}, commit {shared.commit()}"]
    for group in GROUPS:
        lines += [user_models.text_of(n, r) if "ms" in r else f"{n:26} {r['error']}" for n, r in rows.get(group, {}).items()]
    said, bad = summary(rows)
    lines += said + ([f"{left} models are not measured yet"] if left else [])
    print("\n".join(lines[-len(said) - bool(left):]))
    args.out.write_text("\n".join(lines) + "\n")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
