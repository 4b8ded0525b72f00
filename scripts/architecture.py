#!/usr/bin/env python3
"""Holds the sources to the rooms of docs/architecture.md, and draws them.

usage: architecture.py            check: every file lies in a room, no include goes to a later room, the picture is current
       architecture.py --draw     renew docs/architecture.dot and docs/architecture.svg (needs Graphviz)
       architecture.py --commit COMMIT OUT.svg    draw an older tree, whose rooms are its folders; cycles are red

The rooms are the rows of the page's tables whose first cell is a path below src (or include/smelt), in order. A path with a slash
at its end takes in the folders below it that have no row of their own; one without holds only the files directly in it.
Exit status 1 when something is wrong.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, DOT, SVG = (ROOT / "docs" / f"architecture.{ending}" for ending in ("md", "dot", "svg"))
SOURCES = (".h", ".cpp", ".cuh", ".def")
API = "include/smelt/"

Include = collections.namedtuple("Include", "source line text target")   # paths below src; target None where it is not ours


def read_tree():
    """{path: text} of the sources: paths below src, and include/smelt/…"""
    files = [p for folder in ("src", "include") for p in sorted((ROOT / folder).rglob("*")) if p.suffix in SOURCES]
    return {str(p.relative_to(ROOT)).removeprefix("src/"): p.read_text() for p in files}


def read_commit(commit):
    def git(*command, text=None):
        return subprocess.run(["git", *command], cwd=ROOT, input=text, capture_output=True, check=True).stdout

    paths = [p for p in git("ls-tree", "-r", "--name-only", commit, "src", "include").decode().split() if p.endswith(SOURCES)]
    blobs = git("cat-file", "--batch", text="".join(f"{commit}:{p}\n" for p in paths).encode())
    tree = {}
    for path in paths:                                        # each: "ID blob SIZE\n", SIZE bytes, "\n"
        header, blobs = blobs.split(b"\n", 1)
        size = int(header.split()[2])
        tree[path.removeprefix("src/")], blobs = blobs[:size].decode(), blobs[size + 1:]
    return tree


def read_rooms(page=None):
    """The paths of the page's rows, in order."""
    return re.findall(r"^\| `([^`]+)` \|", page or PAGE.read_text(), re.M)


def room_of(path, rooms):
    """The room that holds the file, or None."""
    folder = path.rpartition("/")[0]
    if folder in rooms:
        return folder
    while folder:
        if folder + "/" in rooms:
            return folder + "/"
        folder = folder.rpartition("/")[0]
    return None


def includes(tree):
    """Every #include "…" of the tree."""
    for source, text in tree.items():
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', text, re.M):
            name = match[1]
            near = f"{source.rpartition('/')[0]}/{name}"
            target = next((p for p in (name, f"kernels/{name}", f"include/{name}", near) if p in tree), None)
            yield Include(source, text.count("\n", 0, match.start()) + 1, match[0].strip(), target)


def folders(tree):
    """The rooms of a tree without a page: include/smelt, the folders of ops and fuse, and the other stages whole."""
    found = set()
    for path in tree:
        parts = path.split("/")[:-1]
        deep = parts[0] in ("ops", "fuse") and len(parts) > 1
        if parts[0] == "include":
            found.add(API)
        elif deep:
            found.add("/".join(parts[:2]) + "/")
        else:
            found.add(parts[0] if parts[0] in ("ops", "fuse") else parts[0] + "/")
    return sorted(found)


def shown(path):
    return path if path.startswith("include/") else f"src/{path}"


def violations(tree, rooms):
    """What breaks a rule, as messages that name the file, the include and the rule."""
    found = []
    order = {room: i for i, room in enumerate(rooms)}
    for path in tree:
        if room_of(path, rooms) is None:
            found.append(f"{shown(path)} lies in no room: move it into one, or add its folder to docs/architecture.md")
    held = {room_of(path, rooms) for path in tree}
    found += [f"docs/architecture.md lists {room}, which holds no file: remove the row" for room in rooms if room not in held]
    for i in includes(tree):
        here, there = room_of(i.source, rooms), i.target and room_of(i.target, rooms)
        if here and there and order[there] > order[here]:
            found.append(f"{shown(i.source)}:{i.line}: {i.text} goes from {here} up to {there}; a room includes only rooms above "
                         "its row in docs/architecture.md")
    return found


def edges(tree, rooms):
    """{(room, room that it includes): number of includes}"""
    count = collections.Counter()
    for i in includes(tree):
        here, there = room_of(i.source, rooms), i.target and room_of(i.target, rooms)
        if here and there and here != there:
            count[here, there] += 1
    return count


def reachable(start, targets):
    seen, left = set(), [start]
    while left:
        for room in targets[left.pop()]:
            if room not in seen:
                seen.add(room)
                left.append(room)
    return seen


def reduced(count):
    """The edges without those that a longer way stands for (transitive reduction), and the edges of cycles, which all stay."""
    targets = collections.defaultdict(set)
    for here, there in count:
        targets[here].add(there)
    reach = {room: reachable(room, targets) for room in {r for edge in count for r in edge}}
    cycles = {(a, b) for a, b in count if a in reach[b]}

    def longer_way(a, b):
        return any(b in reach[c] and a not in reach[c] and c not in reach[b] for c in targets[a] if c != b)

    return {edge for edge in count if edge in cycles or not longer_way(*edge)}, cycles


def width(includes_count):
    """Of a line. Four widths, so that a new include seldom changes the picture."""
    return next(w for w, most in ((1, 3), (1.8, 15), (3, 63), (5, 10**9)) if includes_count <= most)


def draw(tree, rooms, title):
    """The picture in Graphviz's language: an arrow from a room to one that it includes, boxes by stage."""
    held = {room_of(path, rooms) for path in tree}
    rooms = [room for room in rooms if room in held]
    count = edges(tree, rooms)
    kept, cycles = reduced(count)
    stages = collections.defaultdict(list)
    for room in rooms:
        stages["smelt" if room == API else room.split("/")[0]].append(room)
    lines = ["// Drawn by scripts/architecture.py.", "digraph architecture {",
             f'  graph [rankdir=TB, ranksep=0.45, nodesep=0.18, fontname="Helvetica", fontsize=13, labelloc=t, label="{title}"]',
             '  node [shape=box, style="filled,rounded", fillcolor="#ffffff", color="#5b6b7b"]',
             '  node [fontname="Helvetica", fontsize=11, height=0.3]',
             '  edge [color="#7d8fa1", arrowsize=0.6]']
    for stage, inside in stages.items():
        if len(inside) > 1:
            lines.append(f'  subgraph "cluster_{stage}" {{ label="{stage}"; style="filled,rounded"; color="#e8eef4"')
        for room in inside:
            name = room.removesuffix("/")
            label = name.removeprefix(stage + "/") if len(inside) > 1 else name
            lines.append(f'  {"  " if len(inside) > 1 else ""}"{room}" [label="{label}"]')
        if len(inside) > 1:
            lines.append("  }")
    for edge in sorted(kept, key=lambda e: (rooms.index(e[0]), rooms.index(e[1]))):
        red = ', color="#c0392b"' if edge in cycles else ""
        lines.append(f'  "{edge[0]}" -> "{edge[1]}" [penwidth={width(count[edge])}{red}]')
    return "\n".join(lines) + "\n}\n"


def current():
    """The text of docs/architecture.dot as it must be."""
    return draw(read_tree(), read_rooms(),
                "An arrow goes from a room to one that it includes; arrows that a longer way stands for are left out.")


def render(dot, target):
    with tempfile.NamedTemporaryFile("w", suffix=".dot") as source:
        source.write(dot)
        source.flush()
        subprocess.run(["dot", "-Tsvg", source.name, "-o", str(target)], check=True)


def main(arguments):
    if arguments[:1] == ["--commit"] and len(arguments) == 3:
        tree = read_commit(arguments[1])
        title = f"The folders at {arguments[1]}; red: folders that include one another in a circle."
        render(draw(tree, folders(tree), title), arguments[2])
        return 0
    if arguments == ["--draw"]:
        DOT.write_text(current())
        render(DOT.read_text(), SVG)
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    found = violations(read_tree(), read_rooms())
    if not DOT.exists() or DOT.read_text() != current():
        found.append("docs/architecture.dot is not what the includes give: scripts/architecture.py --draw")
    print("\n".join(found) or f"{len(read_rooms())} rooms, no include upwards")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
