#!/usr/bin/env python3
"""Writes the model of docs/tour.md: a convolution with its activation, and a matrix product with bias and activation.

usage: tour.py [FILE]     (tour.onnx)
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main() -> None:
    rng = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((rng.standard_normal(shape) / 16).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "conv.weight", "conv.bias"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["features"], name="relu"),
        helper.make_node("MatMul", ["tokens", "fc.weight"], ["m"], name="fc"),
        helper.make_node("Add", ["m", "fc.bias"], ["a"], name="fc_bias"),
        helper.make_node("Gelu", ["a"], ["logits"], name="gelu"),
    ]

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes, "tour",
        [value("image", 1, 64, 56, 56), value("tokens", 128, 768)],
        [value("features", 1, 64, 56, 56), value("logits", 128, 3072)],
        [weights("conv.weight", 64, 64, 3, 3), weights("conv.bias", 64),
         weights("fc.weight", 768, 3072), weights("fc.bias", 3072)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, sys.argv[1] if len(sys.argv) > 1 else "tour.onnx")


if __name__ == "__main__":
    main()
