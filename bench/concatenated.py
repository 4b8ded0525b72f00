"""Convolutions of concatenated inputs with bias and relu on GPU 0: PyTorch beside `bench_gpu conv concatenated`, in one run.

usage: python bench/concatenated.py BENCH_GPU [CANDIDATES]     (BENCH_GPU: build/bench_gpu; needs PyTorch with CUDA)

KERNELS.md's six shapes, f16, channels-last, inputs in L2. PyTorch's columns: eager; torch.compile (max-autotune); the convolution
with relu alone of an input that is concatenated already (cuDNN's best of those that it tries), and the concatenation alone. Each
is captured into a CUDA graph of 40 calls, replayed 30 times: the median.
"""
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F

SHAPES = [(1, (64, 64), 80, 64), (1, (128, 128), 40, 128), (1, (256, 256), 20, 256), (1, (256, 128), 80, 128),
          (8, (64, 64), 80, 64), (8, (128, 256), 40, 128)]
CALLS, REPLAYS = 40, 30


def microseconds(f):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            f()
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / CALLS)
    return statistics.median(times)


def fused(*x, w, b):
    return F.relu(F.conv2d(torch.cat(x, 1), w, b, padding=1))


def convolved(x, w, b):
    return torch.cudnn_convolution_relu(x, w, b, (1, 1), (1, 1), (1, 1), 1)


def row(n, channels, size, m):
    def image(c):
        return torch.randn(n, c, size, size, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)

    x = [image(c) for c in channels]
    w = torch.randn(m, sum(channels), 3, 3, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last) / 30
    b = torch.randn(m, device="cuda", dtype=torch.float16)
    whole = torch.cat(x, 1)
    compiled = torch.compile(fused, mode="max-autotune-no-cudagraphs", dynamic=False)
    return [microseconds(f) for f in (lambda: fused(*x, w=w, b=b), lambda: compiled(*x, w=w, b=b),
                                      lambda: convolved(whole, w, b), lambda: torch.cat(x, 1))]


@torch.inference_mode()
def main():
    torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'images x channels x size -> channels':>40} {'eager':>8} {'compiled':>8} {'conv':>8} {'concat':>8}")
    for n, channels, size, m in SHAPES:
        times = row(n, channels, size, m)
        text = f"{n} x {'+'.join(map(str, channels))} x {size} -> {m}"
        print(f"{text:>40} " + " ".join(f"{us:8.2f}" for us in times), flush=True)
    for n in (1, 8):
        command = [sys.argv[1], "conv", "concatenated", str(n), sys.argv[2] if len(sys.argv) > 2 else "8", "f16"]
        print(subprocess.run(command, check=True, text=True, capture_output=True).stdout, flush=True)


main()
