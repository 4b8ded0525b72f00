"""smelt inspect: launches, cubins and PTX, without a GPU."""

import json
import os
import pathlib
import random
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import model_of
from onnx import TensorProto, helper
from test_limits import described

KERNELS = """
extern "C" __global__ void __launch_bounds__(128) saxpy(const float4* x, float4* y, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = x[i], w = y[i];
    w.x += a * v.x; w.y += a * v.y; w.z += a * v.z; w.w += a * v.w;
    y[i] = w;
  }
}
extern "C" __global__ void halved(const float* x, float* y) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x ^ 1] / 2;
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled("sm_90a") → the cubin's and the PTX's paths."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings come with PyTorch")
    folder = tmp_path_factory.mktemp("kernels")
    source = folder / "kernels.cu"
    source.write_text(KERNELS)

    def compile(arch):
        _, program = nvrtc.nvrtcCreateProgram(KERNELS.encode(), str(source).encode(), 0, [], [])
        options = [f"--gpu-architecture={arch}".encode(), b"--generate-line-info"]
        assert nvrtc.nvrtcCompileProgram(program, len(options), options)[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
        paths = []
        for kind, size, get in (
            ("cubin", nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
            ("ptx", nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
        ):
            bytes_ = b" " * size(program)[1]
            get(program, bytes_)
            paths.append(folder / f"{arch}.{kind}")
            paths[-1].write_bytes(bytes_)
        return paths

    return compile


def test_a_launch_is_answered_by_itself(command):
    out = command("inspect", "--launch", "regs=63,smem=70KiB,threads=128", "--arch", "sm_90").stdout
    assert "3 blocks of 4 warps on a multiprocessor of sm_90: 12 of 64 warps (18.8%), limited by shared memory" in out
    assert "at 56 KiB of shared memory, 4 blocks instead of 3" in out
    row = described(command("inspect", "--launch", "regs=63,smem=70KiB,threads=128", "--arch", "sm_90", "--json").stdout)[
        "occupancy"
    ][0]
    assert (row["blocks"], row["warps"], row["most_warps"], row["limiter"]) == (3, 12, 64, "shared memory")


def test_without_an_architecture_every_one_is_listed(command):
    rows = described(command("inspect", "--launch", "regs=63,threads=128", "--json").stdout)["occupancy"]
    assert [r["arch"] for r in rows] == [
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_87",
        "sm_89",
        "sm_90",
        "sm_100",
        "sm_101",
        "sm_103",
        "sm_110",
        "sm_120",
        "sm_121",
    ]
    assert {r["arch"]: r["warps"] for r in rows}["sm_90"] == 32


def test_what_cannot_be_asked_is_a_usage_error(command):
    assert "threads=128" in command("inspect", code=2).stderr
    assert "'regs=300'" in command("inspect", "--launch", "regs=300,threads=32", code=2).stderr
    assert "how many threads" in command("inspect", "--launch", "regs=30", code=2).stderr
    assert "They are: sm_75" in command("inspect", "--launch", "threads=32", "--arch", "sm_30", code=2).stderr


def test_a_cubin_shows_what_its_kernels_take(command, compiled):
    cubin, _ = compiled("sm_90a")
    tables = described(command("inspect", cubin, "--json").stdout)
    kernels = {k["kernel"]: k for k in tables["kernels"]}
    assert kernels["halved"]["static_shared_bytes"] == 1024 and kernels["saxpy"]["static_shared_bytes"] == 0
    assert kernels["saxpy"]["most_threads"] == 128 and kernels["saxpy"]["registers"] > 10
    assert {r["kernel"]: r["limiter"] for r in tables["occupancy"]}["saxpy"] == "warps"
    said = command("inspect", cubin).stdout
    assert "256 are assumed" in said  # nothing says how many threads `halved` runs with
    assert "assumed" not in command("inspect", cubin, "--launch", "threads=64").stdout
    one = command("inspect", cubin, "--kernel", "halved", "--launch", "threads=256,smem=100KiB").stdout
    assert "2 blocks of 8 warps" in one and "limited by shared memory" in one
    assert "There are: halved, saxpy" in command("inspect", cubin, "--kernel", "sax", code=2).stderr


def test_the_cubin_is_read_as_cuobjdump_reads_it(command, compiled):
    triton = pytest.importorskip("triton", reason="Triton's wheel brings cuobjdump")
    tool = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    for arch in ("sm_75", "sm_80", "sm_90a", "sm_120a"):
        cubin, _ = compiled(arch)
        said = subprocess.run([tool, "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
        theirs = {
            name: (int(regs), int(stack), int(constant))
            for name, regs, stack, constant in re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) .*?CONSTANT\[0\]:(\d+)", said)
        }
        ours = {
            k["kernel"]: (k["registers"], k["stack_bytes"], k["constant_bytes"])
            for k in described(command("inspect", cubin, "--json").stdout)["kernels"]
        }
        assert ours == theirs and len(ours) == 2, arch


def test_ptx_shows_instructions_and_the_widest_loads_by_line(command, compiled):
    _, ptx = compiled("sm_90a")
    tables = described(command("inspect", ptx, "--kernel", "saxpy", "--json").stdout)
    lines = {r["line"]: r for r in tables["lines"]}
    loads = next(r for r in lines.values() if r["loads"])
    assert loads["widest_load_bytes"] == 16 and "float4 v = x[i]" in loads["source"]
    mix = {r["kind"]: r["instructions"] for r in tables["mix"]}
    assert mix["load, global"] == 2 and mix["store, global"] == 1 and mix["fp32"] == 4
    assert sum(mix.values()) == tables["kernels"][0]["instructions"]
    # The registers are ptxas's to give out: asked with them, occupancy is there.
    assert "Occupancy" not in command("inspect", ptx).stdout
    assert "limited by" in command("inspect", ptx, "--kernel", "saxpy", "--launch", "regs=40").stdout


def test_damaged_files_give_an_error_and_never_a_crash(command, compiled, tmp_path):
    rng = random.Random(3)
    damaged = tmp_path / "damaged"
    for path in compiled("sm_90a"):
        whole = path.read_bytes()
        for i in range(60):
            piece = bytearray(whole[: rng.randrange(len(whole))] if i % 2 else whole)
            for _ in range(0 if i % 2 else 3):
                piece[rng.randrange(len(piece))] ^= 1 << rng.randrange(8)
            damaged.write_bytes(piece)
            result = command("inspect", damaged, code=None)
            assert result.returncode in (0, 1, 3), (i, result.returncode, result.stderr)
            assert result.returncode == 0 or (str(damaged) in result.stderr and result.stderr.count("\n") <= 2)
    assert "No such file" in command("inspect", tmp_path / "none.cubin", code=1).stderr
    damaged.write_bytes(pathlib.Path(sys.executable).resolve().read_bytes()[:4096])
    assert (
        "machine 62" in command("inspect", damaged, code=3).stderr
        or "not a whole cubin" in command("inspect", damaged, code=None).stderr
    )
    damaged.write_text("hello")
    assert "neither a cubin nor PTX" in command("inspect", damaged, code=None).stderr


def test_the_instructions_of_a_cubin_are_nvdisasms_where_it_is_installed(command, compiled):
    triton = pytest.importorskip("triton", reason="Triton's wheel brings nvdisasm")
    tools = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin"
    cubin, _ = compiled("sm_90a")
    assert "mix" not in {k for k, t in described(command("inspect", cubin, "--json", env={"PATH": "/nowhere"}).stdout).items() if t}
    tables = described(command("inspect", cubin, "--kernel", "saxpy", "--json", env={"PATH": str(tools)}).stdout)
    mix = {r["kind"]: r["instructions"] for r in tables["mix"]}
    listing = subprocess.run([tools / "nvdisasm", "-c", cubin], capture_output=True, text=True, check=True).stdout
    own = listing[listing.index(".section\t.text.saxpy"):].split(".section", 2)[1]
    ops = re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", own)
    assert tables["kernels"][0]["instructions"] == len(ops)
    assert mix["load, global"] == sum(op.startswith("LDG") for op in ops) == 2
    assert mix["fp32"] == sum(op.startswith("FFMA") for op in ops) == 4
    assert tables["kernels"][0]["widest_load_bytes"] == 16
    assert any("float4 v = x[i]" in r["source"] and r["widest_load_bytes"] == 16 for r in tables["lines"])


@pytest.fixture(scope="module")
def model(command, tmp_path_factory):
    """conv → relu, concatenated with the input, → product → softmax: kernels of several families."""
    rng = np.random.default_rng(2)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float16), n)
               for n, s in (("w", (32, 16, 3, 3)), ("m", (64, 128)))]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "m"], ["p"], name="product"),
        helper.make_node("Softmax", ["p"], ["y"], name="softmax", axis=-1),
        helper.make_node("Transpose", ["r"], ["t"], name="turn", perm=[0, 3, 2, 1]),
    ]
    half = TensorProto.FLOAT16
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(model_of(nodes, [("x", half, ["n", 16, 64, 64])], [("y", half, ["n", 32, 64, 128]), ("t", half, ["n", 64, 64, 32])],
                       weights), path)
    result = command("inspect", path, "--arch", "sm_90", "--kernel", "softmax", code=None, timeout=600)
    if result.returncode == 3 and "NVRTC" in result.stderr:
        pytest.skip("no NVRTC")
    return path


def inspected(command, *args):
    return described(command("inspect", *args, "--json", timeout=600).stdout)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_a_model_shows_every_kernel_that_it_would_launch(command, model, arch):
    tables = inspected(command, model, "--arch", arch)
    kernels = tables["kernels"]
    steps = {k["step"] for k in kernels}
    plan = json.loads(command("optimize", model, "--arch", arch, "-o", model.with_suffix(f".{arch}.onnx"), "--json", timeout=600).stdout)
    assert plan["plan"][0]["nodes"] >= 3 and {"product", "softmax", "turn"} <= steps and len(steps) >= 4
    for k in kernels:
        assert k["arch"].startswith(arch) and 8 <= k["registers"] <= 255 and k["spill_store_bytes"] is not None
        assert k["block_threads"] % 32 == 0 and all(int(n) > 0 for n in k["grid"].split("x"))
        assert k["instructions"] > 10 and "%" in k["mix"]
    assert any(k["widest_load_bytes"] == 16 for k in kernels)
    rows = {(r["kernel"], r["threads"]): r for r in tables["occupancy"]}
    for k in kernels:
        row = rows[(k["kernel"], k["block_threads"])]
        launch = f"regs={k['registers']},threads={k['block_threads']},static={k['static_shared_bytes'] or 0}"
        if k["dynamic_shared_bytes"]:
            launch += f",smem={k['dynamic_shared_bytes']}"
        [same] = described(command("inspect", "--launch", launch, "--arch", arch, "--json").stdout)["occupancy"]
        assert (row["blocks"], row["limiter"]) == (same["blocks"], same["limiter"]) and row["blocks"] > 0


def test_a_kernel_of_a_model_is_shown_beside_its_source(command, model):
    tables = inspected(command, model, "--arch", "sm_90", "--kernel", "softmax")
    assert {k["step"] for k in tables["kernels"]} == {"softmax"}
    sources = {r["source"] for r in tables["lines"]}
    assert any("norm_rows" in s or "shfl" in s or "exp" in s for s in sources), sources
    files = {r["line"].split(":")[0] for r in tables["lines"]}
    assert any(f.endswith(".cuh") for f in files), files
    said = command("inspect", model, "--arch", "sm_90", "--kernel", "softmax").stdout
    assert "Instructions of" in said and "limited by" in said and "free: up to" in said
    wrong = command("inspect", model, "--arch", "sm_90", "--kernel", "nothing", code=2).stderr
    assert "There are: " in wrong


def test_the_instructions_of_a_model_are_nvdisasms_where_it_is_installed(command, model):
    triton = pytest.importorskip("triton", reason="Triton's wheel brings nvdisasm")
    tools = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin"
    path = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    said = command("inspect", model, "--arch", "sm_90", "--kernel", "turn", env=path).stdout
    assert "(SASS)" in said and ".cuh:" in said
    assert "(PTX)" in command("inspect", model, "--arch", "sm_90", "--kernel", "turn", env={**os.environ, "PATH": "/nowhere"}).stdout


def test_shapes_decide_how_many_blocks_there_are(command, model):
    def blocks(*more):
        rows = inspected(command, model, "--arch", "sm_80", "--kernel", "turn", *more)["kernels"]
        return sum(int(np.prod([int(n) for n in r["grid"].split("x")])) for r in rows)

    assert blocks("--shapes", "x:4x16x64x64") == 4 * blocks()


def test_a_plan_knows_its_architecture_and_a_model_has_to_be_told(command, model, tmp_path):
    assert "--arch sm_90" in command("inspect", model, code=2).stderr
    plan = tmp_path / "plan.onnx"
    command("optimize", model, "--arch", "sm_80", "-o", plan, "--embed-kernels", "--shapes", "x:1x16x64x64", timeout=600)
    assert {k["arch"] for k in inspected(command, plan)["kernels"]} == {"sm_80"}
    assert {k["arch"] for k in inspected(command, plan, "--arch", "sm_86")["kernels"]} == {"sm_86"}


def test_what_sizes_hide_is_named(command, model, tmp_path):
    nodes = [helper.make_node("Tanh", ["x"], ["a"], name="before"), helper.make_node("NonZero", ["a"], ["i"], name="found"),
             helper.make_node("Neg", ["i"], ["y"], name="behind")]
    path = tmp_path / "d.onnx"
    onnx.save(model_of(nodes, [("x", TensorProto.FLOAT, [64])], [("y", TensorProto.INT64, [1, "k"])]), path)
    said = command("inspect", path, "--arch", "sm_90").stdout
    assert "before" in said and "what follows, or is in, found" in said
