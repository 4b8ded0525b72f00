"""Advice of `smelt profile` against what following it wins.

usage: python bench/advice.py MODEL.onnx … [--device gpu] [--build DIR] [--tuning-level L] [--fill] [--cache-dir DIR]
                              [--only BASE[,BASE]] [--profiles FOLDER] [--out FILE]

Each model is profiled with --try from several bases, and of the first five pieces of advice those that an option follows are
followed by it, in turn with the base:

  exported   the model as it stands: --optimized
  optimised  as smelt rewrites it: --precision
  estimated  the same at tuning level 0: --tuning-level
  one        the same on one thread of a processor: --threads

A row has the base's run, what the advice said that it saves and what following it saved, as shares of
that run, and the first over the second. --fill makes weights and inputs of graphs that have none (examples/models/fill.py).
The machine's ceilings are measured first, unless the cache folder has them.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

BASES = {"exported": [], "optimised": ["--optimized"], "estimated": ["--optimized", "--tuning-level", 0],
         "one": ["--optimized", "--threads", 1]}
FILL = pathlib.Path(__file__).parent.parent / "examples" / "models" / "fill.py"
NEAR = 0.3      # of what was saved, by which a promise may be off
NOISE = 0.01    # of a run: what is promised or saved below it is neither kept nor broken


class Smelt:
    def __init__(self, args):
        self.path, self.args = (pathlib.Path(args.build) / "smelt").resolve(), args

    def __call__(self, verb, *words):
        command = [str(self.path), verb, *map(str, words), "--cache-dir", str(self.args.cache_dir), "--device", self.args.device]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"smelt {verb}: {result.stderr.strip()}")
        return result.stdout

    def profile(self, path, base):
        inputs = path.with_suffix(".inputs.npz")
        words = [path, *(["--inputs", inputs] if inputs.exists() else []), *BASES[base]]
        if "--tuning-level" not in words:
            words += ["--tuning-level", self.args.tuning_level]
        counters = ["--counters", "none"] if self.args.device != "cpu" else []
        said = self("profile", *words, *counters, "--try", "--json")
        if self.args.profiles:
            self.args.profiles.mkdir(parents=True, exist_ok=True)
            (self.args.profiles / f"{path.stem}-{base}.json").write_text(said)
        return json.loads(said)["after"]


def pieces(profile):
    """(option, microseconds of a run, promised, saved) of the first five that were tried."""
    for a in profile["advice"][:5]:
        if a["tried_us"] is None:
            continue
        yield a["option"], profile["latency_us"]["median"], a["us"], a["tried_us"]


def within(promised, saved, run):
    return abs(promised - saved) <= max(NEAR * abs(saved), NOISE * run)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", default="build")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--only", default=",".join(BASES), help="of the bases")
    parser.add_argument("--profiles", type=pathlib.Path, help="a folder for the profiles, as JSON")
    parser.add_argument("--tuning-level", type=int, default=1)
    parser.add_argument("--cache-dir", default=tempfile.mkdtemp(prefix="smelt-advice-"))
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    args = parser.parse_args()
    smelt = Smelt(args)
    bases = [b for b in args.only.split(",") if b != "one" or args.device == "cpu"]
    if args.device == "cpu":
        for threads in {0, *([1] if "one" in bases else [])}:
            if not list(pathlib.Path(args.cache_dir).glob(f"ceilings-*-{threads or '[!1]*'}.json")):
                smelt("devices", "--measure", "--threads", threads)
    elif not list(pathlib.Path(args.cache_dir).glob("ceilings-gpu-*.json")):
        smelt("devices", "--measure", "--seconds", 2)
    rows = []
    print(f"{'model':26} {'base':10} {'option':20} {'run':>10} {'promised':>9} {'saved':>7} {'ratio':>6}", file=args.out)
    with tempfile.TemporaryDirectory() as folder:
        for path in args.models:
            if args.fill:
                subprocess.run([sys.executable, FILL, path, folder], check=True, capture_output=True)
                path = pathlib.Path(folder) / path.name
            for base in bases:
                for option, run, promised, saved in pieces(smelt.profile(path, base)):
                    rows.append((promised, saved, run))
                    near = "" if within(promised, saved, run) else "  !"
                    print(f"{path.stem:26} {base:10} {option:20} {run / 1e3:7.3f} ms {promised / run:9.1%} {saved / run:7.1%} "
                          f"{promised / saved if saved else 0:6.2f}{near}", file=args.out, flush=True)
            if args.fill:
                path.with_suffix(".data").unlink()
    near = sum(within(*r) for r in rows)
    if rows:
        ratio = statistics.median(p / s for p, s, _ in rows if s > 0)
        print(f"\n{near} of {len(rows)} are within {NEAR:.0%} of what was saved or {NOISE:.0%} of the run; median of ratios "
              f"{ratio:.2f}", file=args.out)


if __name__ == "__main__":
    main()
