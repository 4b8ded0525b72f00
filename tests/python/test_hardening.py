"""The built files are hardened as distributions do it, and load no library from the working directory."""
import os
import pathlib
import shutil
import struct
import subprocess

import pytest

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_NULL, DT_STRTAB, DT_RPATH, DT_BIND_NOW, DT_RUNPATH, DT_FLAGS, DT_FLAGS_1 = 0, 5, 15, 24, 29, 30, 0x6FFFFFFB
ET_DYN, PF_X, DF_BIND_NOW, DF_1_NOW = 3, 1, 8, 1


class Elf:
    """The headers of a 64-bit little-endian ELF file that say how it is loaded."""

    def __init__(self, path):
        self.bytes = data = pathlib.Path(path).read_bytes()
        assert data[:6] == b"\x7fELF\x02\x01"
        self.type, = struct.unpack_from("<H", data, 16)
        table, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, table + i * size) for i in range(count)]
        dynamic = next(s for s in self.segments if s[0] == PT_DYNAMIC)
        entries = struct.iter_unpack("<QQ", data[dynamic[2]:dynamic[2] + dynamic[5] // 16 * 16])
        self.dynamic = {}
        for tag, value in entries:
            if tag == DT_NULL:
                break
            self.dynamic[tag] = value

    def string(self, tag):
        """Of the dynamic string table; None where there is no such entry."""
        if tag not in self.dynamic:
            return None
        address = self.dynamic[DT_STRTAB]
        load = next(s for s in self.segments if s[0] == PT_LOAD and s[3] <= address < s[3] + s[5])
        start = address - load[3] + load[2] + self.dynamic[tag]
        return self.bytes[start:self.bytes.index(b"\0", start)].decode()

    def segment(self, kind):
        return next((s for s in self.segments if s[0] == kind), None)


@pytest.fixture
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()


@pytest.fixture(params=["smelt", "libsmelt.so", "smelt_ext"])
def built(request, build):
    paths = {"smelt": build / "smelt", "libsmelt.so": build / "libsmelt.so",
             "smelt_ext": next(iter((build / "python" / "smelt").glob("smelt_ext*.so")), build / "missing")}
    if not paths[request.param].exists():
        pytest.skip(f"{request.param} is not built")
    return Elf(paths[request.param])


def hardened(build):
    return "SMELT_HARDEN:BOOL=ON" in (build / "CMakeCache.txt").read_text()


def test_every_entry_of_the_runpath_is_a_whole_path(built):
    for tag in (DT_RPATH, DT_RUNPATH):
        path = built.string(tag)
        for entry in [] if path is None else path.split(":"):
            assert entry.startswith(("/", "$ORIGIN")), f"{entry!r} of {path!r} is taken from the working directory"


def test_addresses_are_bound_before_the_first_instruction_and_read_only(built, build):
    if not hardened(build):
        pytest.skip("built without SMELT_HARDEN")
    assert built.type == ET_DYN, "not a position-independent executable"
    assert built.segment(PT_GNU_RELRO)
    now = DT_BIND_NOW in built.dynamic or built.dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or built.dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW
    assert now, "functions' addresses are looked up lazily, in a table that can be written"
    assert not built.segment(PT_GNU_STACK)[1] & PF_X, "the stack is executable"


def test_functions_check_their_stack_and_library_calls_their_buffers(built, build):
    if not hardened(build):
        pytest.skip("built without SMELT_HARDEN")
    assert b"__stack_chk_fail\0" in built.bytes
    assert b"__memcpy_chk\0" in built.bytes or b"__snprintf_chk\0" in built.bytes or b"__read_chk\0" in built.bytes


def test_a_library_in_the_working_directory_is_not_loaded(build, tmp_path):
    compiler = shutil.which("cc") or shutil.which("c++")
    if not compiler:
        pytest.skip("no compiler")
    source = tmp_path / "evil.c"
    source.write_text('#include <unistd.h>\n__attribute__((constructor)) static void run(void) { write(1, "loaded", 6); _exit(77); }\n')
    for name in ("libz.so.1", "libsqlite3.so.0", "libgomp.so.1", "libcuda.so.1", "libnvrtc.so"):
        subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / name, source], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    for verb in (["--version"], ["devices"]):
        done = subprocess.run([build / "smelt", *verb], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode != 77 and "loaded" not in done.stdout
