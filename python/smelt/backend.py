"""smelt as an ONNX backend (onnx.backend.base.Backend), for the conformance tests and for tools that speak that interface."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from .errors import UsageError
from .session import Session
from .smelt_ext import gpu_count


class SmeltRep(BackendRep):
    """A prepared model: run(inputs) returns the outputs as a tuple of NumPy arrays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        names = [i.name for i in self._session.get_inputs()]
        if not isinstance(inputs, dict):
            given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            if len(given) > len(names):
                raise UsageError(f"found {len(given)} inputs, expected {len(names)}: {', '.join(names)}")
            inputs = dict(zip(names, given))
        return tuple(self._session.run(None, inputs))


class SmeltBackend(Backend):
    """ONNX's backend interface over Session, for devices "CPU" and "CUDA:N". It takes BuildOptions as keywords."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SmeltRep:
        cls._check_device(device)
        super().prepare(model, device, **kwargs)
        return SmeltRep(Session(model, **cls._options(device), **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[np.ndarray, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Runs one operator.

        inputs: by position or by name. An input that the node leaves out ("") is None or is not listed.
        outputs_info: (type, shape) of each output, for operators whose result types cannot be inferred.
        opset_version: the newest if not given."""
        cls._check_device(device)
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        super().run_node(node, inputs, device, outputs_info, opset_version=version)   # checks the node
        names = [n for n in node.input if n]
        if not isinstance(inputs, dict):
            given = [a for a in (inputs if isinstance(inputs, (list, tuple)) else [inputs]) if a is not None]
            if len(given) != len(names):
                raise UsageError(f"node '{node.name}' ({node.op_type}): found {len(given)} of the inputs, expected {len(names)}: "
                                 + ", ".join(names))
            inputs = dict(zip(names, given))
        feeds = {name: np.asarray(inputs[name]) for name in names}

        def info(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

        results = [n for n in node.output if n]
        outputs = [info(n, *i) for n, i in zip(results, outputs_info, strict=True)] if outputs_info else [
            onnx.ValueInfoProto(name=n) for n in results]
        graph = helper.make_graph([node], "node", [info(n, a.dtype, a.shape) for n, a in feeds.items()], outputs)
        opsets = [helper.make_opsetid("", version)] + ([helper.make_opsetid(node.domain, 1)] if node.domain else [])
        model = helper.make_model(graph, opset_imports=opsets)
        return SmeltRep(Session(model, **cls._options(device), **kwargs)).run(feeds)

    @classmethod
    def _check_device(cls, device: str) -> None:
        if not cls.supports_device(device):
            gpus = "".join(f", CUDA:{i}" for i in range(gpu_count()))
            raise UsageError(f"device is {device}, expected CPU{gpus}")

    @classmethod
    def _options(cls, device: str) -> dict[str, Any]:
        wanted = Device(device)
        where = {} if wanted.type == DeviceType.CPU else {"device": str(wanted.device_id)}
        return {"tuning_level": 0, "use_cache": False, **where}

    @classmethod
    def supports_device(cls, device: str) -> bool:
        wanted = Device(device)
        return wanted.type == DeviceType.CPU or (wanted.type == DeviceType.CUDA and 0 <= wanted.device_id < gpu_count())


prepare = SmeltBackend.prepare
run_model = SmeltBackend.run_model
run_node = SmeltBackend.run_node
supports_device = SmeltBackend.supports_device
