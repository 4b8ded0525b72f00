"""PyTorch's side of bench/gpu_models.py: the modules of bench/torch_modules, checked and timed.

usage: python bench/torch_models.py FOLDER [--models NAME ...] [--peers wall graph default compile]   times them on GPU 0
       python bench/torch_models.py --check FOLDER [--models NAME ...]     compares them with ONNX Runtime on the CPU
       (FOLDER: where filled models are made: examples/models/fill.py, which needs numpy and onnx)

Weights and inputs are the filled graph's.

Timing: "wall" is one eager call, waited for, by the host's clock; "graph" (eager), "default" (torch.compile) and "compile"
(max-autotune) are one call in a CUDA graph: the median and interquartile range over samples of 20 replays that follow each other,
by events, as smelt profile times its own. Convolutional models are channels_last. Prints one line of JSON as each figure is
known. TORCHINDUCTOR_CACHE_DIR keeps what torch.compile made; "cache_hits" tells whether it had.
"""
import argparse
import json
import math
import statistics
import sys
import time

import numpy as np
import onnx
import shared
import torch
from torch_modules import architecture, build
from torch_modules.weights import shape_of, tensor

REPLAYS, SAMPLES = 20, 30
PEERS = ("wall", "graph", "default", "compile")
MODELS = (*shared.GPU_MODELS, "sd15_unet.fp16", "llama7b_decode.fp16", "whisper_enc.fp16")


def load(name, folder, device="cpu", dtype=None):
    """A filled model's module, its inputs in the graph's order, its path. dtype: what floating weights and inputs are cast to."""
    path = shared.filled(name, folder)
    model = onnx.load(path)
    cast = lambda t: t.to(device, dtype if t.is_floating_point() and dtype else t.dtype)   # noqa: E731
    module = build(name, model, lambda t: cast(tensor(onnx.numpy_helper.to_array(t))))
    feeds = np.load(path.with_suffix(".inputs.npz"))
    inputs = [cast(tensor(feeds[i.name])) for i in model.graph.input]
    if architecture(name).channels_last:
        module = module.to(memory_format=torch.channels_last)
        inputs = [t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in inputs]
    return module, inputs, path


def flat(outputs):
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def error(found, expected):
    """The largest difference over the largest value, of all outputs; infinite where shapes differ."""
    if [f.shape for f in found] != [e.shape for e in expected]:
        return math.inf
    pairs = [(f.float(), e.float()) for f, e in zip(found, expected)]
    return max(float((f - e).abs().max() / e.abs().max().clamp_min(1e-30)) for f, e in pairs)


def check(name, folder):
    """(the graph compared on, the error against ONNX Runtime, its limit): in float32 where there is such a graph, else the module
    in float32 against ONNX Runtime in the graph's precision."""
    import onnxruntime
    model = onnx.load(shared.MODELS / f"{name}.onnx", load_external_data=False)
    build(name, model, shape_of)
    twin = f"{name.partition('.')[0].removesuffix('_b32')}.fp32"
    subject = twin if (shared.MODELS / f"{twin}.onnx").exists() else name
    module, inputs, path = load(subject, folder, dtype=torch.float32)
    with torch.no_grad():
        found = flat(module(*inputs))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(np.load(path.with_suffix(".inputs.npz"))))
    return subject, error(found, [tensor(e) for e in expected]), 1e-4 if subject == twin else 0.03


def quartiles(samples):
    q1, median, q3 = statistics.quantiles(samples, n=4)
    return {"us": median, "iqr_us": q3 - q1}


def time_wall(f):
    samples = []
    for i in range(55):
        begin = time.perf_counter()
        f()
        torch.cuda.synchronize()
        if i > 4:
            samples.append((time.perf_counter() - begin) * 1e6)
    return quartiles(samples)


def time_graph(f):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kept = f()   # noqa: F841 - what the graph writes is held while it is replayed
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    samples = []
    for i in range(SAMPLES + 3):
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        if i > 2:
            samples.append(begin.elapsed_time(end) * 1e3 / REPLAYS)
    return quartiles(samples)


def compiled(module, inputs, mode):
    """torch.compile's row: its first call is what compiling costs."""
    from torch._dynamo.utils import counters
    torch._dynamo.reset()
    counters.clear()
    expected = flat(module(*inputs))
    begin = time.perf_counter()
    fast = torch.compile(module, mode=mode, dynamic=False)   # the CUDA graph is ours
    found = flat(fast(*inputs))
    torch.cuda.synchronize()
    row = {"compile_s": time.perf_counter() - begin, "cache_hits": counters["inductor"]["fxgraph_cache_hit"],
           "error": error(found, expected)}
    del found, expected
    return row | time_graph(lambda: fast(*inputs))


def versions():
    try:
        import triton
        made = triton.__version__
    except ImportError:
        made = None
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": cudnn, "triton": made}


def time_model(name, folder, peers):
    """Yields a row a peer. What fails gives its reason."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False   # float32 is IEEE's
    module, inputs, _ = load(name, folder, "cuda")
    runs = {"wall": lambda: time_wall(lambda: module(*inputs)), "graph": lambda: time_graph(lambda: module(*inputs)),
            "default": lambda: compiled(module, inputs, "default"),
            "compile": lambda: compiled(module, inputs, "max-autotune-no-cudagraphs")}
    for peer in peers:
        torch.cuda.reset_peak_memory_stats()
        try:
            with torch.no_grad():
                row = runs[peer]()
            row["peak_device_bytes"] = torch.cuda.max_memory_allocated()
        except Exception as e:   # a peer's failure is a result
            row = {"failed": f"{type(e).__name__}: {str(e)[:300]}"}
        yield {"model": name, "peer": peer, **row}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    if not a.check:
        print(json.dumps({"versions": versions()}), flush=True)
        for name in a.models:
            for row in time_model(name, a.folder, a.peers):
                print(json.dumps(row), flush=True)
        return 0
    failed = 0
    print(f"{'model':<26}{'compared on':<26}{'error':>9}{'limit':>9}", flush=True)
    for name in a.models:
        subject, off, limit = check(name, a.folder)
        failed += not off <= limit
        print(f"{name:<26}{subject:<26}{off:>9.1e}{limit:>9.1e}{'' if off <= limit else '  differs'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
