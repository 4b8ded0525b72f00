"""Sources compile with the fuzzers' compiler, clang++ 14 and libstdc++ 12: scripts/clang_forms.py."""
import json
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import clang_forms  # noqa: E402


def test_no_source_has_a_form_that_it_lacks():
    assert [line for path in clang_forms.sources() for line in clang_forms.violations(path, (ROOT / path).read_text())] == []


@pytest.mark.parametrize(("code", "new"), [
    ("v.erase(std::ranges::unique(v).begin(), v.end());", "std::unique"),
    ("std::ranges::remove_if(v, f);", "std::erase_if"),
    ("for (int x : v | std::views::reverse) sum += x;", "a loop"),
    ("for (int x : views::iota(0, 3)) sum += x;", "a loop"),
    ("std::ranges::subrange s(a, b);", "a loop"),
    ("std::ranges::ref_view all(v);", "a loop"),
    ("using std::ranges::equal_range;", "std::equal_range"),
    ("using namespace std::ranges;", "algorithms by their full names"),
    ("namespace r = std::ranges;", "algorithms by their full names"),
])
def test_a_form_that_it_lacks_is_named_with_its_line_and_what_to_write(code, new):
    found = clang_forms.violations("src/a.cpp", f'#include <algorithm>\n{code}\nconst char* quote = "\\"";\n')
    assert [line.split(": ")[0] for line in found] == ["src/a.cpp:2"]
    assert found[0].endswith(f"write {new}")


@pytest.mark.parametrize("code", [
    "std::ranges::sort(v);", "std::ranges::unique_copy(v, out);", "std::ranges::find_if(v, f);", "std::ranges::end(v);",
    "v.erase(std::unique(v.begin(), v.end()), v.end());", "// std::ranges::unique has none", '"std::views::reverse"', "views.size();",
    "'\"'; f('\"');  /* std::views::all */",
])
def test_other_forms_comments_and_texts_pass(code):
    assert clang_forms.violations("src/a.cpp", code) == []


def test_a_changed_header_is_read_with_a_source_that_includes_it(tmp_path):
    known = {"src/base/error.cpp": None, "src/plan/planner.cpp": None}
    assert clang_forms.read_with("src/base/error.cpp", known) == "src/base/error.cpp"
    assert clang_forms.read_with("src/plan/planner.h", known) == "src/plan/planner.cpp"
    assert clang_forms.read_with("src/base/nobody.h", known) is None
    assert clang_forms.read_with("src/base/nobody.cpp", known) is None


@pytest.mark.skipif(not shutil.which("clang++"), reason="needs clang++")
def test_clang_reads_a_source_as_the_build_compiles_it(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(clang_forms, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/good.cpp").write_text("static_assert(NUMBER == 3);\n")
    (tmp_path / "src/bad.cpp").write_text("int bad = nothing;\n")
    (tmp_path / "compile_commands.json").write_text(json.dumps(
        [{"directory": str(tmp_path), "file": f"src/{name}.cpp", "command": f"ccache g++ -DNUMBER=3 -std=c++20 -fpch-preprocess -Winvalid-pch -include {tmp_path}/none/cmake_pch.hxx -o {name}.o -c src/{name}.cpp"}
         for name in ("good", "bad")]))
    assert clang_forms.main([str(tmp_path), "2", "src/good.cpp"]) == 0
    assert clang_forms.main([str(tmp_path), "2", "src/good.cpp", "src/bad.cpp"]) == 1
    assert "src/bad.cpp:1:11: error" in capfd.readouterr().out
    assert list(tmp_path.glob("*.o")) == []


def test_commands_for_clang_tidy_are_without_precompiled_headers(tmp_path):
    command = "g++ -O2 {}-DNUMBER=3{} -o a.o -c a.cpp"
    (tmp_path / "compile_commands.json").write_text(json.dumps([{"directory": "/", "file": "a.cpp", "command": command.format(
        "-fpch-preprocess ", " -Winvalid-pch -include /build/CMakeFiles/a.dir/cmake_pch.hxx")}]))
    assert clang_forms.main([str(tmp_path), "--commands", str(tmp_path / "for")]) == 0
    assert json.loads((tmp_path / "for/compile_commands.json").read_text()) == [
        {"directory": "/", "file": "a.cpp", "command": command.format("", "")}]
