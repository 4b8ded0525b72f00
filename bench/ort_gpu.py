"""ONNX Runtime over one filled model on GPU 0: its side of bench/gpu_models.py.

usage: python bench/ort_gpu.py MODEL.onnx [--device cpu]     (MODEL.inputs.npz beside it; needs onnxruntime-gpu, CUDA, cuDNN)

Inputs and outputs are bound on the device. "ort" is the CUDA provider, "ort_graph" the same in its CUDA graph mode, with the
outputs bound to buffers of the shapes that the first found. The median and interquartile range over samples of 20 runs that
follow each other, waited for at the end, by the host's clock. Prints one line of JSON as each figure is known.
--device cpu: the plain row on the CPU provider.
"""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

RUNS, SAMPLES = 20, 30
CUDA = {"cudnn_conv_algo_search": "EXHAUSTIVE", "prefer_nhwc": "1"}


def is_half(path):
    """Whether any weight is of 16 bits. ONNX Runtime's use_tf32 = 0 is for float32 alone, whose products stay IEEE's: in 16 bits
    it costs time (bench/results/gpu-models-2026-11-22-1951.txt)."""
    weights = onnx.load(path, load_external_data=False).graph.initializer
    return any(t.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16) for t in weights)


def providers(path, device, graph):
    if device == "cpu":
        return ["CPUExecutionProvider"]
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise RuntimeError(f"onnxruntime {ort.__version__} has no CUDA provider: {', '.join(ort.get_available_providers())}")
    options = {"enable_cuda_graph": "1" if graph else "0", "use_tf32": "1" if is_half(path) else "0"}
    return [("CUDAExecutionProvider", CUDA | options)]


def measure(path, feeds, device, outputs=None):
    """A row, and the outputs' shapes and types: with them given, in CUDA graph mode."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    chosen = providers(path, device, outputs is not None)
    begin = time.perf_counter()
    session = ort.InferenceSession(path, options, providers=chosen)
    if device != "cpu" and "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("the CUDA provider did not start: its libraries (CUDA, cuDNN) were not found")
    binding, held = session.io_binding(), []
    for i in session.get_inputs():
        held.append(ort.OrtValue.ortvalue_from_numpy(feeds[i.name], device, 0))
        binding.bind_ortvalue_input(i.name, held[-1])
    for o in session.get_outputs():
        if outputs is None:
            binding.bind_output(o.name, device, 0)
        else:
            held.append(ort.OrtValue.ortvalue_from_shape_and_type(*outputs[o.name], device, 0))
            binding.bind_ortvalue_output(o.name, held[-1])
    once = ort.RunOptions()
    session.run_with_iobinding(binding, once)
    binding.synchronize_outputs()
    row = {"session_s": time.perf_counter() - begin}
    found = {o.name: (v.shape(), v.element_type()) for o, v in zip(session.get_outputs(), binding.get_outputs())}
    ahead = ort.RunOptions()
    ahead.add_run_config_entry("disable_synchronize_execution_providers", "1")   # a run is waited for once a sample
    samples = []
    for i in range(SAMPLES + 3):
        begin = time.perf_counter()
        for _ in range(RUNS):
            session.run_with_iobinding(binding, ahead)
        binding.synchronize_outputs()
        if i > 2:
            samples.append((time.perf_counter() - begin) / RUNS * 1e6)
    q1, median, q3 = statistics.quantiles(samples, n=4)
    return {"us": median, "iqr_us": q3 - q1, **row}, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    a = parser.parse_args()
    print(json.dumps({"versions": {"onnxruntime": ort.__version__}}), flush=True)
    feeds = dict(np.load(a.model.removesuffix(".onnx") + ".inputs.npz"))
    outputs = None
    for peer in ("ort", "ort_graph") if a.device == "cuda" else ("ort",):
        try:
            if peer == "ort_graph" and outputs is None:
                raise RuntimeError("the outputs' shapes are not known: the plain run failed")
            row, outputs = measure(a.model, feeds, a.device, outputs)
        except Exception as e:   # a peer's failure is a result
            row = {"failed": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"}
        print(json.dumps({"peer": peer, **row}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
