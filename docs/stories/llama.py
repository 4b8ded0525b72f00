"""A small Llama whose RMSNorm is spelled out, as a PyTorch trace and as ONNX: llama.py FOLDER [--device cuda]."""
import argparse
import collections
import importlib.util
import pathlib

import torch
from torch import nn
from torch.nn import functional as f
from torch.profiler import ProfilerActivity, profile, record_function, schedule


class RMSNorm(nn.Module):
    """Seven operators: pow, mean, add, sqrt, reciprocal, and two products."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        with record_function("norm"):
            return x * torch.reciprocal(torch.sqrt(torch.mean(torch.pow(x, 2), -1, keepdim=True) + 1e-6)) * self.weight


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, RMSNorm(width), RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        b, s, w = x.shape
        h = self.norm1(x)
        with record_function("attention"):
            q, k, v = (p(h).view(b, s, self.heads, w // self.heads).transpose(1, 2) for p in (self.q, self.k, self.v))
            x = x + self.o(f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, w))
        h = self.norm2(x)
        with record_function("mlp"):
            return x + self.down(f.silu(self.gate(h)) * self.up(h))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=256)
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    dtype = torch.float32 if a.device == "cpu" else torch.bfloat16
    blocks = {f"block{i}": Block(a.width, 8) for i in range(a.layers)}
    model = nn.Sequential(collections.OrderedDict(**blocks, norm=RMSNorm(a.width))).eval()
    x = torch.randn(1, a.tokens, a.width)
    with torch.no_grad():
        torch.onnx.export(model, (x,), str(a.folder / "llama.onnx"), input_names=["x"],
                          dynamo=importlib.util.find_spec("onnxscript") is not None)
        model, x = model.to(a.device, dtype), x.to(a.device, dtype)
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if a.device != "cpu" else [])
        with profile(activities=activities, schedule=schedule(wait=1, warmup=3, active=5)) as prof:
            for _ in range(9):
                model(x)
                if a.device != "cpu":
                    torch.cuda.synchronize()
                prof.step()
        prof.export_chrome_trace(str(a.folder / "llama.trace.json"))


if __name__ == "__main__":
    main()
