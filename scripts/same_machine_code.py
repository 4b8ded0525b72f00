#!/usr/bin/env python3
"""Says whether two sets of CUDA kernels are the same machine code.

usage: same_machine_code.py OLD NEW --old-headers DIR --new-headers DIR --arch sm_90a [--only TEXT]... [--cache DIR]

OLD and NEW are folders that `kernel_forms` wrote; a kernel of one is compared with that of the same name in the other. The
headers are the src/kernels that each belongs to. Two kernels are the same where their instructions are, but for where the
kernel's parameters lie in constant bank 0: each place of the one has its one place in the other. With plans (*.onnx that
`smelt optimize --embed-kernels` wrote) for OLD and NEW the kernels in them are compared as sets.

Needs libnvrtc (CUDA_PATH) and nvdisasm (on the PATH, in CUDA_PATH, or in Triton's wheel).
"""
import argparse
import base64
import concurrent.futures
import ctypes
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST_PARAMETER = {75: 0x160, 80: 0x160, 86: 0x160, 87: 0x160, 89: 0x160, 90: 0x210, 100: 0x380, 120: 0x380}


def find(pattern_list, what):
    for pattern in pattern_list:
        for path in sorted(glob.glob(pattern)):
            return path
    sys.exit(f"{what} is not to be found; set CUDA_PATH")


def cuda_path():
    return os.environ.get("CUDA_PATH", "/usr/local/cuda")


def nvdisasm():
    return shutil.which("nvdisasm") or find(
        [f"{cuda_path()}/bin/nvdisasm", f"{cuda_path()}/../../triton/backends/nvidia/bin/nvdisasm"], "nvdisasm")


def headers_of(folder):
    return {("kernels/" if p.suffix == ".h" else "") + str(p.relative_to(folder)): p.read_text() for p in sorted(Path(folder).rglob("*.*h"))}   # noqa: E501


def reached(code, headers, found):
    for name in re.findall(r'#include "([^"]+)"', code):
        if name in headers and name not in found:
            found[name] = headers[name]
            reached(headers[name], headers, found)
    return found


def compile_cubin(code, options, arch, headers):
    nvrtc = ctypes.CDLL(find([f"{cuda_path()}/lib*/libnvrtc.so.13", f"{cuda_path()}/lib*/libnvrtc.so"], "libnvrtc"))
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(headers))(*[n.encode() for n in headers])
    texts = (ctypes.c_char_p * len(headers))(*[t.encode() for t in headers.values()])
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel", len(headers), texts, names)
    options = [f"--gpu-architecture={arch}", "--std=c++20", "-DNDEBUG", "--no-source-include", "--no-cache", *options]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.value.decode())
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


def disassemble(cubin):
    """Each kernel's instructions, labels numbered in their order; the kernels in the order of their names."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
        f.write(cubin)
        f.flush()
        text = subprocess.run([nvdisasm(), "-c", f.name], check=True, capture_output=True, text=True).stdout
    kernels, lines = {}, None
    for line in text.splitlines():
        if begin := re.match(r"\s*\.section\s+\.text\.(\S+?),", line):
            lines = kernels.setdefault(begin[1], [])
        elif re.match(r"\s*\.section\b", line):   # and not .sectioninfo, which older architectures have within
            lines = None
        elif lines is not None:
            line = re.sub(r"/\*[0-9a-f]+\*/", "", line).strip()
            directives = (".sectioninfo", ".sectionflags", ".align", ".global", ".type", ".size", ".other")
            if line and not line.startswith(("//", *directives)):
                lines.append(line)
    result = []
    for name in sorted(kernels):
        labels = {}
        body = "\n".join(kernels[name]).replace(name, "KERNEL")
        body = re.sub(r"\.L_x_\d+|\.L_\d+|\$KERNEL\$\S+",
                      lambda m, labels=labels: labels.setdefault(m[0], f".L{len(labels)}"), body)
        result.append(body)
    return result


def machine_code(job):
    code, options, arch, headers, cache = job
    used = reached(code, headers, {})
    bare = re.sub(r"^//.*\n", "", code, flags=re.M)
    key = hashlib.sha256(repr((bare, options, arch, sorted(used.items()))).encode()).hexdigest()
    kept = Path(cache) / f"{key}.sass"
    if kept.exists() and all(kernels := kept.read_text().split("\f")):
        return kernels
    try:
        kernels = disassemble(compile_cubin(code, options, arch, used))
    except RuntimeError as e:
        return [f"does not compile: {str(e)[:2000]}"]
    if not all(kernels):
        sys.exit(f"nvdisasm prints no instructions for {arch}")
    kept.write_text("\f".join(kernels))
    return kernels


PLACE = re.compile(r"c\[0x0\]\[(?:R\d+\+|UR\d+\+)?(0x[0-9a-f]+)\]")


def differ(old, new, arch):
    """The first difference of two kernels, or none."""
    first = FIRST_PARAMETER[int(re.sub(r"\D", "", arch))]
    a, b = old.split("\n"), new.split("\n")
    there, back = {}, {}
    for i, (x, y) in enumerate(zip(a, b)):
        if PLACE.sub("c[]", x) != PLACE.sub("c[]", y):
            return f"line {i} of {len(a)} and {len(b)}:\n    {x}\n    {y}"
        for p, q in zip(PLACE.findall(x), PLACE.findall(y)):
            p, q = int(p, 16), int(q, 16)
            same = there.setdefault(p, q) == q and back.setdefault(q, p) == p if min(p, q) >= first else p == q
            if not same:
                return f"line {i}: another parameter:\n    {x}\n    {y}"
    return f"{len(a)} and {len(b)} lines" if len(a) != len(b) else None


def sources(folder, only):
    found = {}
    for path in sorted(Path(folder).glob("*.cu")):
        name, *rest = path.read_text().split("\n")
        options = [line[len("// option "):] for line in rest if line.startswith("// option ")]
        if not only or any(o in name for o in only):
            found[name[3:]] = ("\n".join(rest), options)
    return found


def of_plan(path, arch):
    """The machine code of a plan's kernels, which are entries of its metadata: a key, then field 2, its length and base64."""
    text = Path(path).read_bytes()
    found = []
    for key in re.finditer(rb"smelt\.plan\.kernel\.[0-9a-f]{32}\x12", text):
        length, shift, at = 0, 0, key.end()
        while True:                                                          # a varint
            byte = text[at]
            length |= (byte & 0x7f) << shift
            shift, at = shift + 7, at + 1
            if byte < 0x80:
                break
        data = base64.b64decode(text[at:at + length])
        found += disassemble(data[data.index(b"\x7fELF"):])
    return found


def compare_plans(old, new, arch):
    a, b = of_plan(old, arch), of_plan(new, arch)
    left = list(a)
    unmatched = 0
    for k in b:
        match = next((o for o in left if differ(o, k, arch) is None), None)
        if match is None:
            unmatched += 1
        else:
            left.remove(match)
    print(f"{old}: {len(a)} kernels, {new}: {len(b)}; {unmatched} have no equal")
    return unmatched + abs(len(a) - len(b))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--old-headers")
    p.add_argument("--new-headers")
    p.add_argument("--arch", default="sm_90a")
    p.add_argument("--only", action="append", default=[], help="kernels with this in their names")
    p.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "machine_code"))
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    a = p.parse_args()
    if a.old.endswith(".onnx"):
        sys.exit(1 if compare_plans(a.old, a.new, a.arch) else 0)
    os.makedirs(a.cache, exist_ok=True)
    old, new = sources(a.old, a.only), sources(a.new, a.only)
    names = sorted(old.keys() & new.keys())
    for name in sorted(old.keys() ^ new.keys()):
        print(f"only in {'OLD' if name in old else 'NEW'}: {name}")
    old_headers, new_headers = headers_of(a.old_headers), headers_of(a.new_headers)
    jobs = [(*old[n], a.arch, old_headers, a.cache) for n in names] + [(*new[n], a.arch, new_headers, a.cache) for n in names]
    with concurrent.futures.ProcessPoolExecutor(a.jobs) as pool:
        code = list(pool.map(machine_code, jobs, chunksize=4))
    different = 0
    for n, x, y in zip(names, code[: len(names)], code[len(names):]):
        why = next((d for d in map(differ, x, y, [a.arch] * len(x)) if d), None)
        if len(x) != len(y):
            why = f"{len(x)} kernels and {len(y)}"
        if why is None and any(k.startswith("does not compile") for k in y):
            why = y[0]
        if why:
            different += 1
            print(f"DIFFERENT {n}\n  {why}")
    print(f"{a.arch}: {len(names)} sources, {different} different")
    sys.exit(1 if different or old.keys() != new.keys() else 0)


if __name__ == "__main__":
    main()
