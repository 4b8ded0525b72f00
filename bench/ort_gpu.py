"""ONNX Runtime over one filled model on GPU 0: its side of bench/gpu_models.py and bench/gpu_never_slower.py.

usage: python bench/ort_gpu.py MODEL.onnx [--device cpu] [--threads N] [--wait]
       (MODEL.inputs.npz beside it; needs onnxruntime-gpu, CUDA, cuDNN)

Inputs and outputs are bound on the device. "ort" is the CUDA provider with its default options, "ort_nhwc" with prefer_nhwc
where the graph has a Conv, "ort_graph" the faster of the two in CUDA graph mode, with the outputs bound to buffers of the shapes
that the first found. The median and interquartile range over samples of up to 20 runs that follow each other, waited for at the
end, by the host's clock: 30 samples, fewer where they would take more than 0.4 s. Prints a line of JSON as each figure is known.
--device cpu: the plain row on the CPU provider. --wait: prints {"ready": seconds} once all sessions ran, measures when a line
comes, and prints {"done": true} before it ends, which takes a while.
"""
import argparse
import importlib.util
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

RUNS, SAMPLES, SECONDS = 20, 30, 0.4
WAYS = {"ort": {}, "ort_nhwc": {"prefer_nhwc": "1"}}


def load_libraries():
    """CUDA and cuDNN of pip's packages, wherever they lie: the provider looks for them beside itself and in the loader's path."""
    spec = importlib.util.find_spec("nvidia")
    if spec and spec.submodule_search_locations:
        ort.preload_dlls(directory=str(pathlib.Path(next(iter(spec.submodule_search_locations))).parent))


def convolves(path):
    """Whether channels-last may differ."""
    return any(n.op_type == "Conv" for n in onnx.load(path, load_external_data=False).graph.node)


def is_half(path):
    """Whether any weight is of 16 bits. ONNX Runtime's use_tf32 = 0 is for float32 alone, whose products stay IEEE's: in 16 bits
    it costs time (bench/results/gpu-models-2026-11-22-1951.txt)."""
    weights = onnx.load(path, load_external_data=False).graph.initializer
    return any(t.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16) for t in weights)


def providers(path, device, more):
    if device == "cpu":
        return ["CPUExecutionProvider"]
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise RuntimeError(f"onnxruntime {ort.__version__} has no CUDA provider: {', '.join(ort.get_available_providers())}")
    return [("CUDAExecutionProvider", {"use_tf32": "1" if is_half(path) else "0"} | more)]


class Runner:
    """A session with bound inputs and outputs, run twice. `outputs`: shapes and types, where buffers are to be bound."""

    def __init__(self, path, feeds, device, more, threads, outputs=None):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        begin = time.perf_counter()
        self.session = ort.InferenceSession(path, options, providers=providers(path, device, more))
        if device != "cpu" and "CUDAExecutionProvider" not in self.session.get_providers():
            raise RuntimeError("the CUDA provider did not start: its libraries (CUDA, cuDNN) were not found")
        self.binding, self.held = self.session.io_binding(), []
        for i in self.session.get_inputs():
            self.held.append(ort.OrtValue.ortvalue_from_numpy(feeds[i.name], device, 0))
            self.binding.bind_ortvalue_input(i.name, self.held[-1])
        for o in self.session.get_outputs():
            if outputs is None:
                self.binding.bind_output(o.name, device, 0)
            else:
                self.held.append(ort.OrtValue.ortvalue_from_shape_and_type(*outputs[o.name], device, 0))
                self.binding.bind_ortvalue_output(o.name, self.held[-1])
        self.ahead = ort.RunOptions()
        self.ahead.add_run_config_entry("disable_synchronize_execution_providers", "1")   # a run is waited for once a sample
        self.sample(2)
        self.session_s = time.perf_counter() - begin

    def outputs(self):
        return {o.name: (v.shape(), v.element_type()) for o, v in zip(self.session.get_outputs(), self.binding.get_outputs())}

    def sample(self, runs):
        """Microseconds of a run, of so many that follow each other."""
        begin = time.perf_counter()
        for _ in range(runs):
            self.session.run_with_iobinding(self.binding, self.ahead)
        self.binding.synchronize_outputs()
        return (time.perf_counter() - begin) / runs * 1e6

    def row(self):
        runs = int(min(max(SECONDS * 1e6 / SAMPLES / self.sample(2), 1), RUNS))
        samples, end = [], time.perf_counter() + SECONDS
        self.sample(runs)
        while len(samples) < 5 or (len(samples) < SAMPLES and time.perf_counter() < end):
            samples.append(self.sample(runs))
        q1, median, q3 = statistics.quantiles(samples, n=4)
        return {"us": median, "iqr_us": q3 - q1, "session_s": self.session_s}


def failure(error):
    return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--wait", action="store_true")
    a = parser.parse_args()
    print(json.dumps({"versions": {"onnxruntime": ort.__version__}}), flush=True)
    if a.device == "cuda":
        load_libraries()
    feeds = dict(np.load(a.model.removesuffix(".onnx") + ".inputs.npz"))
    runners, rows, begin = {}, {}, time.perf_counter()

    def opened(peer, *options):
        try:
            runners[peer] = Runner(a.model, feeds, a.device, *options)
        except Exception as e:   # a peer's failure is a result
            rows[peer] = failure(e)

    for peer, more in WAYS.items() if a.device == "cuda" and convolves(a.model) else [("ort", {})]:
        opened(peer, more, a.threads)
    if a.device == "cuda":
        if runners:
            best = min(runners, key=lambda p: min(runners[p].sample(3) for _ in range(3)))
            opened("ort_graph", WAYS[best] | {"enable_cuda_graph": "1"}, a.threads, runners[best].outputs())
        else:
            rows["ort_graph"] = {"failed": "the outputs' shapes are not known: the plain runs failed"}
    if a.wait:
        print(json.dumps({"ready": time.perf_counter() - begin}), flush=True)
        sys.stdin.readline()
    for peer, runner in runners.items():
        try:
            rows[peer] = runner.row()
        except Exception as e:
            rows[peer] = failure(e)
        print(json.dumps({"peer": peer, **rows[peer]}), flush=True)
    for peer in rows.keys() - runners.keys():
        print(json.dumps({"peer": peer, **rows[peer]}), flush=True)
    if a.wait:
        print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
