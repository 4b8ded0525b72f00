"""The HTML report on a phone and on a desk, by keyboard, by screen reader, and on paper: in headless Chromium, as these see it."""
import itertools
import re

import pytest
from browser import PATH, Browser
from test_report_page import judged  # noqa: F401

pytestmark = pytest.mark.skipif(PATH is None, reason="no Chromium on this machine (Ubuntu ships it as a snap only)")
WIDTHS = [pytest.param(390, id="phone"), pytest.param(1440, id="desk")]


@pytest.fixture
def opened(judged):  # noqa: F811
    browsers = []

    def open_at(width):
        browsers.append(Browser(f"file://{judged}", width, mobile=width < 600))
        return browsers[-1]

    yield open_at
    for b in browsers:
        b.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_as_wide_as_the_window_and_logs_no_error(opened, width, tmp_path):
    page = opened(width)
    assert page.run("[innerWidth, document.documentElement.scrollWidth <= innerWidth]") == [width, True] and page.errors == []
    wide = page.run("""[...document.querySelectorAll('main > section:not([hidden]), header, nav')].filter(s => {
      const b = s.getBoundingClientRect();
      return b.left < -1 || b.right > innerWidth + 1;
    }).map(s => s.id || s.tagName)""")
    assert wide == []
    small = page.run("""[...document.querySelectorAll('nav a, button, summary, input')].filter(e => e.getClientRects().length &&
      !e.closest('th') && e.getBoundingClientRect().height < 24).map(e => e.outerHTML.slice(0, 80))""")
    assert width > 600 or small == [], "too small for a finger"
    assert page.run("(q => q.scrollWidth <= q.clientWidth)(document.querySelector('#qa .wrap'))"), "before and after are seen at once"
    page.picture(tmp_path / "page.png", whole=True)
    assert (tmp_path / "page.png").stat().st_size > 50_000


# What a user can act on: each gets a number, by which the focus is followed.
CONTROLS = """
window.controls = [...document.querySelectorAll('a[href], button, input, summary, [tabindex]')].filter(e =>
  e.tabIndex >= 0 && e.getClientRects().length && !e.closest('details:not([open]) > :not(summary)'));
controls.length"""
FOCUSED = """(() => {
  const e = document.activeElement, s = getComputedStyle(e);
  return [controls.indexOf(e), e === document.body || s.outlineStyle !== 'none' || s.boxShadow !== 'none'];
})()"""


@pytest.mark.parametrize("width", WIDTHS)
def test_tab_reaches_every_control_in_order_and_is_seen(opened, width):
    page = opened(width)
    count = page.run(CONTROLS)
    assert count > 40
    met = []
    for _ in range(count + 5):
        page.press("Tab")
        at, seen = page.run(FOCUSED)
        if at < 0:
            break  # past the last
        assert seen, page.run(f"controls[{at}].outerHTML.slice(0, 200)")
        met.append(at)
    missed = set(range(count)) - set(met)
    assert not missed, [page.run(f"controls[{i}].outerHTML.slice(0, 120)") for i in sorted(missed)[:5]]
    assert met == sorted(met), "in the page's order"


def test_each_control_is_operated_by_its_key(opened):
    page = opened(1440)
    page.run(CONTROLS)

    def do(selector, effect, key="Enter", text="\r"):
        """Focuses each element of a selector that is shown, presses the key, and sees the effect."""
        elements = f"[...document.querySelectorAll({selector!r})].filter(e => controls.includes(e))"
        count = page.run(f"{elements}.length")
        assert count > 0, selector
        for i in range(count):
            page.run(f"window.one = {elements}[{i}]; window.was = ({effect})(one); one.focus()")
            page.press(key, text=text)
            assert page.run(f"({effect})(one)") != page.run("was"), (selector, page.run("one.outerHTML.slice(0, 200)"))

    do("button[data-key][aria-pressed=false]", "e => e.getAttribute('aria-pressed')")
    page.run(CONTROLS)  # what was pressed has drawn tables anew
    do("#steps th button", "e => e.closest('th').getAttribute('aria-sort')")
    do("summary", "e => e.parentElement.open")
    page.run(CONTROLS)
    do("#next .where a", "e => document.activeElement.dataset.name === e.textContent")
    do("svg[tabindex]", "e => e.parentElement.parentElement.querySelector('.said')?.textContent", "ArrowRight", None)
    do("#steps input", "e => document.querySelectorAll('#steps tbody tr').length", "~", "~")
    assert page.errors == []


NAMED = {"button", "link", "searchbox", "textbox", "image", "img", "region", "table", "heading", "columnheader", "figure", "navigation",
         "graphics-symbol", "DisclosureTriangle"}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_screen_reader_is_told_what_everything_is(opened, width):
    page = opened(width)
    tree = page.tree()
    roles = {role for role, _ in tree}
    assert {"RootWebArea", "banner", "navigation", "main", "heading", "button", "link", "searchbox", "table", "columnheader", "cell",
            "region"} <= roles
    unnamed = [(role, name) for role, name in tree if role in NAMED - {"figure"} and not name]
    assert unnamed == []
    said = [name for role, name in tree if role == "heading"]
    assert "Why slow, what next" in said and "Steps below the machine's roof" in said
    levels = page.run("[...document.querySelectorAll('h1, h2, h3')].filter(h => h.getClientRects().length).map(h => +h.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert page.run("document.documentElement.lang") == "en" and page.run("document.title.length") > 5
    assert page.run("""[...document.querySelectorAll('svg[tabindex]')].every(s => (s.getAttribute('aria-label') || '').length > 10)""")


def test_texts_stand_out_from_what_is_behind_them(opened):
    """WCAG's contrast of small text, 4.5, in light and dark."""
    page = opened(1440)
    for scheme in ("light", "dark"):
        page("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        faint = page.run("""(() => {
          const numbers = c => (c.match(/[\\d.]+/g) || []).map(Number);
          const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const behind = e => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] > 0.5) return c; } return [255, 255, 255]; };
          const texts = [...document.querySelectorAll('p, li, h1, h2, td, th button, button, a, dt, dd, .card span, .card b, summary, figcaption')]
            .filter(e => e.getClientRects().length && e.textContent.trim() && !e.closest('svg') && e.getBoundingClientRect().right > 0);
          return texts.map(e => { const a = light(numbers(getComputedStyle(e).color)), b = light(behind(e));
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 100)]; }).filter(([c]) => c < 4.5).slice(0, 5);
        })()""")
        assert faint == [], scheme


def test_on_paper_a_bar_has_its_words_beside_it(opened):
    """Chromium asks for rules about paper upright, 739 pixels wide, before it lays the page across."""
    page = opened(739)
    tops = "[...document.querySelector('.bar').children].map(e => Math.round(e.getBoundingClientRect().top))"
    assert max(page.run(tops)) - min(page.run(tops)) > 12, "on the screen its track is below"
    page("Emulation.setEmulatedMedia", media="print")
    assert max(page.run(tops)) - min(page.run(tops)) < 12


def test_it_prints(opened, tmp_path):
    opened(1440).print(tmp_path / "page.pdf")
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) < 60
