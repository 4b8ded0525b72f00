"""smelt makes ONNX models run fast, shows why they were slow, and proves that they got faster.

    import smelt
    session = smelt.Session("resnet50.onnx")
    [y] = session.run(None, {"x": image})
    print(smelt.bench("resnet50.onnx"))
"""
from .errors import AccuracyError, Error, NotProvenError, StoppedError, UnsupportedError, UsageError
from .options import BuildOptions
from .quantization import Quantized, quantize
from .session import Cache, ModelMetadata, NodeArg, Session
from .smelt_ext import Tensor
from .smelt_ext import version as _version
from .verbs import Optimized, Result, bench, explain, optimize, profile

__version__ = _version()


def __getattr__(name: str) -> object:
    if name in ("ops", "torch"):   # they import PyTorch where it is installed, which takes seconds
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["AccuracyError", "BuildOptions", "Cache", "Error", "ModelMetadata", "NodeArg", "NotProvenError", "Optimized",
           "Quantized", "Result", "Session", "StoppedError", "Tensor", "UnsupportedError", "UsageError", "bench", "explain",
           "optimize", "profile", "quantize"]
