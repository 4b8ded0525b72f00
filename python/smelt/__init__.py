"""smelt makes ONNX models run fast, shows why they were slow, and proves that they got faster.

    import smelt
    session = smelt.Session("resnet50.onnx")
    [y] = session.run(None, {"x": image})
    print(smelt.bench("resnet50.onnx"))
"""
from .errors import AccuracyError, Error, NotProvenError, UnsupportedError, UsageError
from .session import NodeArg, Session
from .verbs import Result, bench, explain, optimize, profile
from .smelt_ext import version as _version

__version__ = _version()
__all__ = ["AccuracyError", "Error", "NodeArg", "NotProvenError", "Result", "Session", "UnsupportedError", "UsageError", "bench", "explain", "optimize", "profile"]
