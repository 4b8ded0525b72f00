"""Models together: what each loses beside another, against what was expected of it from each alone, and what the arrangement that
the command proposes makes of the first one's 99th percentile.

usage: python bench/contention.py A+B … [--device gpu] [--build DIR] [--fill [FOLDER]] [--remedies] [--options WORDS]
                                 [--profiles FOLDER] [--cache-dir DIR] [--out FILE]

A pair is `smelt profile A --with B`. A model is a file, or a name in examples/models (mobilenet_v3_large.fp16). --fill makes
weights and inputs of graphs that have none (examples/models/fill.py), in FOLDER where they stay. --remedies measures
arrangements too. --options are more words of smelt profile's, in one: --options="--tactics=-cudnn --seconds 1". The last lines
say how many rows are within 20%, and for how many pairs the first's 99th percentile falls by a quarter.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from advice import fill

MODELS = pathlib.Path(__file__).parent.parent / "examples" / "models"
NEAR = 0.2  # of the slow-down, by which what was expected may be off
CUT = 0.25  # of the 99th percentile, that an arrangement is to take away


def path_of(name, folder):
    path = pathlib.Path(name) if name.endswith(".onnx") else MODELS / f"{name}.onnx"
    return fill(path, folder) if folder else path


def together(args, pair):
    first, second = (path_of(name, args.fill) for name in pair.split("+"))
    words = [first, "--with", second, "--device", args.device, "--tuning-level", 0, "--json", *args.options.split()]
    if not args.remedies:
        words.append("--no-remedies")
    if args.cache_dir:
        words += ["--cache-dir", args.cache_dir]
    result = subprocess.run([pathlib.Path(args.build) / "smelt", "profile", *map(str, words)], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr.strip())
    if args.profiles:
        args.profiles.mkdir(parents=True, exist_ok=True)
        (args.profiles / f"{pair.replace('/', '_')}.json").write_text(result.stdout)
    return json.loads(result.stdout)


def show_models(said, out):
    """Rows within NEAR, and all of them."""
    near, rows = 0, said["contention"]
    for i, r in enumerate(rows):
        off = r["predicted"] / r["slower"] - 1
        near += abs(off) <= NEAR
        name = f"{r['model']} beside {rows[1 - i]['model']}"
        print(f"{name:52} {r['alone_us']:8.0f} {r['alone_p99_us']:8.0f} {r['together_us']:8.0f} {r['together_p99_us']:8.0f} "
              f"{r['slower']:6.2f} {r['predicted']:8.2f} {off:+5.0%}{' ' if abs(off) <= NEAR else '!'} {r['cores_us']:9.0f} "
              f"{r['memory_us']:9.0f} {r.get('l2_us') or 0:6.0f} {r['queueing_us']:8.0f}", file=out, flush=True)
    return near, len(rows)


def show_remedies(said, pair, out):
    """Whether what it proposes cuts the first's 99th percentile by CUT."""
    rows = said["remedies"]
    print(f"\n{pair:42} {'its p99':>8} {'change':>7} {'others/s':>9}", file=out)
    for r in rows:
        mark = "  <- proposed" if r["arrangement"] == said["chosen"] else ""
        print(f"  {r['arrangement']:40} {r['p99_us']:8.0f} {r['change']:+7.0%} {r['others_per_s']:9.0f}{mark}", file=out)
    print(file=out, flush=True)
    proposed = next((r for r in rows if r["arrangement"] == said["chosen"]), rows[0])
    return proposed["p99_us"] <= (1 - CUT) * rows[0]["p99_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", metavar="A+B")
    parser.add_argument("--build", default="build")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fill", nargs="?", const=tempfile.gettempdir(), type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--remedies", action="store_true")
    parser.add_argument("--options", default="")
    parser.add_argument("--profiles", type=pathlib.Path, help="a folder for what smelt printed, as JSON")
    parser.add_argument("--cache-dir")
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    args = parser.parse_args()
    print(f"{'':52} {'alone us':>8} {'p99':>8} {'together':>8} {'p99':>8} {'times':>6} {'expected':>8} {'off':>5}  "
          f"{'SM, cores':>9} {'bandwidth':>9} {'L2':>6} {'queueing':>8}", file=args.out)
    near = rows = cut = done = 0
    for pair in args.pairs:
        try:
            said = together(args, pair)
        except RuntimeError as e:
            print(f"{pair}: {e}", file=args.out, flush=True)
            continue
        found, of = show_models(said, args.out)
        near, rows, done = near + found, rows + of, done + 1
        if args.remedies:
            cut += show_remedies(said, pair, args.out)
    print(f"{near} of {rows} are within {NEAR:.0%}", file=args.out)
    if args.remedies:
        print(f"for {cut} of {done} pairs what is proposed cuts the first's 99th percentile by {CUT:.0%} or more", file=args.out)


if __name__ == "__main__":
    main()
