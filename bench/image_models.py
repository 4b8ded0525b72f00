"""Small graphs of what surrounds convolutions (means, shuffles, rows of pixels, first layers) on the CPU, beside ONNX Runtime.

usage: .venv/bin/python bench/image_models.py AFTER [--before BUILD] [--models NAME...] [--rounds N] [--seconds S] [--level L]
                     [--folder F]

AFTER and BUILD are build folders with the Python module in them. Each engine is a process of its own with one thread, and they
take turns. A figure is the least time of the processor that a run took, in milliseconds, so that a neighbour counts little.
"""
import argparse
import os
import pathlib
import sys

import numpy as np
import onnx
import shared
from onnx import TensorProto, helper, numpy_helper

WORKER = """
import json, sys, time
import numpy as np
engine, model, level, results = sys.argv[1:]
feeds = dict(np.load(model.replace(".onnx", ".inputs.npz")))
if engine == "onnxruntime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
else:
    import smelt
    session = smelt.Session(model, threads=1, tuning_level=int(level))
np.savez(results, *session.run(None, feeds))
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < float(line):
        start = time.thread_time()
        session.run(None, feeds)
        best = min(best, time.thread_time() - start)
    print(json.dumps(best), flush=True)
"""


class Model:
    """A graph of one image x, made node by node; `at` is what the last node made, `channels` how many it has."""

    def __init__(self, *shape):
        self.shape, self.channels, self.at = shape, shape[1], "x"
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(0)

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape):
        return self.constant((self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))

    def op(self, op, *more, inputs=None, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, [*([self.at] if inputs is None else inputs), *more], names, **attributes))
        self.at = names[0]
        return names if outputs > 1 else names[0]

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def conv(self, to, window=1, stride=1, group=1):
        pad = window // 2
        self.op("Conv", self.weights(to, self.channels // group, window, window), self.weights(to), pads=[pad] * 4,
                kernel_shape=[window] * 2, strides=[stride] * 2, group=group)
        self.channels = to
        return self.op("Relu")

    def reshape(self, *shape):
        return self.op("Reshape", self.ints(*shape))

    def mean(self, *axes, keepdims=0):
        return self.op("ReduceMean", self.ints(*axes), keepdims=keepdims)

    def save(self, path):
        feeds = {"x": np.random.default_rng(1).standard_normal(self.shape).astype(np.float32)}
        graph = helper.make_graph(self.nodes, path.stem, [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_empty_tensor_value_info(self.at)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        np.savez(path.with_suffix(".inputs.npz"), **feeds)


def mean():
    m = Model(1, 3, 224, 224)
    m.conv(64, 3, 2), m.conv(64, 3), m.conv(256), m.mean(2, 3)
    return m


def squeeze():
    m = Model(1, 3, 224, 224)
    m.conv(64, 3, 2)
    for _ in range(3):
        inside = m.conv(64, 3, group=64)
        m.mean(2, 3)
        m.op("Gemm", m.weights(64, 64), m.weights(64)), m.op("Sigmoid"), m.reshape(1, 64, 1, 1)
        m.op("Mul", inside)
    m.mean(2, 3)
    return m


def shuffle(images=1):
    m = Model(images, 3, 224, 224)
    m.conv(24, 3, 2), m.op("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), m.conv(116)
    for _ in range(4):
        left, m.at = m.op("Split", outputs=2, axis=1, num_outputs=2)
        m.channels = 58
        m.conv(58), m.conv(58, 3, group=58), m.conv(58)
        m.op("Concat", inputs=[left, m.at], axis=1)
        m.reshape(images, 2, 58, 56, 56), m.op("Transpose", perm=[0, 2, 1, 3, 4]), m.reshape(images, 116, 56, 56)
        m.channels = 116
    m.mean(2, 3)
    return m


def tokens():
    m = Model(1, 3, 224, 224)
    m.conv(192, 8, 8)
    side = 29
    m.reshape(1, 192, side * side), m.op("Transpose", perm=[0, 2, 1])
    m.op("LayerNormalization", m.weights(192), m.weights(192)), m.op("MatMul", m.weights(192, 192))
    m.op("Transpose", perm=[0, 2, 1]), m.reshape(1, 192, side, side), m.conv(64)
    m.reshape(1, 64, side * side), m.op("Transpose", perm=[0, 2, 1])
    return m


def norms():
    m = Model(1, 3, 224, 224)
    m.conv(64, 3, 2)
    for _ in range(2):
        image = m.at
        m.op("Sub", inputs=[image, m.mean(1, keepdims=1)])
        m.conv(64)
    m.mean(2, 3)
    return m


def first(channels, to, window, stride, side):
    m = Model(1, channels, side, side)
    m.conv(to, window, stride), m.op("GlobalAveragePool")
    return m


MODELS = {"mean": mean, "squeeze": squeeze, "shuffle": shuffle, "shuffle_4": lambda: shuffle(4), "tokens": tokens, "norms": norms,
          "first_3_16": lambda: first(3, 16, 3, 2, 416), "first_3_32": lambda: first(3, 32, 3, 2, 224),
          "first_3_64": lambda: first(3, 64, 7, 2, 224), "first_1_16": lambda: first(1, 16, 5, 1, 256),
          "first_1_32": lambda: first(1, 32, 3, 1, 328)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--level", default="0")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/image_models"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    builds = {"before": args.before, "after": args.after, "onnxruntime": args.after}
    engines = [e for e in builds if builds[e]]
    print(f"{shared.cpu_name()}, 1 thread, tuning level {args.level}, commit {shared.commit()}")
    print(f"{'model':12}" + "".join(f"{e:>13}" for e in engines) + f"{'/before':>9}{'/ORT':>7}{'error':>9}")
    worst = 0.0
    for name in args.models:
        path = args.folder / f"{name}.onnx"
        MODELS[name]().save(path)
        workers = {}
        for e in engines:
            environment = {**os.environ, "PYTHONPATH": str(builds[e].resolve() / "python")}
            workers[e] = shared.Worker(e, WORKER, [e, path, args.level, args.folder / f"{e}.npz"], environment)
        best = {e: min(workers[e].ask(args.seconds) for _ in range(args.rounds)) * 1e3 for e in engines}
        for w in workers.values():
            w.end()
        want, got = (list(np.load(args.folder / f"{e}.npz").values()) for e in ("onnxruntime", "after"))
        error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, want, strict=True))
        worst = max(worst, error)
        before = f"{best['after'] / best['before']:9.3f}" if args.before else f"{'':9}"
        print(f"{name:12}" + "".join(f"{best[e]:13.3f}" for e in engines) + before +
              f"{best['after'] / best['onnxruntime']:7.3f}{error:9.1e}", flush=True)
    sys.exit(worst > 1e-3)


if __name__ == "__main__":
    main()
