"""What may stand in which file of src/kernels."""
import pathlib
import re

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "src" / "kernels"


def files_with(pattern):
    found = re.compile(pattern)
    return {str(path.relative_to(KERNELS)) for path in KERNELS.rglob("*.*") if found.search(path.read_text())}


def test_inline_assembly_stands_in_one_folder():
    assert files_with(r"\basm\b") == {str(path.relative_to(KERNELS)) for path in (KERNELS / "common" / "ptx").iterdir()}


def test_lanes_exchange_values_through_one_header():
    assert files_with(r"__shfl_") == {"common/warp.cuh"}
