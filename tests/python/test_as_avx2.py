"""bench/as_avx2.py: what it starts finds a processor that has AVX2 at most."""
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import as_avx2  # noqa: E402

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="holds x86-64 processors only"),
    pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("objdump")), reason="gcc and objdump are needed"),
]


def instruction_sets(command, **kwargs):
    said = json.loads(command("devices", "--json", **kwargs).stdout)
    return set(next(row["value"] for row in said["cpu"] if row["what"] == "isa").split(", "))


@pytest.fixture(scope="module")
def held(command, tmp_path_factory):
    return as_avx2.environment([command.path.resolve()], tmp_path_factory.mktemp("held"))


def test_a_command_finds_avx2_at_most(command, held):
    assert instruction_sets(command, env={**os.environ, **held}) == instruction_sets(command) - {"avx512", "vnni", "bf16", "amx", "fp16"}


def test_a_list_of_other_code_ends_the_program(command, held, tmp_path):
    """An address that has no CPUID would hold nothing, and the timing would be another processor's."""
    path, first, *_ = pathlib.Path(held["CPUID_LIST"]).read_text().split("\t")
    (tmp_path / "list").write_text(f"{path}\t{int(first, 16) + 1:x}\n")
    ended = command("devices", code=3, env={**os.environ, **held, "CPUID_LIST": str(tmp_path / "list")})
    assert "has changed since it was listed" in ended.stderr


def test_a_program_of_its_own_keeps_its_traps(tmp_path):
    held = as_avx2.environment([], tmp_path)
    source, program = tmp_path / "trap.c", tmp_path / "trap"
    source.write_text("int main(void) { __builtin_trap(); }\n")
    subprocess.run(["gcc", "-o", program, source], check=True)
    assert subprocess.run([program], env={**os.environ, **held}, check=False).returncode == -4
