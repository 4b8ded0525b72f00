"""The HTML report in a real browser: it renders, sorts, logs no error, and asks the network for nothing."""
import html
import json
import re
import subprocess

import browser
import onnx
import pytest
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def page(command, filled, tmp_path_factory):
    report = tmp_path_factory.mktemp("report") / "report.html"
    command("bench", filled("unet.fp32"), "--iterations", 2, "--duration", 0, "--warmUp", 0, "--tuning-level", 0,
            "--report", report, timeout=600)
    return report


def test_page_is_one_file_without_any_address(page):
    text = page.read_text()
    outside = re.findall(r"""(?:src|href)\s*=\s*["']([^"'#]+)""", text)
    assert outside == []
    assert not re.findall(r"@import|url\(\s*['\"]?http", text)


def probed(page, tmp_path, probe, width=1400):
    """What a script that runs behind the page's own leaves in `seen`."""
    script = """
<script>
window.addEventListener('error', e => { document.title = 'ERROR ' + e.message; });
const seen = {};
""" + probe + """
if (!document.title.startsWith('ERROR')) document.body.setAttribute('data-seen', JSON.stringify(seen));
</script>"""
    copy = tmp_path / "probed.html"
    copy.write_text(page.read_text().replace("</body>", script + "</body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", f"--window-size={width},1000"]
    result = subprocess.run([browser.PATH, *options, "--dump-dom", f"file://{copy}"], capture_output=True, text=True, timeout=120,
                            env=browser.ENVIRONMENT)
    assert "CONSOLE" not in result.stderr, result.stderr
    found = re.search(r'data-seen="([^"]*)"', result.stdout)
    assert found, result.stderr[-2000:]
    return json.loads(html.unescape(found.group(1)))


def save(path, nodes, outputs):
    """A model of x [1, 4] → outputs [1, 4]."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, [1, 4]) for o in outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def bench_page(command, folder, model, *more):
    command("bench", model, *more, "--iterations", 6, "--duration", 0, "--warmUp", 0, "--tuning-level", 0, "--threads", 1,
            "--report", folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def against(command, tmp_path_factory):
    """A chain of eight nodes, some hundred nanoseconds long, against another."""
    folder = tmp_path_factory.mktemp("against")
    for name, ops in {"chain": ["Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Tanh", "Sigmoid", "Erf"], "short": ["Tanh"]}.items():
        values = ["x", *[f"v{i}" for i in range(1, len(ops))], "y"]
        save(folder / f"{name}.onnx",
             [helper.make_node(op, [values[i]], [values[i + 1]], name=f"n{i}") for i, op in enumerate(ops)], ["y"])
    return bench_page(command, folder, folder / "chain.onnx", "--against", folder / "short.onnx")


@pytest.fixture(scope="module")
def wide(command, tmp_path_factory):
    """Sixty branches side by side, whose names are long and differ at the end."""
    folder = tmp_path_factory.mktemp("wide")
    nodes = [helper.make_node("CumSum", ["x", "axis"], [f"y{i}"], name="/backbone/features" * 4 + f"/{i}") for i in range(60)]
    axis = helper.make_node("Constant", [], ["axis"], value=helper.make_tensor("a", TensorProto.INT64, [], [1]))
    save(folder / "wide.onnx", [axis, *nodes], [f"y{i}" for i in range(60)])
    return bench_page(command, folder, folder / "wide.onnx")


needs_browser = pytest.mark.skipif(browser.PATH is None, reason="no Chromium on this machine (Ubuntu ships it as a snap only)")


@needs_browser
def test_against_names_both_sides(against, tmp_path):
    seen = probed(against, tmp_path, """
seen.heading = document.querySelector('#errors h2').textContent;
seen.cards = document.getElementById('cards').textContent;""")
    assert seen["heading"] == "Numeric error, chain.onnx against short.onnx"
    assert "(rms) against short.onnx" in seen["cards"] and "unfused" not in seen["cards"]


@needs_browser
def test_memory_is_drawn_over_the_time_of_a_run(page, tmp_path):
    seen = probed(page, tmp_path, """
const svg = document.querySelector('#memory svg'), rects = [...svg.querySelectorAll('rect')], held = data.after.held;
seen.parts = [...svg.querySelectorAll('path')].map(p => p.dataset.part);
seen.steps = rects.length === data.after.steps.rows.length;
seen.titled = rects.every((r, i) => r.textContent.startsWith(held.steps[i].name + ': ') && r.textContent.includes(' held: '));
seen.forwards = rects.every((r, i) => i === 0 || r.x.baseVal.value >= rects[i - 1].x.baseVal.value);
const box = svg.viewBox.baseVal;
seen.inside = [...svg.querySelectorAll('path, text')].every(e => {
  const b = e.getBBox();
  return b.x >= -1 && b.y >= -1 && b.x + b.width <= box.width + 1 && b.y + b.height <= box.height + 1;
});
seen.activations = svg.querySelector('[data-part=activations]').getBBox().height > 100;
seen.peak = svg.textContent.includes(held.peak_step);""")
    assert seen.pop("parts") == ["workspace", "activations", "inputs and outputs"] and all(seen.values()), seen


@needs_browser
def test_axis_labels_of_the_shortest_runs_lie_inside_the_drawing(against, tmp_path):
    seen = probed(against, tmp_path, """
seen.labels = [...document.querySelectorAll('#samples text')].map(t => [t.textContent, t.getBBox().x]);""")
    assert len(seen["labels"]) > 3 and all(x >= 0 for _, x in seen["labels"]), seen
    assert any(re.fullmatch(r"\d+(\.\d+)? (ns|µs)", text) for text, _ in seen["labels"]), seen


@needs_browser
def test_a_cut_list_of_nodes_is_whole_in_its_title_and_found_by_the_filter(against, tmp_path):
    seen = probed(against, tmp_path, """
const cut = [...document.querySelectorAll('#ledger td')].find(td => td.textContent.includes('… (8)'));
seen.title = cut ? cut.title : '';
const input = document.querySelector('#ledger input');
input.value = 'n7'; input.dispatchEvent(new Event('input'));
seen.rows = document.querySelectorAll('#ledger tbody tr').length;""")
    assert seen["title"] == ", ".join(f"n{i}" for i in range(8)) and seen["rows"] > 0, seen


@needs_browser
def test_a_wide_graph_opens_on_its_first_node(wide, tmp_path):
    seen = probed(wide, tmp_path, """
for (const v of allViews) {
  const box = v.box.getBoundingClientRect(), node = v.nodes[0].g.getBoundingClientRect();
  seen[v.side] = [v.box.scrollLeft, (node.left + node.right) / 2 - (box.left + box.right) / 2];
}""")
    assert len(seen) == 2 and all(scrolled > 500 and abs(off) < 20 for scrolled, off in seen.values()), seen


@needs_browser
def test_a_narrow_window_gives_the_bars_a_row_of_their_own(wide, tmp_path):
    seen = probed(wide, tmp_path, "seen.tracks = [...document.querySelectorAll('.bar .track')].map(t => t.clientWidth);", 500)
    assert seen["tracks"] and all(w > 300 for w in seen["tracks"]), seen


@needs_browser
def test_long_names_keep_their_ends(wide, tmp_path):
    # Where the last character of each lies, measured by a range; its box clips what is outside.
    seen = probed(wide, tmp_path, """
for (const [where, query] of [['bars', '.bar .label span'], ['steps', '#steps td.text > span']]) {
  const spans = [...document.querySelectorAll(query)].filter(s => s.textContent.startsWith('/backbone'));
  seen[where] = [spans.length, spans.filter(s => {
    const last = document.createRange(), text = document.createTreeWalker(s, NodeFilter.SHOW_TEXT).nextNode();
    last.setStart(text, text.length - 1); last.setEnd(text, text.length);
    return s.scrollWidth > s.clientWidth && last.getBoundingClientRect().right <= s.getBoundingClientRect().right + 1;
  }).length];
}""")
    assert all(count > 0 and count == whole for count, whole in seen.values()), seen


@needs_browser
def test_numbers_begin_in_a_narrow_window_however_long_the_names_are(wide, tmp_path):
    seen = probed(wide, tmp_path, """
for (const id of ['steps', 'scopes']) {
  const first = document.querySelector(`#${id} th:not(.text)`), wrap = first.closest('.wrap');
  seen[id] = first.getBoundingClientRect().right <= wrap.getBoundingClientRect().right + 1;
}""", 500)
    assert seen == {"steps": True, "scopes": True}, seen


@needs_browser
def test_page_renders_and_sorts_without_an_error(page, tmp_path):
    # The page drives itself: a script behind the page's own clicks headers and filters, and writes what it saw into the title.
    probe = """
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
"""
    seen = probed(page, tmp_path, probe)
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


@pytest.fixture(scope="module")
def judged(command, filled, tmp_path_factory):
    """A report of a machine whose ceilings are known, so that limiters are."""
    report = tmp_path_factory.mktemp("judged") / "report.html"
    command("devices", "--measure", "--threads", 1, timeout=300)
    command("bench", filled("unet.fp32"), "--iterations", 2, "--duration", 0, "--warmUp", 0, "--tuning-level", 0, "--threads", 1,
            "--report", report, timeout=600)
    return report


@needs_browser
def test_what_to_do_comes_first_and_leads_to_its_place(judged, tmp_path):
    seen = probed(judged, tmp_path, """
const first = document.querySelector('main > section:not([hidden])');
const items = [...first.querySelectorAll('ol.advice > li')].slice(0, 5);
seen.items = items.length > 0 && items.every(li => li.querySelector('.won').textContent && li.querySelector('.what').textContent);
const advice = data.after.advice, us = column(advice, 'us'), from = column(advice, 'from');
const bound = r => cellText(r[from]) === 'roof';   // behind what is promised, and said to be one
seen.sorted = advice.rows.every((r, i, all) => i === 0 || bound(all[i - 1]) < bound(r) ||
  (bound(all[i - 1]) === bound(r) && cellValue(all[i - 1][us]) >= cellValue(r[us])));
seen.untried = !first.textContent.includes('when tried');
seen.bounds = items.every((li, i) => li.querySelector('.won').textContent.startsWith('at most ') === bound(advice.rows[i]));
const link = first.querySelector('.where a');
link.click();
const row = document.querySelector('#steps tr.found');
seen.found = row.dataset.name === link.textContent && document.activeElement === row;
const box = row.getBoundingClientRect();
seen.listed = box.height > 0;""")
    assert all(seen.values()), seen


@needs_browser
def test_steps_lie_below_the_roof_and_are_told_by_the_arrow_keys(judged, tmp_path):
    seen = probed(judged, tmp_path, """
const svg = document.querySelector('#roofline svg'), marks = [...svg.querySelectorAll('circle')], roof = data.after.roofline;
seen.every = marks.length === roof.steps.length && marks.length > 5;
seen.roofs = svg.querySelectorAll('path[data-roof]').length === roof.rates.length && roof.rates.length > 0;
const inside = drawing => [...drawing.querySelectorAll('circle, text')].every(e => {
  const b = e.getBBox(), box = drawing.viewBox.baseVal;
  return b.x >= -1 && b.y >= -1 && b.x + b.width <= box.width + 1 && b.y + b.height <= box.height + 1;
});
seen.inside = inside(svg);
// Winograd's steps, which multiply less than is counted, and ceilings that were measured beside other work.
const low = roofDrawing({...roof, rates: roof.rates.map(r => ({...r, flops_per_s: r.flops_per_s / 1000}))}, 1000);
document.body.append(low);
seen.above = inside(low.querySelector('svg'));
low.remove();
const said = document.querySelector('#roofline .said'), press = key => svg.dispatchEvent(new KeyboardEvent('keydown', {key, cancelable: true}));
press('ArrowRight');
const one = said.textContent;
press('ArrowRight');
seen.told = one.includes('limited') || one.includes('roof');
seen.moves = one !== said.textContent && said.getAttribute('aria-live') === 'polite' && svg.querySelectorAll('.chosen').length === 1;
const steps = document.querySelectorAll('#timeline svg rect[fill^="var(--"]').length;
seen.timeline = steps >= data.after.held.steps.length;
seen.limiters = new Set(roof.steps.map(s => s.limiter)).size >= 1 && roof.steps.every(s => s.limiter in causes);""")
    assert all(seen.values()), seen


@needs_browser
def test_limiters_are_named_in_the_nodes_of_the_graph(judged, tmp_path):
    seen = probed(judged, tmp_path, """
document.querySelector('[data-colours] [data-key=limiter]').click();
const named = views.after.nodes.filter(n => n.label);
seen.named = named.length > 5 && named.every(n => n.label.textContent === n.limiter && n.shape.getAttribute('fill') === limiterFill[n.limiter]);
document.querySelector('[data-colours] [data-key=groups]').click();
seen.gone = views.after.nodes.every(n => !n.label);""")
    assert all(seen.values()), seen


@needs_browser
def test_fused_groups_are_set_against_their_nodes_before(judged, tmp_path):
    seen = probed(judged, tmp_path, """
const t = data.groups, before = column(t, 'before_us'), after = column(t, 'after_us'), saved = column(t, 'saved_us');
seen.rows = t.rows.length > 3;
seen.sums = t.rows.every(r => Math.abs(cellValue(r[before]) - cellValue(r[after]) - cellValue(r[saved])) < 1e-6);
seen.known = t.rows.some(r => cellValue(r[before]) > 0);
seen.nodes = document.querySelectorAll('#nodes tbody tr').length > 10;""")
    assert all(seen.values()), seen


@needs_browser
def test_a_waterfall_leads_from_before_to_after(judged, tmp_path):
    seen = probed(judged, tmp_path, """
const t = data.waterfall, rows = t.rows, part = column(t, 'part'), from = column(t, 'from_us'), to = column(t, 'to_us');
seen.ends = cellText(rows[0][part]) === 'before' && cellText(rows[rows.length - 1][part]) === 'after' && rows.length > 4;
const near = (a, b) => Math.abs(a - b) < 1e-6 * cellValue(rows[0][to]);
seen.joined = rows.slice(1, -1).every((r, i) => near(cellValue(r[from]), cellValue(rows[i][to])));
seen.arrives = near(cellValue(rows[rows.length - 2][to]), cellValue(rows[rows.length - 1][to]));
const sum = s => data[s].steps.rows.reduce((n, r) => n + cellValue(r[column(data[s].steps, 'self_us')]), 0);
seen.sums = near(sum('before'), cellValue(rows[0][to])) && near(sum('after'), cellValue(rows[rows.length - 1][to]));
const svg = document.querySelector('#waterfall svg'), box = svg.viewBox.baseVal;
seen.drawn = svg.querySelectorAll('rect').length === rows.length;
seen.inside = [...svg.querySelectorAll('rect, text')].every(e => {
  const b = e.getBBox();
  return b.x >= -1 && b.y >= -1 && b.x + b.width <= box.width + 1 && b.y + b.height <= box.height + 1;
});
svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', cancelable: true}));
seen.told = document.querySelector('#waterfall .said').textContent.startsWith('before: ');""")
    assert all(seen.values()), seen


@pytest.fixture(scope="module")
def together(command, tmp_path_factory):
    """A report of two models on the same cores."""
    folder = tmp_path_factory.mktemp("together")
    for name in ("first", "second"):
        save(folder / f"{name}.onnx", [helper.make_node("Tanh", ["x"], ["h"], name="a"),
                                       helper.make_node("CumSum", ["h", "axis"], ["y"], name="b")], ["y"])
        model = onnx.load(folder / f"{name}.onnx")
        model.graph.initializer.append(helper.make_tensor("axis", TensorProto.INT64, [], [1]))
        onnx.save(model, folder / f"{name}.onnx")
    command("profile", folder / "first.onnx", "--with", folder / "second.onnx", "--rate", 200, "--seconds", 0.3, "--tuning-level", 0,
            "--report", folder / "report.html")
    return folder / "report.html"


@needs_browser
@pytest.mark.parametrize("width", [400, 1400])
def test_models_together_are_on_one_timeline(together, tmp_path, width):
    seen = probed(together, tmp_path, """
const section = document.getElementById('together'), line = data.together.timelines[0], svg = section.querySelector('figure svg');
seen.verdict = document.getElementById('verdict').textContent.startsWith('Beside second.onnx a request to first.onnx takes ');
seen.rows = [...svg.querySelectorAll('text')].slice(0, 1).every(t => t.textContent === 'first.onnx') && svg.textContent.includes('second.onnx');
const requests = line.models.reduce((n, m) => n + m.requests.length, 0);
seen.requests = requests > 4;
const press = () => svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', cancelable: true}));
press();
const said = section.querySelector('.said').textContent;
press();
seen.told = said.includes('.onnx: a request of ') && said !== section.querySelector('.said').textContent;
seen.remedies = section.querySelectorAll('table')[0].textContent.includes('the others yield');
seen.others = ['next', 'roofline', 'bars', 'steps', 'graphs', 'waterfall', 'memory'].every(id => document.getElementById(id).hidden);
seen.fits = document.documentElement.scrollWidth <= innerWidth + 1;
const box = svg.viewBox.baseVal;
seen.inside = [...svg.querySelectorAll('rect, text')].every(e => {
  const b = e.getBBox();
  return b.x >= -1 && b.x + b.width <= box.width + 1;
});""", width)
    assert all(seen.values()), seen


@needs_browser
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_window_and_everything_has_a_name(judged, tmp_path, width):
    seen = probed(judged, tmp_path, """
seen.width = innerWidth;
seen.fits = document.documentElement.scrollWidth <= innerWidth + 1;
const name = e => (e.getAttribute('aria-label') || e.textContent || e.getAttribute('title') || '').trim();
const shown = e => e.getClientRects().length > 0;
seen.unnamed = [...document.querySelectorAll('button, a[href], input, [tabindex], [role=img], [role=region]')]
  .filter(e => shown(e) && !name(e)).map(e => e.outerHTML.slice(0, 80));
seen.small = [...document.querySelectorAll('#roofline svg, #timeline svg, #waterfall svg, #memory svg')].filter(s => s.getBoundingClientRect().width < 0.9 * s.viewBox.baseVal.width).length;
seen.headings = [...document.querySelectorAll('main > section:not([hidden])')].every(s => s.querySelector('h2').textContent.trim());
const button = document.querySelector('#steps th button');
button.focus();
seen.focus = document.activeElement === button;
button.click();
seen.sorted = button.closest('th').getAttribute('aria-sort') === 'descending';""", width)
    assert seen.pop("unnamed") == [] and seen.pop("small") == 0, seen
    assert seen.pop("width") <= max(width, 500) and all(seen.values()), seen


@needs_browser
def test_on_paper_tables_are_whole_and_readable(judged, tmp_path):
    """The rules of print, applied to a window as wide as A4 across."""
    printed = tmp_path / "printed.html"
    text = judged.read_text()
    assert text.count("@media print {") == 1 and "@page { size: A4 landscape" in text
    printed.write_text(text.replace("@media print {", "@media all {"))
    seen = probed(printed, tmp_path, """
const shown = e => e.getClientRects().length > 0;
seen.plain = !['nav', '.toolbar', '.tabs', '.skip', '#graphs'].some(q => [...document.querySelectorAll(q)].some(shown));
seen.whole = [...document.querySelectorAll('.wrap')].filter(shown).every(w => w.scrollHeight <= w.clientHeight + 1);
seen.fits = document.documentElement.scrollWidth <= innerWidth + 1;
seen.names = [...document.querySelectorAll('#steps td[data-key=name], #steps td[data-key=because]')].every(td => td.clientWidth >= 150);
seen.uncut = [...document.querySelectorAll('#steps td.text > span')].filter(shown).every(s => s.scrollWidth <= s.clientWidth + 1);
seen.words = [...document.querySelectorAll('td.word')].filter(shown).every(td => td.firstChild.getClientRects === undefined ||
  td.firstChild.getBoundingClientRect().height < 20);
seen.heads = [...document.querySelectorAll('th')].filter(shown).every(th => getComputedStyle(th).position === 'static' &&
  getComputedStyle(th.querySelector('button')).display === 'contents');""", 1047)
    assert all(seen.values()), seen
