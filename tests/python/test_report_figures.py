"""Every figure that the report's page shows is in the JSON of the same run, and is written there as the number that the page rounds."""
import json
import math
import re

import onnx
import pytest
from conftest import looped

UNITS = {"ns": 1e-3, "µs": 1, "ms": 1e3, "s": 1e6, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "%": 0.01,
         **{prefix + unit: 1000**i for unit in ("FLOP", "B/s", "FLOP/s") for i, prefix in enumerate(("", "K", "M", "G", "T"))}}


@pytest.fixture(scope="module")
def written(command, tmp_path_factory):
    """What the page shows and what the JSON says, of one run of bench."""
    folder = tmp_path_factory.mktemp("figures")
    onnx.save(looped(), folder / "looped.onnx")
    command("devices", "--measure", "--threads", 1, timeout=300)
    said = command("bench", folder / "looped.onnx", "--iterations", 12, "--duration", 0, "--warmUp", 0, "--tuning-level", 0, "--threads", 1,
                   "--report", folder / "report.html", "--json", timeout=300).stdout
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', (folder / "report.html").read_text(), re.DOTALL)
    return json.loads(embedded[1]), json.loads(said)


def reads_as(text, value, unit=1):
    """Whether a text such as "1.25 ms" is the value rounded; unit: of the value, in those of UNITS."""
    found = re.fullmatch(r"([-+]?[\d.]+(?:e[-+]\d+)?) ?(\S*)", text)
    if not found or (found[2] and found[2] not in UNITS):
        return False
    number = float(found[1]) * (UNITS[found[2]] if found[2] else 1)
    last = 10 ** -len(found[1].partition(".")[2]) if "e" not in found[1] else 0
    return abs(number - value * unit) <= 0.006 * abs(number) + last * (UNITS[found[2]] if found[2] else 1)


def differences(table, rows, names=None):
    """What a table of the page shows otherwise than rows of the JSON. `names`: the path of a column's value where it is another."""
    found = [] if len(table["rows"]) == len(rows) else [f"{table['key']}: {len(table['rows'])} rows, {len(rows)} in JSON"]
    for shown, row in zip(table["rows"], rows):
        for c, cell in zip(table["columns"], shown):
            value = row
            for part in (names or {}).get(c["key"], c["key"]).split("."):
                value = value.get(part, KeyError)
            where = f"{table['key']}.{c['key']}: {cell!r} on the page, {value!r} in JSON"
            if value is KeyError:
                found.append(f"{table['key']}.{c['key']} is not in JSON")
            elif isinstance(cell, list) and cell[1] is None:
                found += [where] * (value is not None)
            elif isinstance(cell, list):
                same = isinstance(value, (int, float)) and math.isclose(cell[1], value, rel_tol=1e-9, abs_tol=1e-9)
                found += [where] * (not same or not (reads_as(cell[0], value) or cell[0] == "0"))
            elif isinstance(value, bool):
                found += [where] * (cell != ("yes" if value else "no"))
            elif isinstance(value, list):
                found += [where] * ((cell["full"] if isinstance(cell, dict) else cell) != ", ".join(value))
            else:
                found += [where] * (cell.strip() != ("" if value in (None, 0) else str(value)))   # a zero may be left empty
    return found


STEP_NAMES = {"self_us": "us.median", "iqr_us": "us.iqr"}


@pytest.mark.parametrize("side", ["before", "after"])
def test_the_tables_of_a_side(written, side):
    page, said = written[0][side], written[1][side]
    found = differences(page["steps"], said["steps"], STEP_NAMES)
    shown = [key for key in ("advice", "scopes", "memory", "inside", "nodes", "copies") if key in page]
    assert {"advice", "scopes", "memory", "inside"} <= set(shown) and len(page["inside"]["rows"]) >= 4
    for key in shown:
        found += differences(page[key], said[key])
    # A step's kernel is one text on the page, and its settings are apart in JSON.
    assert [f for f in found if not f.startswith("steps.tactic")] == []
    assert reads_as(page["latency"], said["latency_us"]["median"])


@pytest.mark.parametrize("side", ["before", "after"])
def test_what_is_drawn_of_a_side(written, side):
    page, said = written[0][side], written[1][side]
    held = page["held"]
    assert reads_as(held["peak"], said["peak_bytes"]) and reads_as(held["weights"], said["weight_bytes"])
    assert held["peak_step"] == said["peak_step"] and len(held["steps"]) == len(said["steps"])
    for drawn, step in zip(held["steps"], said["steps"]):
        m = step["memory"]
        assert (drawn["name"], drawn["limiter"], drawn["bytes"]) == (
            step["name"], step["limiter"], [m["bound_bytes"], m["activation_bytes"], m["workspace_bytes"]])
        assert (drawn["begin_us"], drawn["end_us"]) == pytest.approx((step["begin_us"], step["end_us"]))
    roof, steps = page["roofline"], {s["name"]: s for s in said["steps"]}
    assert reads_as(roof["text"], said["roof"]["bytes_per_s"]) and roof["bytes_per_s"] == pytest.approx(said["roof"]["bytes_per_s"])
    assert roof["rates"] and all(r["flops_per_s"] == pytest.approx(said["roof"]["flops_per_s"][r["type"]]) for r in roof["rates"])
    for mark in roof["steps"]:
        step = steps[mark["name"]]
        assert mark["us"] == pytest.approx(step["us"]["median"]) and mark["limiter"] == step["limiter"]
        assert mark["intensity"] == pytest.approx(step["flops_per_byte"])
        assert mark["flops_per_s"] == pytest.approx(step["flops"] / step["us"]["median"] * 1e6)
        assert mark["bytes_per_s"] == pytest.approx(step["bytes"] / step["us"]["median"] * 1e6)
        assert mark["text"].endswith(f"{step['limiter']}: {step['because']}")


def test_before_and_after(written):
    page, said = written
    b, bench = page["bench"], said["bench"]
    assert b["before_ms"] == pytest.approx(bench["before"]["samples_ms"]) and b["after_ms"] == pytest.approx(bench["after"]["samples_ms"])
    assert (b["speedup"], b["low"], b["high"]) == pytest.approx((bench["speedup"], bench["speedup_low"], bench["speedup_high"]))
    assert (b["verdict"], b["before_name"], b["after_name"]) == (bench["verdict"], bench["before"]["name"], bench["after"]["name"])
    of = {"average": ("ms", "mean", 1e3), "median": ("ms", "median", 1e3), "p90": ("ms", "p90", 1e3), "p99": ("ms", "p99", 1e3),
          "host memory": ("host_bytes", None, 1), "device memory": ("device_bytes", None, 1), "build": ("build_s", None, 1e6)}
    for name, before, after, change in b["qa"]["rows"]:
        key, part, unit = of[name.partition(",")[0]]
        sides = [bench[s][key][part] if part else bench[s][key] for s in ("before", "after")]
        assert reads_as(before, sides[0], unit) and reads_as(after, sides[1], unit), (name, before, after, sides)
        if isinstance(change, list) and change[1] is not None:
            assert change[1] == pytest.approx(sides[1] / sides[0] - 1)
    found = []
    for key in ("groups", "waterfall", "fused", "rewrites", "forms", "ledger", "errors"):
        if key in page:
            found += differences(page[key], said[key])
    assert found == [] and {"groups", "waterfall", "rewrites", "errors"} <= set(page)


def test_machine_and_versions(written):
    page, said = written
    assert len(page["machine"]) == len(said["machine"]) and len(page["versions"]) == len(said["versions"])


def test_a_part_of_the_page_that_no_test_here_knows_is_noticed(written):
    """A new table or drawing gets its line above."""
    sides = {"latency", "advice", "roofline", "others", "steps", "scopes", "memory", "held", "inside", "nodes", "copies"}
    whole = {"title", "machine", "versions", "drawing_note", "imported", "before", "after", "bench", "errors", "groups", "waterfall", "fused", "rewrites",
             "forms", "ledger"}
    page = written[0]
    assert set(page) <= whole and set(page["before"]) | set(page["after"]) <= sides
