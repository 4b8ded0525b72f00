"""Writes ONNX's backend test cases as files: OUT/KIND/NAME/model.onnx, tolerance.txt, and data_set_*/{input,output}_*.pb.

usage: generate.py OUT

The node cases exist in the onnx wheel only as Python; the light and PyTorch ones are copied from it. OUT/version names
the onnx version that wrote the folder: nothing is done when it is this one.
"""
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test import loader

KINDS = ("simple", "pytorch-converted", "pytorch-operator")


def serialize(value, info):
    """One input or output as the bytes of the proto that its declared type asks for."""
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    kind = info.type.WhichOneof("value")
    make = {
        "tensor_type": numpy_helper.from_array,
        "sequence_type": numpy_helper.from_list,
        "optional_type": numpy_helper.from_optional,
        "map_type": numpy_helper.from_dict,
    }[kind]
    if kind == "tensor_type":
        value = np.asarray(value)
    return make(value, info.name).SerializeToString()


def write_case(folder, model_bytes, rtol, atol, data_sets):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model_bytes)
    (folder / "tolerance.txt").write_text(f"{rtol} {atol}\n")
    for i, (inputs, outputs) in enumerate(data_sets):
        data = folder / f"data_set_{i}"
        data.mkdir()
        for what, protos in (("input", inputs), ("output", outputs)):
            for j, proto in enumerate(protos):
                (data / f"{what}_{j}.pb").write_bytes(proto)


def write_node_cases(out):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")   # the cases overflow and divide by zero on purpose
        cases = loader.load_model_tests(kind="node")
    for case in cases:
        graph = case.model.graph
        data_sets = [([serialize(v, info) for v, info in zip(inputs, graph.input)],
                      [serialize(v, info) for v, info in zip(outputs, graph.output)]) for inputs, outputs in case.data_sets]
        write_case(out / "node" / case.name, case.model.SerializeToString(), case.rtol, case.atol, data_sets)


def write_stored_cases(out, kind):
    for case in loader.load_model_tests(kind=kind):
        source = pathlib.Path(case.model_dir)
        data_sets = []
        for data in sorted(source.glob("test_data_set_*")):
            sides = []
            for what in ("input", "output"):
                count = len(list(data.glob(f"{what}_*.pb")))
                sides.append([(data / f"{what}_{j}.pb").read_bytes() for j in range(count)])
            data_sets.append(sides)
        write_case(out / kind / case.name, (source / "model.onnx").read_bytes(), case.rtol, case.atol, data_sets)


def write_light_cases(out):
    """The wheel has these models with one output each; the input is a ramp from 0 to 1, as ONNX's own runner makes it."""
    for model_path in sorted((pathlib.Path(loader.DATA_DIR) / "light").glob("*.onnx")):
        model = onnx.load(model_path)
        initialized = {t.name for t in model.graph.initializer}
        inputs = []
        for info in model.graph.input:
            if info.name in initialized:
                continue
            shape = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim)
            size = int(np.prod(shape))
            ramp = (np.arange(size).reshape(shape) / size).astype(np.float32)
            inputs.append(numpy_helper.from_array(ramp, info.name).SerializeToString())
        output = model_path.with_name(model_path.stem + "_output_0.pb").read_bytes()
        write_case(out / "light" / model_path.stem, model_path.read_bytes(), 1e-3, 1e-7, [(inputs, [output])])


def main(out):
    stamp = out / "version"
    if stamp.is_file() and stamp.read_text() == onnx.__version__:
        return
    shutil.rmtree(out, ignore_errors=True)
    write_node_cases(out)
    for kind in KINDS:
        write_stored_cases(out, kind)
    write_light_cases(out)
    stamp.write_text(onnx.__version__)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
