"""The docs: links resolve, paths that they name exist, and the reference of the API is current."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("tests/**/*.md"),
                *ROOT.glob("bench/**/*.md")])
FOLDERS = ("src", "include", "tests", "scripts", "docs", "examples", "bench", "python", "cmake")


def names(pages=PAGES):
    return [str(p.relative_to(ROOT)) for p in pages]


def prose(page):
    """The page without its indented and fenced blocks."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
    return re.sub(r"(?m)^    .*$", "", text)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    found = []
    for heading in re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", page.read_text())):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.append(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def expanded(pattern):
    """The alternatives of `a/{b,c}.md`."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        return [pattern]
    return [p for part in match[1].split(",") for p in expanded(pattern[:match.start()] + part + pattern[match.end():])]


@pytest.mark.parametrize("name", names())
def test_every_relative_link_leads_somewhere(name):
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name} links to {target}, and there is no {found.relative_to(ROOT)}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{name} links to {target}; {found.name} has the anchors {', '.join(anchors(found))}"


@pytest.mark.parametrize("name", names())
def test_every_path_that_a_page_names_exists(name):
    """`src/…`, `tests/…` and the like in backquotes; * and {a,b} stand for several. A name in CAPITALS is the reader's to fill in; a test's
    `file::name` is checked where the list of tests is."""
    for text in re.findall(r"`([^`\n]+)`", prose(ROOT / name)):
        for word in text.split():
            if not word.startswith(tuple(f + "/" for f in FOLDERS)) or re.search(r"[A-Z]{4,}|[…<>$\"']|::", word.replace("README", "")):
                continue
            for pattern in expanded(word.rstrip(".,:;")):
                assert any(ROOT.glob(pattern.rstrip("/"))), f"{name} names {word}, and nothing of that name is there"


@pytest.mark.parametrize("name", names([p for p in PAGES if p.parent.name == "docs" or p.parent == ROOT]))
def test_every_page_is_linked_from_another(name):
    page = ROOT / name
    links = [(p.parent / target.partition("#")[0]).resolve() for p in PAGES if p != page
             for target in re.findall(r"\]\(([^)\s]+)\)", p.read_text()) if not re.match(r"[a-z]+:|#", target)]
    assert name == "README.md" or page in links, f"no page links to {name}"


def test_the_reference_of_the_api_says_what_the_sources_say(request):
    result = subprocess.run([sys.executable, ROOT / "scripts/api_reference.py", "--check", "--build",
                             request.config.getoption("--build")], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


VERBS = ("info", "profile", "optimize", "quantize", "explain", "run", "bench", "compare", "diff", "tune", "inspect", "devices", "cache")


def test_every_verb_and_option_that_a_page_names_is_in_the_help(command):
    helps = {verb: command(verb, "--help").stdout for verb in VERBS}
    for page in PAGES:
        for verb, rest in re.findall(r"(?m)(?:^    (?:\$ )?|`)(?:build/)?smelt ([a-z]+)\b([^`\n]*)", page.read_text()):
            if page.name == "CHANGELOG.md" and verb not in helps:
                continue
            assert verb in helps, f"{page.name}: smelt {verb}"
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", rest.split("  #")[0]):
                assert option in helps[verb], f"{page.name}: smelt {verb} {option}"


@pytest.mark.parametrize(("page", "verb"), [("README.md", "explain"), ("docs/inspect.md", "inspect")])
def test_what_a_page_shows_of_a_command_is_what_it_prints(command, page, verb, tmp_path):
    """Of commands that measure nothing."""
    line, shown = re.search(rf"(?m)^    \$ (?:build/)?smelt ({verb} .*)\n((?:    .*\n|\n(?=    ))+)", (ROOT / page).read_text()).groups()
    words = [str(tmp_path) if word == "new" else str(ROOT / word) if word.startswith("examples/") else word for word in line.split()]
    printed = [text.rstrip() for text in command(*words).stdout.rstrip().splitlines()]
    assert printed == [text[4:].rstrip() for text in shown.rstrip().splitlines()]


def tour_commands():
    """The commands of docs/tour.md. Building is left to the build."""
    commands = re.findall(r"(?m)^    \$ (.*)$", (ROOT / "docs/tour.md").read_text())
    return [c for c in commands if not c.startswith("ninja") and not c.startswith("build/kernel_forms")]


def test_every_command_of_the_tour_runs_and_prints_its_problems(command, tmp_path):
    for name in ("examples", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build").symlink_to(command.path.resolve().parent)
    said = ""
    for line in tour_commands():
        result = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        if "--arch" in line and "NVRTC" in result.stderr:
            continue   # a build whose machine has no NVRTC
        assert result.returncode == 0, f"{line}\n{result.stdout}\n{result.stderr}"
        said += result.stdout
    blocks = re.findall(r"(?m)^    (?!\$ )(.*)$", (ROOT / "docs/tour.md").read_text())
    for line in blocks:
        if line.startswith(("%", "graph ", "return ")):
            assert line in said, line
    for problem in re.findall(r"(?m)^    relu  (conv:\S+)", (ROOT / "docs/tour.md").read_text()):
        assert problem in said, problem
