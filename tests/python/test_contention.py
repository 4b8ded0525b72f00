"""smelt profile A --with B: two models on the same cores."""

import json

import pytest
from test_limits import large_product, measured, strided_copy, tiny_kernels  # noqa: F401


def test_two_models_on_the_same_cores_are_compared_with_each_alone(measured, tmp_path):  # noqa: F811
    a, b = large_product(tmp_path), strided_copy(tmp_path)
    options = ("--with", b, "--seconds", 0.7, "--tuning-level", 0, "--json")
    tables = json.loads(measured("profile", a, *options, timeout=300).stdout)
    assert [r["model"] for r in tables["contention"]] == ["product.onnx", "copy.onnx"]
    for r in tables["contention"]:
        assert r["slower"] == pytest.approx(r["together_us"] / r["alone_us"]) and r["predicted"] >= 1
        lost = r["cores_us"] + r["memory_us"] + r["queueing_us"]
        assert lost == pytest.approx(max(0, r["together_us"] - r["alone_us"]), abs=1e-3 * r["together_us"])
    [step] = [s for s in tables["steps"] if s["name"] == "it"]
    assert step["limiter"] and step["slower_us"] == pytest.approx(step["cores_us"] + step["memory_us"])
    assert sum(r["slower"] for r in tables["contention"]) > 2.2, "they share cores"
    names = [r["arrangement"] for r in tables["remedies"]]
    assert names[0] == "as they are" and {"threads of one process", "the others yield", "the others paced"} <= set(names)
    first = tables["remedies"][0]["p99_us"]
    for r in tables["remedies"]:
        assert r["change"] == pytest.approx(r["p99_us"] / first - 1) and r["others_per_s"] > 0
    said = measured("profile", a, *options[:-1], timeout=300).stdout
    assert "p99 of product.onnx from" in said or "None of them lowers the p99" in said


def test_what_contention_cannot_do_is_said(measured, tmp_path):  # noqa: F811
    a = tiny_kernels(tmp_path)
    assert "Leave --device out" in measured("profile", a, "--with", a, "--device", "gpu", code=2).stderr
    assert "none.onnx" in measured("profile", a, "--with", tmp_path / "none.onnx", code=1).stderr
