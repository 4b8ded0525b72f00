"""Advice of `smelt profile` against what following it wins.

usage: python bench/advice.py MODEL … [--device gpu] [--build DIR] [--tuning-level L] [--fill [FOLDER]] [--cache-dir DIR]
                              [--only BASE[,BASE]] [--profiles FOLDER] [--out FILE]

Each model is profiled with --try from several bases. Each piece of advice that promises something ("at most" bounds and promises
nothing) and that an option follows is followed by it, in turn with the base:

  exported   the model as it stands: --optimized
  optimised  as smelt rewrites it: --precision
  estimated  the same at tuning level 0: --tuning-level
  one        the same on one thread of a processor: --threads

On a GPU, inputs and outputs are also kept there, in turn with runs from and to the host's memory. A row has the base's run, what
the advice said that it saves and what following it saved, as shares of that run, and the first over the second. The last lines
say of each architecture (what a model's name begins with) how many pieces there were, and what its profiles promise that was
not followed.

MODEL is a file, or the name of an architecture of examples/models, of which the f32 graph is profiled optimised, and the one in
16 bits exported and estimated. --fill makes weights and inputs of graphs that have none (examples/models/fill.py), in FOLDER
where they stay. The machine's ceilings are measured first, unless the cache folder has them.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

BASES = {"exported": [], "optimised": ["--optimized"], "estimated": ["--optimized", "--tuning-level", 0],
         "one": ["--optimized", "--threads", 1]}
MODELS = pathlib.Path(__file__).parent.parent / "examples" / "models"
NEAR = 0.3      # of what was saved, by which a promise may be off
MOST = 5        # pieces of a profile
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

    def words(self, path, base):
        inputs = path.with_suffix(".inputs.npz")
        words = [path, *(["--inputs", inputs] if inputs.exists() else []), *BASES[base]]
        if "--tuning-level" not in words:
            words += ["--tuning-level", self.args.tuning_level]
        return words + (["--counters", "none"] if self.args.device != "cpu" else [])

    def profile(self, path, base):
        said = self("profile", *self.words(path, base), "--try", "--json")
        if self.args.profiles:
            self.args.profiles.mkdir(parents=True, exist_ok=True)
            (self.args.profiles / f"{path.stem}-{base}.json").write_text(said)
        return json.loads(said)["after"]


def pieces(profile, path, base, left):
    """(piece, microseconds of a run, promised, saved) of the first promises; what was not followed goes into `left`."""
    for a in [a for a in profile["advice"] if a["from"] != "roof"][:MOST]:
        copies = a["what"].startswith("keep inputs and outputs on the GPU")
        run = (profile["host_latency_us"] if copies else profile["latency_us"])["median"]
        if a["tried_us"] is None:
            left.append(f"{path.stem} {base}: {a['us'] / run:.1%} by \"{a['what']}\" ({a['from']})")
        elif not copies or base == "optimised":
            yield "inputs on the GPU" if copies else a["option"], run, a["us"], a["tried_us"]


def within(promised, saved, run):
    return abs(promised - saved) <= max(NEAR * abs(saved), NOISE * run)


def subjects(models, only):
    """(file, bases) of files, and of architectures by name."""
    for m in models:
        if m.suffix == ".onnx":
            yield m, only
            continue
        half = [f for t in ("fp16", "bf16") if (f := MODELS / f"{m}.{t}.onnx").exists()]
        for path, bases in ((MODELS / f"{m}.fp32.onnx", ("optimised", "one")), (half[0], ("exported", "estimated"))):
            yield path, [b for b in only if b in bases]


def fill(path, folder):
    """The model with weights and inputs; what is there is taken."""
    filled = folder / path.name
    if not filled.with_suffix(".inputs.npz").exists():
        subprocess.run([sys.executable, MODELS / "fill.py", path, folder], check=True, capture_output=True)
    return filled


def measure_ceilings(smelt, args, bases):
    if args.device != "cpu":
        if not list(pathlib.Path(args.cache_dir).glob("ceilings-gpu-*.json")):
            smelt("devices", "--measure", "--seconds", 2)
        return
    for threads in {0, *([1] if "one" in bases else [])}:
        if not list(pathlib.Path(args.cache_dir).glob(f"ceilings-*-{threads or '[!1]*'}.json")):
            smelt("devices", "--measure", "--threads", threads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", default="build")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fill", nargs="?", const=tempfile.gettempdir(), type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--only", default=",".join(BASES), help="of the bases")
    parser.add_argument("--profiles", type=pathlib.Path, help="a folder for the profiles, as JSON")
    parser.add_argument("--tuning-level", type=int, default=1)
    parser.add_argument("--cache-dir", default=tempfile.mkdtemp(prefix="smelt-advice-"))
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    args = parser.parse_args()
    smelt = Smelt(args)
    only = [b for b in args.only.split(",") if b != "one" or args.device == "cpu"]
    measure_ceilings(smelt, args, only)
    rows, counts, left = [], collections.Counter(), []
    print(f"{'model':26} {'base':10} {'piece':20} {'run':>10} {'promised':>9} {'saved':>7} {'ratio':>6}", file=args.out)
    asked = list(subjects(args.models, only))
    if args.fill:  # all of them first: beside it, copies of the host's memory took half as long again
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [(made.result(), bases) for made, bases in
                     [(pool.submit(fill, path, args.fill), bases) for path, bases in asked]]
    for path, bases in asked:
        for base in bases:
            try:
                found = list(pieces(smelt.profile(path, base), path, base, left))
            except RuntimeError as e:
                print(f"{path.stem:26} {base:10} failed: {e}", file=args.out, flush=True)
                continue
            for piece, run, promised, saved in found:
                rows.append((promised, saved, run))
                counts[path.stem.split(".")[0]] += 1
                near = "" if within(promised, saved, run) else "  !"
                print(f"{path.stem:26} {base:10} {piece:20} {run / 1e3:7.3f} ms {promised / run:9.1%} {saved / run:7.1%} "
                      f"{promised / saved if saved else 0:6.2f}{near}", file=args.out, flush=True)
    if rows:
        near, ratio = sum(within(*r) for r in rows), statistics.median(p / s for p, s, _ in rows if s > 0)
        print(f"\n{near} of {len(rows)} are within {NEAR:.0%} of what was saved or {NOISE:.0%} of the run; median of ratios "
              f"{ratio:.2f}", file=args.out)
    print("pieces:", ", ".join(f"{name} {n}" for name, n in counts.items()), file=args.out)
    for line in left:
        print("promised, not followed:", line, file=args.out)


if __name__ == "__main__":
    main()
