#!/usr/bin/env python3
"""Writes the models of this folder anew: what exporters other than PyTorch's dynamo one make of small programs.

usage: make.py scripted | perceptron        (torch for the first, scikit-learn and skl2onnx for the second)
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def scripted():
    """TorchScript's exporter: a while loop with a data-dependent end, an if, an LSTM, in-place updates of slices."""
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.LSTM(12, 16, batch_first=True, bidirectional=True)
            self.step = torch.nn.Linear(32, 32)

        def forward(self, x: torch.Tensor, limit: torch.Tensor):
            y, _ = self.first(x)
            state = y.mean(dim=1)
            count = torch.zeros([1], dtype=torch.int64)
            while bool((state.abs().max() > limit).all()) and int(count) < 20:
                if int(count) % 2 == 0:
                    state = torch.tanh(self.step(state)) * 0.8
                else:
                    state = state - 0.1 * state.sum(dim=1, keepdim=True)
                count += 1
            y[:, 0, :] = state
            return y, count

    torch.manual_seed(0)
    torch.onnx.export(torch.jit.script(Decoder().eval()), (torch.randn(2, 7, 12), torch.tensor([0.3])),
                      str(HERE / "scripted.onnx"), dynamo=False, opset_version=17,
                      input_names=["x", "limit"], output_names=["y", "count"],
                      dynamic_axes={"x": {0: "batch", 1: "time"}, "y": {0: "batch", 1: "time"}})


def perceptron():
    """scikit-learn through skl2onnx: a scaler, a perceptron with two hidden layers, class labels and probabilities."""
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 6)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int) + (x[:, 3] > 1)
    model = make_pipeline(StandardScaler(), MLPClassifier((24, 12), max_iter=60, random_state=0)).fit(x, y)
    onx = to_onnx(model, x[:1], options={"zipmap": False}, target_opset={"": 18, "ai.onnx.ml": 3})
    (HERE / "perceptron.onnx").write_bytes(onx.SerializeToString())


if __name__ == "__main__":
    {"scripted": scripted, "perceptron": perceptron}[sys.argv[1]]()
