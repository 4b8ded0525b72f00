"""The rooms of src, as docs/architecture.md lists them, hold: scripts/architecture.py."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import architecture  # noqa: E402

ROOMS = ["base/", "ops/core/", "ops/conv/"]


def test_every_file_lies_in_a_room_and_no_include_goes_up():
    assert architecture.violations(architecture.read_tree(), architecture.read_rooms()) == []


def test_the_picture_is_that_of_the_includes():
    assert architecture.DOT.read_text() == architecture.current(), "renew it: scripts/architecture.py --draw"
    assert "<svg" in architecture.SVG.read_text()


def test_the_stages_come_in_the_order_in_which_they_are_linked():
    linked = [line.split("(")[1].split(")")[0].split()[0] for line in (ROOT / "CMakeLists.txt").read_text().splitlines()
              if line.strip().startswith("smelt_module(")]
    stages = list(dict.fromkeys(room.split("/")[0] for room in architecture.read_rooms()))
    assert [stage for stage in stages if stage in linked] == linked


def test_an_include_of_a_later_room_is_named_with_its_file_and_line():
    tree = {"base/a.h": "", "ops/conv/conv.h": "", "ops/core/tactic.cpp": '#include "base/a.h"\n#include "ops/conv/conv.h"\n'}
    found = architecture.violations(tree, ROOMS)
    assert len(found) == 1
    assert found[0].startswith('src/ops/core/tactic.cpp:2: #include "ops/conv/conv.h" goes from ops/core/ up to ops/conv/')


def test_a_file_outside_every_room_is_named():
    tree = {"ops/new/a.h": "", "ops/list.cpp": "", "ops/conv/simd/row.cpp": ""}     # a folder below a room belongs to it
    found = architecture.violations(tree, ["ops/conv/", "ops"])
    assert [line.split(":")[0] for line in found] == ["src/ops/new/a.h lies in no room"]


def test_a_room_without_files_is_named():
    assert architecture.violations({"base/a.h": ""}, ["base/", "expr/"]) == [
        "docs/architecture.md lists expr/, which holds no file: remove the row"]


def test_an_include_beside_a_file_and_one_of_the_api_are_followed():
    tree = {"include/smelt/tensor.h": "", "ops/conv/a.h": "", "ops/conv/b.cpp": '#include "a.h"\n#include "smelt/tensor.h"\n'}
    assert [i.target for i in architecture.includes(tree)] == ["ops/conv/a.h", "include/smelt/tensor.h"]


def test_an_edge_that_a_longer_way_stands_for_is_left_out_and_a_circle_is_kept():
    kept, cycles = architecture.reduced({("a", "b"): 1, ("b", "c"): 1, ("a", "c"): 9, ("d", "e"): 1, ("e", "d"): 1})
    assert kept == {("a", "b"), ("b", "c"), ("d", "e"), ("e", "d")}
    assert cycles == {("d", "e"), ("e", "d")}


def hiding(tree):
    """{(name, namespace)} of the types that headers declare in a namespace below smelt though smelt itself has one of the name: code
    in there that means smelt's compiles with the other, as `static_cast<Half*>` did with an enumeration of bytes."""
    types = {}
    for path, text in tree.items():
        namespace = ""
        for line in text.splitlines() if path.endswith(".h") else ():
            if opens := re.match(r"namespace ([\w:]+) \{", line):
                namespace = opens[1]
            elif declares := re.match(r"(?:struct|class|enum class|enum|using) (\w+)\b(?!;)", line):
                types.setdefault(declares[1], set()).add(namespace)
    return {(name, inner) for name, spaces in types.items() if "smelt" in spaces for inner in spaces if inner.startswith("smelt::")}


def test_no_type_hides_one_that_all_namespaces_see():
    known = {("Cache", "smelt::tune"), ("Options", "smelt::fuse"), ("Graph", "smelt::device::cuda::abi")}
    assert hiding(architecture.read_tree()) - known == set(), "give it another name"
    tree = {"base/half.h": "namespace smelt {\nstruct Half {\n};\n", "ops/core/facts.h": "namespace smelt::ops {\nenum class Half : uint8_t {\n"}
    assert hiding(tree) == {("Half", "smelt::ops")}


def defined_twice(tree):
    """{(namespace, name): files} of the types with a body in more than one file. Two of one name are undefined behaviour where both are
    linked, in different sources too: a std::vector of the one was copied by the functions of the other."""
    quiet = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
    token = re.compile(r"\bnamespace (?P<space>[\w:]*) ?\{|\b(?:struct|class|union|enum) (?P<type>\w+)(?: final)?(?: ?:[^:;{}()][^;{}]*)? ?\{|"
                       r"(?P<open>\{)|(?P<close>\})")
    types = {}
    for path, text in tree.items():
        spaces = [""]  # of each open brace the namespace that it begins, None where it is another or has no name
        for found in token.finditer(quiet.sub('""', text).replace("enum class", "enum")):
            if found["close"]:
                spaces.pop()
                continue
            within = spaces[-1]
            if found["type"] and within is not None:
                types.setdefault((within, found["type"]), set()).add(path)
            spaces.append(f"{within}::{found['space']}".strip(":") if found["space"] and within is not None else None)
        assert spaces == [""], path
    return {name: files for name, files in types.items() if len(files) > 1}


def test_every_type_has_one_definition():
    tree = architecture.read_tree()
    kernels = [path for path in tree if path.startswith("kernels/")]  # each is a program of its own
    for path in kernels:
        del tree[path]
    assert defined_twice(tree) == {}, "give one of them another name, or an unnamed namespace"


def test_a_second_definition_is_found_in_sources_and_headers():
    body = "struct Operand {\n};\n"
    tree = {"a.h": f"namespace smelt::ops {{\n{body}}}  // namespace smelt::ops\n",
            "b.cpp": f"namespace smelt {{\nnamespace ops {{\n{body}}}  // namespace ops\n}}  // namespace smelt\n",
            "c.cpp": f"namespace smelt::ops {{\nnamespace {{\n{body}}}  // namespace\n}}  // namespace smelt::ops\n",
            "d.h": f"namespace smelt::expr {{\nstruct Operand;\n{body}}}  // namespace smelt::expr\n"}
    assert defined_twice(tree) == {("smelt::ops", "Operand"): {"a.h", "b.cpp"}}
