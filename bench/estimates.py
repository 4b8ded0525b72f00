#!/usr/bin/env python3
"""Estimates that hide the fastest kernel: which candidates each tuning level would measure, beside what all of them take.

usage: .venv/bin/python bench/estimates.py [MODEL.onnx...] [--cases REGEX...] [--random COUNT [--seed S]] [--smelt PROGRAM]
                                           [--folder F] [--within R]

Of every problem of the models, of the operator cases (operator_cases*.py) whose name has one of REGEX in it, and of COUNT random
cases: the estimates of its candidates (tuning level 0), and their times, measured at level 3 on one thread. A line is a problem
- whose fastest candidate level 1 (the two lowest estimates) would not measure, nor another one within --within (1.1) of its time;
- or level 2 (estimates of at most 10 times the lowest) would not;
- or of which level 0 takes a candidate that is more than 2 times slower.
The plain loops ("reference") are left out. Exit status 1 where a line says level 2 or level 0.
"""

import argparse
import collections
import itertools
import json
import pathlib
import re
import subprocess
import sys

import onnx
import operator_cases_random
import operators
import shared

LIKELY, FEW = 10, 2  # as Tuner::worth_measuring
ESTIMATES = re.compile(r"estimated at ([\d.]+) µs, the chosen one at ([\d.]+) µs")
Candidate = collections.namedtuple("Candidate", "tactic estimate us")


def rows(smelt, model, level, folder):
    command = [
        smelt,
        "explain",
        model,
        "--kernels",
        "--json",
        "--threads",
        "1",
        "--tactics",
        "-reference",
        "--tuning-level",
        str(level),
        "--cache-dir",
        folder,
    ]
    found = subprocess.run(command, capture_output=True, text=True)
    return json.loads(found.stdout)["tactics"] if found.returncode == 0 else []


def estimates(rows):
    """{problem: {tactic: estimated µs}}"""
    found, chosen = collections.defaultdict(dict), {}
    for r in rows:
        if r["result"] == "runs":
            chosen[r["problem"]] = r["tactic"]
        elif match := ESTIMATES.search(r["reason"]):
            found[r["problem"]][r["tactic"]] = float(match[1])
            found[r["problem"]][None] = float(match[2])
    for problem, all_of in found.items():
        all_of[chosen.get(problem)] = all_of.pop(None)
    return found


def problems(smelt, model, folder):
    """(problem, its candidates by their estimates)"""
    guessed = estimates(rows(smelt, model, 0, folder))
    measured = collections.defaultdict(dict)
    for r in rows(smelt, model, 3, folder) if guessed else ():
        if r["us"]:
            measured[r["problem"]][r["tactic"]] = r["us"]
    for problem, all_of in guessed.items():
        both = [Candidate(t, e, measured[problem][t]) for t, e in all_of.items() if t in measured[problem]]
        if len(both) > 1:
            yield problem, sorted(both, key=lambda c: c.estimate)


def hidden(candidates, within):
    """What levels hide, as words; how much slower level 0's choice is."""
    best = min(c.us for c in candidates)
    lowest = candidates[0].estimate
    levels = {"level 1": candidates[:FEW], "level 2": [c for c in candidates if c.estimate <= LIKELY * lowest]}
    words = [name for name, seen in levels.items() if min(c.us for c in seen) > within * best]
    if candidates[0].us > 2 * best:
        words.append("level 0")
    return words, candidates[0].us / best


def models(args):
    yield from args.models
    cases = [c for f in operators.FAMILIES.values() for c in f() if any(re.search(r, c.name) for r in args.cases)]
    for c in itertools.chain(cases, operator_cases_random.random_cases(args.random, args.seed)):
        path = args.folder / "case.onnx"
        onnx.save(c.model(), path)
        yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--cases", nargs="*", default=[], metavar="REGEX")
    parser.add_argument("--random", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smelt", type=pathlib.Path, default=shared.ROOT / "build" / "smelt")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/smelt-estimates"))
    parser.add_argument("--within", type=float, default=1.1)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{shared.cpu_name()}, 1 thread, {shared.commit()}\n"
        f"  slower at level 0 by, hidden at, problem: each candidate's µs (estimate), the lowest estimate first"
    )
    seen, lines, missed = set(), 0, False
    for model in models(args):
        for problem, candidates in problems(args.smelt, model, args.folder):
            if problem in seen:
                continue
            seen.add(problem)
            words, slower = hidden(candidates, args.within)
            missed |= bool(set(words) - {"level 1"})
            if words:
                each = ", ".join(f"{c.tactic} {c.us:.0f} ({c.estimate:.0f})" for c in candidates)
                print(f"{slower:6.2f}  {' '.join(words):24}  {problem[:90]}: {each}", flush=True)
                lines += 1
    print(f"{lines} of {len(seen)} problems of several candidates")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
