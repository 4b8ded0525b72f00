#!/usr/bin/env python3
"""Writes the reference of the public API: docs/api/cpp.md from include/smelt, docs/api/python.md from python/smelt.

usage: api_reference.py [--build DIR] [--check]
  --build DIR   the build folder with the module's stubs (build): its smelt_ext.pyi describes smelt.Tensor
  --check       writes nothing; exits with 1 where a page is not what the sources say
The C++ page is made from the headers' /// comments and the comments behind members, the Python page from docstrings.
"""
from __future__ import annotations

import argparse
import ast
import pathlib
import re
import sys
import textwrap
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADERS = ["session.h", "sequences.h", "threads.h", "tensor.h", "dtype.h", "shape.h", "error.h"]
MADE = "<!-- scripts/api_reference.py writes this page; edit the {} instead. -->\n"


@dataclass
class Declaration:
    """One declaration of a header: its text on one line, the /// lines before it, the // behind it, and its braces' content."""
    text: str
    doc: list[str] = field(default_factory=list)
    note: str = ""
    body: str | None = None
    follows: bool = False   # stands on the line after the declaration before it

    @property
    def is_function(self) -> bool:
        return "(" in re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "", self.text).split("=")[0]


def declarations(source: str) -> list[Declaration]:
    """The declarations on the outermost level of `source`, in their order. Members of a class come from its body."""
    found: list[Declaration] = []
    doc: list[str] = []
    text, position, opened, blank = "", 0, None, False
    while position < len(source):
        if source.startswith("//", position):
            end = source.find("\n", position)
            end = len(source) if end < 0 else end
            comment = source[position:end]
            alone = not source[source.rfind("\n", 0, position) + 1:position].strip()
            if comment.startswith("///") and not text.strip():
                doc.append(comment[3:].removeprefix(" "))
            elif not alone and found and not text.strip() and not re.match(r" *}", source[source.rfind("\n", 0, position) + 1:]):
                found[-1].note = comment[2:].strip()
            elif alone and found and found[-1].note and not comment.startswith("///"):
                found[-1].note += " " + comment[2:].strip()
            position = end
            continue
        c = source[position]
        if c == "#":                                                      # a directive
            position = source.find("\n", position)
        elif c == "{" and re.fullmatch(r"\s*(inline )?namespace [\w:]+ ", text):
            text = ""
        elif c == "{" and "(" not in text and not re.match(r"\s*(template.*)?(class|struct|enum|union)\b", text):
            close = matching(source, position)                            # = {}: a default value
            text += source[position:close + 1]
            position = close
        elif c == "{":
            close = matching(source, position)
            opened = source[position + 1:close]
            position = close
            if not re.match(r"\s*(template\s*<.*>\s*)?(class|struct|enum|union)\b", text) or "(" in text:
                add(found, text, doc, None, not blank)
                text, opened, blank = "", None, False
        elif c == "(":
            close = matching(source, position, "()")
            text += source[position:close + 1]
            position = close
        elif c == ";":
            add(found, text, doc, opened, not blank)
            text, opened, blank = "", None, False
        elif c == "}":
            text = ""
        elif c == ":" and re.fullmatch(r"\s*(public|private|protected)", text):
            add(found, text + ":", [], None)
            text = ""
        elif c == "\n" and not text.strip() and source.startswith("\n", position + 1):
            doc.clear()
            blank = True
        else:
            text += c
        position += 1
    return found


def add(found: list[Declaration], text: str, doc: list[str], body: str | None, follows: bool = False) -> None:
    text = re.sub(r"\s+", " ", text).strip()
    if text:
        found.append(Declaration(text, list(doc), body=body, follows=follows))
    doc.clear()


def matching(source: str, begin: int, pair: str = "{}") -> int:
    depth = 0
    for i in range(begin, len(source)):
        depth += (source[i] == pair[0]) - (source[i] == pair[1])
        if depth == 0:
            return i
    raise ValueError(f"unclosed {pair[0]}: {source[begin:begin + 60]}")


def clean(text: str) -> str:
    """A declaration as a caller reads it: no export macro, no `virtual … = 0`."""
    text = re.sub(r"\bSMELT_API |\[\[noreturn\]\] ", "", text).replace("virtual ", "")
    text = re.sub(r" : \w+\(.*\)$", "", text)                             # a constructor's initialisers
    return re.sub(r"\) (const )?(noexcept )?= 0$", lambda m: m[0].removesuffix(" = 0"), text)


def said(d: Declaration) -> str:
    parts = [" ".join(line.strip() for line in paragraph.splitlines()) for paragraph in "\n".join(d.doc).split("\n\n")]
    text = "\n\n".join(p for p in parts if p)
    return text + ("\n\n" if text and d.note else "") + d.note


def functions(group: list[Declaration]) -> str:
    """A code block of functions that one comment stands above, and that comment."""
    lines = [f"{clean(d.text)};" + (f"  // {d.note}" if d.note else "") for d in group]
    block = "```cpp\n" + "\n".join(lines) + "\n```\n\n"
    group[0].note = ""
    return block + (f"{said(group[0])}\n\n" if group[0].doc else "")


def grouped(found: list[Declaration]) -> list[list[Declaration]]:
    """Functions that follow another without a comment of their own go with it."""
    groups: list[list[Declaration]] = []
    for d in found:
        joins = groups and d.is_function and groups[-1][0].is_function and d.follows and not d.doc and not d.note
        if joins:
            groups[-1].append(d)
        else:
            groups.append([d])
    return groups


def cell(text: str) -> str:
    return text.replace("\n\n", " ").replace("|", "\\|")


def members(d: Declaration) -> str:
    """A class's or struct's public members: functions one by one, fields as a table."""
    public, out, fields = d.text.startswith("struct") or "struct " in d.text, "", []
    shown = []
    for m in declarations(d.body or ""):
        if m.text in ("public:", "private:", "protected:"):
            public = m.text == "public:"
        elif public and "~" not in m.text and not m.text.endswith("= default") and "operator=" not in m.text:
            shown.append(m)
    for group in grouped(shown):
        m = group[0]
        if m.text.startswith("enum"):
            kind = re.match(r"enum (class )?\w+", m.text)
            assert kind, m.text
            values = " ".join((m.body or "").split())
            out += f"```cpp\n{kind[0]} {{ {values} }}{m.text[kind.end():].partition(' : ')[0]};\n```\n\n"
        elif m.is_function:
            out += functions(group)
        else:
            fields.append(m)
    if fields:
        out += "| field | |\n|---|---|\n"
        out += "".join(f"| `{cell(clean(f.text))}` | {cell(said(f))} |\n" for f in fields) + "\n"
    return out


def cpp_page() -> str:
    out = MADE.format("headers in include/smelt") + "\n# The C++ API\n\n"
    out += "Everything is in namespace `smelt`. [examples/cpp](../../examples/cpp) builds against an installed smelt.\n\n"
    for header in HEADERS:
        source = (ROOT / "include/smelt" / header).read_text()
        opening = re.match(r"((?://.*\n)+)", source)
        assert opening, header
        out += f"## smelt/{header}\n\n"
        lines = [line[2:].removeprefix(" ") for line in opening[1].splitlines()]
        out += re.sub(r"(?m)^  (\S)", r"    \1", "\n".join(lines)) + "\n\n"
        for group in grouped(declarations(source[opening.end():])):
            d = group[0]
            kind = re.match(r"(class|struct|enum class|enum) (?:SMELT_API )?(\w+)", d.text)
            if (kind and d.body is None) or d.text.startswith("template <> struct"):
                continue
            if kind and "enum" in kind[1]:
                values = " ".join((d.body or "").split()).rstrip(",")
                out += f"### {kind[2]}\n\n{said(d)}\n\n```cpp\n{clean(d.text)} {{ {values} }};\n```\n\n"
            elif kind:
                out += f"### {kind[2]}\n\n" + (f"{said(d)}\n\n" if said(d) else "") + members(d)
            elif d.text.startswith("template"):
                continue
            elif d.is_function or d.text.startswith("using"):
                out += functions(group)
    return re.sub(r"\n{3,}", "\n\n", out)


def docstring(node: ast.AST) -> str:
    """The text, its lines "argument: …" as a list."""
    text = ast.get_docstring(node) or ""  # type: ignore[arg-type]
    text = re.sub(r"(?m)^([a-z_]+(?:, [a-z_]+)*): ", lambda m: "- " + ", ".join(f"`{n}`" for n in m[1].split(", ")) + ": ", text)
    return re.sub(r"\n(Raises )", r"\n\n\1", text)


def example(module: ast.Module) -> str:
    """A module's docstring, whose examples are indented."""
    return (ast.get_docstring(module, clean=False) or "").strip()


def signature(node: ast.FunctionDef, of_class: bool) -> str:
    if any(ast.unparse(d) == "property" for d in node.decorator_list):
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}"
    arguments = re.sub(r"Annotated\[NDArray, dict\([^)]*\)\]", "NDArray", ast.unparse(node.args))
    if of_class:
        arguments = re.sub(r"^(self|cls)(, )?", "", arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({arguments}){returns}"


def class_entry(name: str, node: ast.ClassDef, source: str) -> str:
    bases = [ast.unparse(b) for b in node.bases if ast.unparse(b) not in ("TypedDict", "object")]
    text = docstring(node)
    out = f"### {name}" + (f"({', '.join(bases)})" if bases else "") + "\n\n" + (f"{text}\n\n" if text else "")
    rows, lines = [], source.splitlines()
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            comment = lines[item.lineno - 1].partition("#")[2].strip()
            rows.append(f"| `{ast.unparse(item.target)}: {ast.unparse(item.annotation)}` | {cell(comment)} |\n")
        elif isinstance(item, ast.FunctionDef) and item.name == "__init__" and text:
            out += f"```python\n{signature(item, True).replace('__init__', name).removesuffix(' -> None')}\n```\n\n"
    if rows:
        out += "| field | |\n|---|---|\n" + "".join(rows) + "\n"
    for item in node.body:
        setter = isinstance(item, ast.FunctionDef) and any(ast.unparse(d).endswith(".setter") for d in item.decorator_list)
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_") and not setter:
            out += f"```python\n{signature(item, True)}\n```\n\n" + (docstring(item) + "\n\n" if docstring(item) else "")
    return out


def python_page(build: pathlib.Path) -> str:
    package = ROOT / "python/smelt"
    out = MADE.format("docstrings in python/smelt") + "\n# The Python API\n\n"
    out += example(ast.parse((package / "__init__.py").read_text())) + "\n\n"
    out += "Options are keywords everywhere: those of [BuildOptions](#buildoptions).\n\n"
    modules = [("session", "Sessions", ["Session", "NodeArg", "Cache"]), ("smelt_ext", None, ["Tensor"]),
               ("verbs", "The verbs", ["optimize", "profile", "explain", "bench", "Result", "Optimized"]),
               ("quantization", "8-bit models", ["quantize", "Quantized"]), ("options", "Options", ["BuildOptions"]),
               ("errors", "Errors", ["Error", "UsageError", "UnsupportedError", "AccuracyError", "NotProvenError"]),
               ("ops", "smelt.ops", ["linear", "forget_weights", "tune", "rms_norm", "layer_norm"]),
               ("torch", "smelt.torch", ["profile", "ModuleProfile"]),
               ("backend", "smelt.backend", ["SmeltBackend", "SmeltRep"])]
    for module, title, names in modules:
        path = build / "python/smelt/smelt_ext.pyi" if module == "smelt_ext" else package / f"{module}.py"
        source = path.read_text()
        tree = ast.parse(source)
        if title:
            out += f"## {title}\n\n{example(tree)}\n\n"
        nodes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        for name in names:
            node = nodes[name]
            if isinstance(node, ast.ClassDef):
                out += class_entry(name, node, source)
            else:
                out += f"### {name}\n\n```python\n{signature(node, False)}\n```\n\n{docstring(node)}\n\n"
    return re.sub(r"\n{3,}", "\n\n", out)


def main() -> int:
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""), formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    stale = False
    for page, text in (("cpp.md", cpp_page()), ("python.md", python_page(a.build))):
        path = ROOT / "docs/api" / page
        text = text.rstrip() + "\n"
        if a.check and (not path.exists() or path.read_text() != text):
            print(f"docs/api/{page} is not what the sources say: run scripts/api_reference.py", file=sys.stderr)
            stale = True
        elif not a.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
