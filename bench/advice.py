"""Advice of `smelt profile` against what following it wins.

usage: python bench/advice.py MODEL.onnx … [--device gpu] [--build DIR] [--tuning-level L] [--duration S] [--cache-dir DIR]
                              [--profiles FOLDER] [--out FILE]

Inputs are read from MODEL.inputs.npz where it lies beside the model. Pieces of advice that an option follows:

  rewrites   of a profile of the model as exported: run it as smelt rewrites it; measured by `smelt bench`
  threads    of a profile of the optimised plan on one thread: use all cores; measured by a profile with all, right after
  precision  of a profile of the optimised plan: --precision; measured by `smelt bench` against a plan in that type
  level      of the same: --tuning-level N; measured by `smelt bench` against a plan of that level
  copies     of the same, on a GPU: inputs and outputs that stay there; measured by the profile itself, as the time of runs from
             and to the host's memory less that of runs on the GPU

A row gives the run's time, what the advice said that it saves and what following it saved, both as shares of that run. The
machine's ceilings are measured first, unless the cache folder has them.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile


class Smelt:
    def __init__(self, args):
        self.path, self.level, self.cache = pathlib.Path(args.build) / "smelt", args.tuning_level, args.cache_dir
        self.duration, self.device, self.profiles = args.duration, args.device, args.profiles

    def __call__(self, verb, *args):
        command = [str(self.path), verb, *map(str, args), "--cache-dir", str(self.cache), "--device", self.device]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"smelt {verb}: {result.stderr.strip()}")
        return result.stdout

    def profile(self, model, *args):
        said = self("profile", *model, *args, "--tuning-level", self.level, "--iterations", 20, "--json")
        if self.profiles:
            self.profiles.mkdir(parents=True, exist_ok=True)
            words = [str(a).strip("-") for a in args]
            (self.profiles / ("-".join([pathlib.Path(model[0]).stem, *words]) + ".json")).write_text(said)
        return json.loads(said)["after"]

    def bench(self, model, *args):
        """The median latencies of both sides in microseconds: unfused or the other plan, and this model's."""
        said = self("bench", *model, *args, "--tuning-level", self.level, "--duration", self.duration, "--json")
        b = json.loads(said)["bench"]
        return 1e3 * b["before"]["ms"]["median"], 1e3 * b["after"]["ms"]["median"]


def piece(profile, text):
    """The first advice that says `text`; None where there is none."""
    return next((a for a in profile["advice"] if text in a["what"]), None)


def pieces(smelt, path, folder):
    """(kind, microseconds of a run, microseconds promised, microseconds saved), one for each piece that can be followed."""
    inputs = path.with_suffix(".inputs.npz")
    model = [path, *(["--inputs", inputs] if inputs.exists() else [])]
    exported = smelt.profile(model, "--counters", "none")
    if a := piece(exported, "smelt rewrites"):
        before, after = smelt.bench(model)
        yield "rewrites", before, a["us"], before - after
    optimised = smelt.profile(model, "--optimized")
    if a := piece(optimised, "keep inputs and outputs on the GPU"):
        host, there = optimised["host_latency_us"]["median"], optimised["latency_us"]["median"]
        yield "copies", host, a["us"], host - there
    for kind, option in (("precision", "--precision"), ("level", "--tuning-level")):
        if a := piece(optimised, option):
            value = re.search(option + r" (\w+)", a["what"])[1]
            plan = folder / "plan.onnx"
            level = ["--tuning-level", smelt.level] if kind == "precision" else []
            smelt("optimize", path, "-o", plan, "--copy-weights", option, value, *level)
            followed, now = smelt.bench(model, "--against", plan)
            yield kind, now, a["us"], now - followed
    if smelt.device != "cpu":
        return
    alone = smelt.profile(model, "--optimized", "--threads", 1)
    if a := piece(alone, "--threads"):
        one, all_cores = alone["latency_us"]["median"], smelt.profile(model, "--optimized")["latency_us"]["median"]
        yield "threads", one, a["us"], one - all_cores


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", default="build")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profiles", type=pathlib.Path, help="a folder for the profiles, as JSON")
    parser.add_argument("--tuning-level", type=int, default=1)
    parser.add_argument("--duration", type=float, default=2)
    parser.add_argument("--cache-dir", default=tempfile.mkdtemp(prefix="smelt-advice-"))
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    args = parser.parse_args()
    smelt = Smelt(args)
    if args.device != "cpu":
        smelt("devices", "--measure", "--seconds", 2)
    for threads in (0, 1) if args.device == "cpu" else ():
        if not list(pathlib.Path(args.cache_dir).glob(f"ceilings-*-{threads or '[!1]*'}.json")):
            smelt("devices", "--measure", "--threads", threads)
    print(f"{'model':32} {'advice':10} {'run':>10} {'promised':>9} {'saved':>7}", file=args.out)
    with tempfile.TemporaryDirectory() as folder:
        for path in args.models:
            for kind, run, promised, saved in pieces(smelt, path, pathlib.Path(folder)):
                print(f"{path.stem:32} {kind:10} {run / 1e3:7.2f} ms {promised / run:9.1%} {saved / run:7.1%}",
                      file=args.out, flush=True)


if __name__ == "__main__":
    main()
