"""The HTML report in a real browser: it renders, sorts, logs no error, and asks the network for nothing."""
import json
import re
import shutil
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(command, filled, tmp_path_factory):
    report = tmp_path_factory.mktemp("report") / "report.html"
    command("bench", filled("unet.fp32"), "--iterations", 2, "--duration", 0, "--warmUp", 0, "--tuning-level", 0,
            "--report", report, timeout=600)
    return report


def test_page_is_one_file_without_any_address(page):
    text = page.read_text()
    outside = [u for u in re.findall(r"""(?:src|href)\s*=\s*["']([^"'#]+)""", text)]
    assert outside == []
    assert not re.findall(r"@import|url\(\s*['\"]?http", text)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (Ubuntu ships it as a snap only)")
def test_page_renders_and_sorts_without_an_error(page, tmp_path):
    # The page drives itself: a script behind the page's own clicks headers and filters, and writes what it saw into the title.
    probe = """
<script>
window.addEventListener('error', e => { document.title = 'ERROR ' + e.message; });
const seen = {};
for (const id of ['bars', 'steps', 'scopes', 'graphs', 'ledger', 'errors', 'qa', 'memory'])
  seen[id] = !document.getElementById(id).hidden && document.getElementById(id).getBoundingClientRect().height > 40;
const selfColumn = [...document.querySelectorAll('#steps th')].findIndex(th => th.textContent === 'self');
const values = () => [...document.querySelectorAll(`#steps tbody tr td:nth-child(${selfColumn + 1})`)].map(td => td.textContent);
const us = t => { const [n, u] = t.split(' '); return parseFloat(n) * ({ns: 1e-3, 'µs': 1, ms: 1e3, s: 1e6}[u] || 0); };
document.querySelectorAll('#steps th')[selfColumn].click();
seen.descending = values().map(us).every((v, i, a) => i === 0 || a[i - 1] >= v * 0.99);
document.querySelectorAll('#steps th')[selfColumn].click();
seen.ascending = values().map(us).every((v, i, a) => i === 0 || a[i - 1] <= v * 1.01);
seen.rows = values().length;
seen.nodes = document.querySelectorAll('.graph:not([hidden]) svg g.node').length;
const all = document.querySelectorAll('#ledger tbody tr').length, input = document.querySelector('#ledger input');
input.value = 'matched'; input.dispatchEvent(new Event('input'));
seen.filtered = document.querySelectorAll('#ledger tbody tr').length < all;
if (!document.title.startsWith('ERROR')) document.body.setAttribute('data-seen', JSON.stringify(seen));
</script>"""
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text().replace("</body>", probe + "</body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--window-size=1400,1000"]
    result = subprocess.run([BROWSER, *options, "--dump-dom", f"file://{probed}"], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in result.stderr, result.stderr
    found = re.search(r'data-seen="([^"]*)"', result.stdout)
    assert found, result.stderr[-2000:]
    seen = json.loads(found.group(1).replace("&quot;", '"'))
    assert all(seen.values()), seen
    assert seen["rows"] > 10 and seen["nodes"] > 10


def test_a_graph_of_a_thousand_nodes_is_drawn(command, tmp_path):
    # Blocks that all read one condition, six ways each, as a diffusion transformer does: unbounded, dot takes minutes.
    nodes, weights = [], [helper.make_tensor("six", TensorProto.INT64, [6], [4] * 6)]
    value, made = "x", 0

    def node(op, *inputs, outputs=1, **attributes):
        nonlocal made
        made += 1
        names = [f"v{made}_{i}" for i in range(outputs)]
        nodes.append(helper.make_node(op, inputs, names, name=f"n{made}", **attributes))
        return names if outputs > 1 else names[0]

    condition = node("Tanh", "c")
    for _ in range(40):
        joined = node("Concat", *[condition] * 6, axis=1)
        shift, scale, gate, shift2, scale2, gate2 = node("Split", joined, "six", outputs=6, axis=1)
        for a, b, g in ((shift, scale, gate), (shift2, scale2, gate2)):
            inner = value
            for step in range(5):
                inner = node(("Sin", "Cos", "Sigmoid", "Tanh", "Erf")[step], inner)
            inner = node("Add", node("Mul", inner, b), a)
            inner = node("Softmax", node("Sin", node("Cos", inner)), axis=1)
            value = node("Add", value, node("Mul", inner, g))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in ("x", "c")],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, 4])], weights)
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    result = command("profile", model, "--iterations", 1, "--tuning-level", 0, "--out", tmp_path / "out")
    assert "not drawn" not in result.stderr, result.stderr
    assert (tmp_path / "out" / "graph.svg").read_text().count('class="node') > 950
